// The line above the composer: what went wrong or goes on, as a sentence, with the one thing to do about it.

import { el, relative } from "./dom.js";
import { WORDS } from "./words.js";

export class Note {
  #timer = 0;
  #about = "";

  constructor(place) {
    this.place = place;
  }

  /** Something to know. `about` names it for `clear`. */
  say(sentence, { action = null, about = "" } = {}) {
    this.#show(sentence, "cm-told", about, action);
  }

  /** Something that went wrong; with `seconds`, how long to wait counts down. */
  fail(sentence, { action = null, seconds = 0, about = "" } = {}) {
    this.#show(sentence, "cm-failed", about, action);
    if (seconds) this.#count(seconds);
  }

  /** Takes the note away; with `about`, only one of that name. */
  clear(about = null) {
    if (about !== null && about !== this.#about) return;
    clearTimeout(this.#timer);
    this.place.replaceChildren();
    this.#about = "";
  }

  #show(sentence, kind, about, action = null) {
    this.clear();
    this.#about = about;
    this.place.append(el("p", { class: `cm-note ${kind}` }, el("span", {}, sentence), action));
  }

  /** Counts the seconds down beside the sentence. Who listens hears the first number alone. */
  #count(seconds) {
    const left = el("strong", { class: "cm-left" }, words(seconds));
    this.place.firstElementChild.append(left);
    left.setAttribute("aria-live", "off");
    const end = Date.now() + seconds * 1000;
    const tick = () => {
      const rest = Math.ceil((end - Date.now()) / 1000);
      if (rest <= 0) this.say(WORDS.again_now);
      else {
        left.textContent = words(rest);
        this.#timer = setTimeout(tick, 1000);
      }
    };
    this.#timer = setTimeout(tick, 1000);
  }
}

const words = (seconds) => `Try again ${relative(seconds)}.`;
