// Where messages are typed: the field that grows with them, its keys, the buttons beside it.

import { id, on, submitted } from "./dom.js";
import * as unsent from "./unsent.js";

const HIGHEST = 240; // pixels
const TALL = 5000; // letters that fill the field whatever they are: measuring more takes long

export class Composer {
  #field = id("message");
  #isBusy = false;

  /** `send` is given a message, `stop` is called by the button of that name. */
  constructor({ send, stop }) {
    this.send = send;
    this.#field.value = unsent.draft();
    this.#grow();
    this.#field.addEventListener("input", () => this.#changed());
    this.#field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#submit();
    });
    submitted("composer", () => this.#submit());
    on("stop", (event) => event.detail < 2 && stop()); // the second of a double click on "Send", in whose place it is
    for (const one of document.querySelectorAll("[data-ask]")) one.addEventListener("click", () => !this.#isBusy && send(one.textContent.trim()));
  }

  focus() {
    this.#field.focus();
  }

  clear() {
    this.#put("");
  }

  /** While a reply is read, nothing is sent; typing goes on. */
  busy(isBusy) {
    this.#isBusy = isBusy;
    id("stop").hidden = !isBusy;
    id("send").hidden = isBusy;
    id("messages").setAttribute("aria-busy", String(isBusy));
    id("hint").hidden = isBusy;
    id("hint-busy").hidden = !isBusy;
  }

  /** Gives back what was not sent. What was typed since stands below it. */
  giveBack(message) {
    const since = this.#field.value;
    if (message && message !== since) this.#put(since.trim() ? `${message}\n\n${since}` : message);
  }

  #submit() {
    const message = this.#field.value;
    if (this.#isBusy || !message.trim()) return;
    this.#put("");
    this.send(message);
  }

  #put(text) {
    this.#field.value = text;
    this.#changed();
  }

  #changed() {
    unsent.keepDraft(this.#field.value);
    this.#grow();
  }

  #grow() {
    this.#field.style.height = "auto";
    const height = this.#field.value.length > TALL ? HIGHEST : Math.min(this.#field.scrollHeight + 2, HIGHEST);
    this.#field.style.height = `${height}px`;
  }
}
