// The pins of the open chat: what holds there until it is taken back, and stands in every prompt.

import { call } from "./api.js";
import { announce, el, hint, id, link, time } from "./dom.js";
import { WORDS } from "./words.js";

export class Pins {
  #chatId = null;
  #asked = 0;

  /** `changed` is told that the next prompt is another, `failed` what went wrong. */
  constructor({ changed, failed }) {
    Object.assign(this, { changed, failed });
  }

  /** Shows the pins of a chat, or of none. */
  async open(chatId) {
    this.#chatId = chatId;
    this.#asked++;
    id("pins").replaceChildren();
    id("pins-box").hidden = !chatId;
    if (chatId) await this.refresh();
  }

  /** Looks again. */
  async refresh() {
    if (!this.#chatId) return;
    const asked = ++this.#asked;
    try {
      const { results } = await call("GET", `chats/${this.#chatId}/pins?limit=200`); // there are never more
      if (asked === this.#asked) this.#draw(results);
    } catch (error) {
      if (error.status !== 404) this.failed(error); // the chat is gone: the page says so
    }
  }

  async pin(message) {
    await this.#change(() => call("POST", `chats/${message.chat_id}/pins`, { body: { message_id: message.id } }), "Pinned.");
  }

  async #remove(pin) {
    await this.#change(() => call("DELETE", `chats/${this.#chatId}/pins/${pin.id}`), "The pin was removed.");
    id("pins-title").focus();
  }

  async #change(work, sentence) {
    try {
      await work();
      announce(sentence);
      await this.refresh();
      this.changed();
    } catch (error) {
      this.failed(error);
    }
  }

  #draw(pins) {
    id("pins-about").textContent = pins.length || "";
    const rows = pins.map((one) =>
      el(
        "li",
        { class: "cm-version" },
        el("p", { class: "cm-pin", dir: "auto" }, one.text),
        hint(`${WORDS.pinned[one.by] ?? one.by} · `, time(one.created_at), " ", link("Remove", () => this.#remove(one), { "aria-label": `Remove the pin: ${one.text.slice(0, 60)}` })),
      ),
    );
    const none = el("li", { class: "cm-hint" }, WORDS.no_pins);
    id("pins").replaceChildren(...(rows.length ? rows : [none]));
  }
}
