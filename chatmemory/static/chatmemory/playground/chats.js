// The list of chats: newest first, searched by title.

import { call, queryOf } from "./api.js";
import { counted, el, id, link, time } from "./dom.js";
import { WORDS } from "./words.js";

export const titleOf = (chat) => chat.title || (chat.temporary ? "Temporary chat" : "Untitled chat");

const FOUND = 10; // chats of a search that are shown at first: messages are listed below them

export class Chats {
  #asked = 0;
  #chats = [];
  #search = "";
  #next = null;
  #current = null;

  /** `opened` is told which chat was chosen, `failed` what went wrong. */
  constructor(opened, failed) {
    Object.assign(this, { opened, failed });
  }

  /** The newest chats that the search finds. */
  async load() {
    const search = id("search").value.trim();
    const page = await this.#page(search ? `?limit=${FOUND}&search=${encodeURIComponent(search)}` : "");
    if (!page) return;
    [this.#chats, this.#next, this.#search] = [page.results, queryOf(page.next), search];
    this.#draw();
  }

  /** Takes in a chat as it is now, a new one too; not one that further pages or another search would show. */
  put(chat) {
    if (chat.temporary) return; // it is in no list
    const others = this.#chats.filter((one) => one.id !== chat.id);
    const isKnown = others.length < this.#chats.length;
    const isFurther = this.#next && chat.id < this.#chats.at(-1).id;
    if (!isKnown && (this.#search || isFurther)) return;
    this.#chats = [chat, ...others].sort((one, other) => (one.id < other.id ? 1 : -1)); // ids tell the time
    this.#draw();
  }

  find(chatId) {
    return this.#chats.find((one) => one.id === chatId);
  }

  mark(chatId) {
    this.#current = chatId;
    for (const one of this.#rows()) one.toggleAttribute("aria-current", one.dataset.id === chatId);
  }

  drop(chatId) {
    this.#chats = this.#chats.filter((one) => one.id !== chatId);
    this.#draw();
  }

  clear() {
    this.#asked++;
    this.#chats = [];
    this.#next = null;
    this.#search = "";
    id("search").value = "";
    id("chats").replaceChildren();
  }

  async #more() {
    const before = this.#chats.length;
    const page = await this.#page(this.#next);
    if (!page) return;
    this.#chats.push(...page.results);
    this.#next = queryOf(page.next);
    this.#draw();
    this.#rows()[before]?.focus();
  }

  /** Null where something else was asked for meanwhile. */
  async #page(query) {
    const asked = ++this.#asked;
    const page = await call("GET", `chats${query}`);
    return asked === this.#asked ? page : null;
  }

  #rows() {
    return id("chats").querySelectorAll("button[data-id]");
  }

  #draw() {
    const focused = document.activeElement?.dataset.id;
    const rows = this.#chats.map((chat) =>
      el(
        "li",
        {},
        el(
          "button",
          { type: "button", class: "cm-chat", "data-id": chat.id, "aria-current": chat.id === this.#current, onclick: () => this.opened(chat.id) },
          el("span", { class: "cm-chat-title", dir: "auto", title: titleOf(chat) }, titleOf(chat)),
          el("span", { class: "cm-chat-about" }, `${chat.project ? `${chat.project} · ` : ""}${counted(chat.message_count, "message")} · `, time(chat.updated_at)),
        ),
      ),
    );
    const others = el("span", { class: "cm-for-staff" }, WORDS.own_chats, " ", el("a", { href: "/admin/conversations/chat/" }, "All chats are in the admin"));
    const empty = this.#search ? el("li", { class: "cm-empty cm-nothing" }, WORDS.no_hits) : el("li", { class: "cm-empty" }, WORDS.no_chats, " ", others);
    const more = this.#next ? [el("li", {}, link("More chats", () => this.#more().catch(this.failed)))] : [];
    id("chats").replaceChildren(...(rows.length ? rows : [empty]), ...more);
    if (focused) [...this.#rows()].find((one) => one.dataset.id === focused)?.focus();
  }
}
