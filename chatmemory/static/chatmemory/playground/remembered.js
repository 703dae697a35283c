// "What do you remember about me?": what the chats share, who decided that, and each line that several of them have.

import { ApiError, call, queryOf } from "./api.js";
import { announce, counted, el, hint, id, link, on, time } from "./dom.js";
import { correctionOf, muting, pathOf, placeOf } from "./lines.js";
import { SPEAKERS } from "./message.js";
import { WORDS } from "./words.js";

export class Remembered {
  #asked = 0;
  #isChanged = false;

  /** `goTo` opens a message of a chat, `changed` is called where the next prompt may be another one. */
  constructor({ goTo, changed }) {
    Object.assign(this, { goTo, changed });
    on("remembered-open", () => this.open());
    id("remembered").addEventListener("close", () => this.#isChanged && this.changed());
    id("shared").addEventListener("change", () => this.#change(() => this.#decide(), "Saved.", () => this.#load()));
  }

  open() {
    this.#isChanged = false;
    this.#clear();
    id("remembered").showModal();
    this.#tried(() => this.#load());
  }

  /** Leaves nothing of it behind. */
  close() {
    this.#asked++;
    id("remembered").close();
    this.#clear();
  }

  #clear() {
    id("remembered-told").textContent = "";
    id("remembered-all").hidden = true;
    for (const name of ["remembered-lines", "remembered-quoted"]) id(name).replaceChildren();
  }

  async #load() {
    const asked = ++this.#asked;
    const found = await call("GET", "me/memory");
    if (asked !== this.#asked) return;
    this.#drawShared(found);
    const isOff = found.across === "off";
    const none = el("li", { class: "cm-hint" }, isOff ? WORDS.shares_nothing : WORDS.no_lines);
    id("remembered-lines").replaceChildren(...(found.results.length ? [] : [none]));
    this.#drawLines(found);
    const unquoted = el("li", { class: "cm-hint" }, WORDS.none_quoted[found.across]);
    id("remembered-quoted").replaceChildren(...(found.quoted.length ? found.quoted.map((one) => this.#row(one)) : [unquoted]));
    id("remembered-all").hidden = false;
  }

  #drawShared({ across, decided_by: by, given_at: at, lifts_pins: lifts }) {
    const chosen = id("shared").elements;
    chosen.across.value = across;
    Object.assign(chosen.lifts_pins, { checked: lifts && across !== "off", disabled: across === "off" });
    id("shared-by").replaceChildren(WORDS.decided[by], ...(at ? [", ", time(at)] : []), ".");
  }

  async #decide() {
    const { across, lifts_pins: lifts } = id("shared").elements;
    await call("PUT", "me/memory", { body: { across: across.value, lifts_pins: lifts.checked } });
  }

  #drawLines({ results, next }) {
    const more = queryOf(next);
    const further = more ? el("li", {}, link("More", () => this.#tried(() => this.#more(more, further)))) : "";
    id("remembered-lines").append(...results.map((one) => this.#row(one)), further);
  }

  async #more(query, further) {
    const asked = this.#asked;
    const found = await call("GET", `me/memory${query}`);
    if (asked !== this.#asked) return;
    const last = further.previousElementSibling;
    further.remove();
    this.#drawLines(found);
    last?.nextElementSibling?.querySelector("button")?.focus();
  }

  /** A pin, or a message that other chats quoted. */
  #row(one) {
    const { scope, project, role, used, muted, text } = one;
    const where = scope ? `${scope === "project" ? `in the project ${project}` : "in all your chats"} · said in ` : `${SPEAKERS[role]}, in `;
    const said = used ? `used in ${counted(used, "reply", "replies")}` : "not used yet";
    const made = el("li", { class: muted ? "cm-version cm-muted" : "cm-version" }, el("p", { class: "cm-pin", dir: "auto" }, text), hint(where, placeOf(one, this.goTo), ` · ${said}${muted ? " · not used now" : ""}`));
    const isNow = (fields) => {
      const again = this.#row({ ...one, ...fields });
      made.replaceWith(again);
      again.querySelector(".cm-links button").focus();
    };
    const act = (words, work) => link(words, work, { "aria-label": `${words}: ${text.slice(0, 60)}` });
    const mute = muting(one, (work, sentence) => this.#change(work, sentence, () => isNow({ muted: !muted })));
    const correct = async () => {
      const right = await correctionOf(one);
      if (right) this.#change(() => call("PATCH", pathOf(one), { body: { text: right } }), "Corrected.", () => isNow({ text: right }));
    };
    const keep = () => this.#change(() => call("PATCH", pathOf(one), { body: { scope: "chat" } }), "It now holds only in its chat.", () => this.#drop(made));
    const remove = () => this.#change(() => call("DELETE", pathOf(one)), "Removed.", () => this.#drop(made));
    made.append(el("p", { class: "cm-links" }, scope ? [act("Correct", correct), mute, act("Only in this chat", keep), act("Remove", remove)] : [mute]));
    return made;
  }

  async #drop(row) {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    if (!next) await this.#load(); // says that there is nothing
    (next?.querySelector("button") ?? id("remembered-lines-title")).focus();
  }

  /** Does `work`, and then what shows it. */
  #change(work, sentence, shown) {
    return this.#tried(async () => {
      await work();
      this.#isChanged = true;
      announce(sentence);
      await shown();
    });
  }

  async #tried(work) {
    id("remembered-told").textContent = "";
    try {
      await work();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      id("remembered-told").textContent = error.message;
    }
  }
}
