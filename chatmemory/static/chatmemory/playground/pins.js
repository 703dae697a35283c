// The pins of the open chat: what holds there until it is taken back, and stands in every prompt.

import { call } from "./api.js";
import { announce, el, hint, id, link, time } from "./dom.js";
import { correctionOf, muting } from "./lines.js";
import { WORDS } from "./words.js";

export class Pins {
  #chat = null;
  #asked = 0;

  /** `changed` is told that the next prompt is another, `unshared` that a pin would hold elsewhere but nothing is shared, `failed` what went wrong. */
  constructor({ changed, unshared, failed }) {
    Object.assign(this, { changed, unshared, failed });
  }

  /** Shows the pins of a chat, or of none. */
  async open(chat) {
    this.#chat = chat;
    this.#asked++;
    id("pins").replaceChildren();
    id("pins-box").hidden = !chat;
    if (chat) await this.refresh();
  }

  /** Looks again. */
  async refresh() {
    if (!this.#chat) return;
    const asked = ++this.#asked;
    try {
      const { results } = await call("GET", `chats/${this.#chat.id}/pins?limit=200`); // there are never more
      if (asked === this.#asked) this.#draw(results);
    } catch (error) {
      if (error.status !== 404) this.failed(error); // the chat is gone: the page says so
    }
  }

  async pin(message) {
    await this.#change(() => call("POST", `chats/${message.chat_id}/pins`, { body: { message_id: message.id } }), "Pinned.");
  }

  async #remove(pin) {
    await this.#changeOne(pin, () => call("DELETE", this.#pathOf(pin)), "The pin was removed.");
  }

  #pathOf(pin) {
    return `chats/${this.#chat.id}/pins/${pin.id}`;
  }

  async #correct(pin) {
    const text = await correctionOf(pin);
    if (text) await this.#put(pin, { text }, "Corrected.");
  }

  #put(pin, body, sentence) {
    return this.#changeOne(pin, () => call("PATCH", this.#pathOf(pin), { body }), sentence);
  }

  /** Whether it is done. */
  async #changeOne(pin, work, sentence) {
    const isDone = await this.#change(work, sentence);
    const row = [...id("pins").children].find((one) => one.dataset.id === pin.id);
    (row?.querySelector("select, button") ?? id("pins-title")).focus();
    return isDone;
  }

  /** Has a pin hold elsewhere, too, or no longer. */
  async #lift(pin, scope) {
    if (!(await this.#put(pin, { scope }, `Holds in ${WORDS.scopes[scope]}.`)) || scope === "chat") return;
    const { across } = await call("GET", "me/memory?limit=1");
    if (across === "off" || this.#chat.across === "off") this.unshared();
  }

  /** Where a pin holds, to be chosen. A temporary chat shares nothing. */
  #scope(pin) {
    if (this.#chat.temporary) return null;
    const names = Object.keys(WORDS.scopes).filter((one) => one !== "project" || this.#chat.project || pin.scope === one);
    const chosen = el("select", { "aria-label": `Where it holds: ${pin.text.slice(0, 60)}` }, names.map((one) => el("option", { value: one, selected: one === pin.scope }, WORDS.scopes[one])));
    chosen.addEventListener("change", () => this.#lift(pin, chosen.value).catch(this.failed));
    return el("span", { class: "cm-pick" }, "Holds in ", chosen);
  }

  async #change(work, sentence) {
    try {
      await work();
      announce(sentence);
      await this.refresh();
      this.changed();
      return true;
    } catch (error) {
      this.failed(error);
      return false;
    }
  }

  #draw(pins) {
    id("pins-about").textContent = pins.length || "";
    const rows = pins.map((one) =>
      el(
        "li",
        { class: one.muted ? "cm-version cm-muted" : "cm-version", "data-id": one.id },
        el("p", { class: "cm-pin", dir: "auto" }, one.text),
        hint(`${WORDS.pinned[one.by] ?? one.by} · `, time(one.created_at), one.muted ? " · not used now" : ""),
        this.#scope(one),
        el(
          "p",
          { class: "cm-links" },
          link("Correct", () => this.#correct(one), { "aria-label": `Correct the pin: ${one.text.slice(0, 60)}` }),
          muting({ ...one, chat_id: this.#chat.id }, (work, sentence) => this.#changeOne(one, work, sentence)),
          link("Remove", () => this.#remove(one), { "aria-label": `Remove the pin: ${one.text.slice(0, 60)}` }),
        ),
      ),
    );
    const none = el("li", { class: "cm-hint" }, WORDS.no_pins);
    id("pins").replaceChildren(...(rows.length ? rows : [none]));
  }
}
