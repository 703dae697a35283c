// The list of chats: newest first, searched by title.

import { call, queryOf } from "./api.js";
import { button, counted, el, id, time } from "./dom.js";

export const titleOf = (chat) => chat.title || "Untitled chat";

export class Chats {
  #asked = 0;
  #chats = [];
  #next = null;
  #current = null;

  /** `opened` is told which chat was chosen, `failed` what went wrong. */
  constructor(opened, failed) {
    Object.assign(this, { opened, failed });
    let typing;
    id("search").addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => this.load().catch(failed), 200);
    });
  }

  /** The newest chats that the search finds. */
  async load() {
    const search = id("search").value.trim();
    await this.#page(search ? `?search=${encodeURIComponent(search)}` : "", []);
    if (!this.#chats.length) id("chats").append(el("li", { class: "cm-empty" }, search ? "No chat has this in its title." : "No chats yet."));
  }

  mark(chatId) {
    this.#current = chatId;
    for (const one of id("chats").querySelectorAll("button[data-id]")) one.toggleAttribute("aria-current", one.dataset.id === chatId);
  }

  async #page(query, before) {
    const asked = ++this.#asked;
    const page = await call("GET", `chats${query}`);
    if (asked !== this.#asked) return; // typed on meanwhile
    this.#chats = [...before, ...page.results];
    this.#next = queryOf(page.next);
    this.#draw();
  }

  #draw() {
    const rows = this.#chats.map((chat) =>
      el(
        "li",
        {},
        el(
          "button",
          { type: "button", class: "cm-chat", "data-id": chat.id, "aria-current": chat.id === this.#current, onclick: () => this.opened(chat.id) },
          el("span", { class: "cm-chat-title", dir: "auto" }, titleOf(chat)),
          el("span", { class: "cm-chat-about" }, `${counted(chat.message_count, "message")} · `, time(chat.updated_at)),
        ),
      ),
    );
    const more = this.#next ? el("li", {}, button("More chats", () => this.#page(this.#next, this.#chats).catch(this.failed), { kind: "plain" })) : null;
    id("chats").replaceChildren(...rows, ...(more ? [more] : []));
  }
}
