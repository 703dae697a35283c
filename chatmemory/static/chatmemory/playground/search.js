// Search in titles and in what was said: chats above, messages below, and the keys that go through them.

import { ApiError, call } from "./api.js";
import { titleOf } from "./chats.js";
import { announce, counted, el, id, time } from "./dom.js";
import { SPEAKERS } from "./message.js";
import { WORDS } from "./words.js";

const MOST = 10;
const LEAST = 2; // letters from which on messages are searched
const BEFORE = 40; // code points of a snippet before its first match
const LENGTH = 180;
const PAUSE_MS = 250;

export class Search {
  #asked = 0;
  #titles = new Map();
  #isShown = true; // what is listed is what was asked for

  /** `goTo` is called with the message that was chosen, and the title of its chat. */
  constructor(chats, { goTo, failed }) {
    Object.assign(this, { chats, goTo, failed });
    let typing;
    id("search").addEventListener("input", () => {
      clearTimeout(typing);
      this.#isShown = false;
      typing = setTimeout(() => this.#look(), PAUSE_MS);
    });
    for (const name of ["search", "chats", "hits"]) id(name).addEventListener("keydown", (event) => this.#key(event));
  }

  clear() {
    this.#asked++;
    this.#titles.clear();
    this.#show([]);
  }

  async #look() {
    const asked = ++this.#asked;
    const words = id("search").value.trim();
    const isShort = [...words].length < LEAST;
    if (isShort) this.#show([]);
    const messages = isShort ? null : this.#messages(words, asked).catch((error) => asked === this.#asked && this.#wrong(error));
    await Promise.all([this.chats.load().catch(this.failed), messages]);
    if (asked === this.#asked) this.#isShown = true;
  }

  async #messages(words, asked) {
    this.#tell(WORDS.searching);
    const { results } = await call("POST", "search", { body: { q: words, limit: MOST } });
    await Promise.all([...new Set(results.map((hit) => hit.chat_id))].map((chatId) => this.#learn(chatId)));
    if (asked !== this.#asked) return;
    this.#show(results.filter((hit) => this.#titles.has(hit.chat_id)));
  }

  /** A title may be that of a chat which the list has not come to. */
  async #learn(chatId) {
    const known = this.chats.find(chatId);
    if (known) this.#titles.set(chatId, titleOf(known));
    else if (!this.#titles.has(chatId))
      await call("GET", `chats/${chatId}`).then((chat) => this.#titles.set(chatId, titleOf(chat)), (error) => {
        if (error.status !== 404) throw error; // else it was deleted a moment ago
      });
  }

  #show(hits) {
    id("found-told").textContent = "";
    id("found").hidden = !hits.length;
    id("hits").replaceChildren(...hits.map((hit) => this.#row(hit)));
    if (hits.length) announce(`${counted(hits.length, "message")} found.`);
  }

  #tell(sentence) {
    id("found").hidden = false;
    id("hits").replaceChildren();
    id("found-told").textContent = sentence;
  }

  #wrong(error) {
    if (error instanceof ApiError) this.#tell(error.message);
    else throw error;
  }

  #row({ chat_id: chatId, message, snippet }) {
    const title = this.#titles.get(chatId);
    return el(
      "li",
      {},
      el(
        "button",
        { type: "button", class: "cm-chat cm-hit", onclick: () => this.goTo(message, title) },
        el("span", { class: "cm-chat-title", dir: "auto" }, title),
        el("span", { class: "cm-snippet", dir: "auto" }, marked(snippet)),
        el("span", { class: "cm-chat-about" }, `${SPEAKERS[message.role]} · `, time(message.created_at)),
      ),
    );
  }

  /** Arrows go from the field through all that was found, and back. */
  #key(event) {
    const { key, target } = event;
    const rows = [...document.querySelectorAll("#chats button, #hits button")];
    if (event.isComposing) return;
    if (key === "Enter" && target.id === "search" && this.#isShown) rows[0]?.click();
    if (key !== "ArrowDown" && key !== "ArrowUp") return;
    event.preventDefault();
    const at = rows.indexOf(target) + (key === "ArrowDown" ? 1 : -1);
    if (at < 0) id("search").focus();
    else rows[at]?.focus();
  }
}

/** The piece of a snippet around its first match. Positions are code points. */
function marked({ text, matches }) {
  const letters = [...text];
  const first = matches[0]?.[0] ?? 0;
  let from = Math.max(0, first - BEFORE);
  let to = Math.min(letters.length, from + LENGTH);
  if (from) while (from < first && letters[from - 1].trim()) from++; // begins and ends with whole words, where there are some
  const least = Math.max(from, to - BEFORE, matches[0]?.[1] ?? 0);
  const space = letters.findLastIndex((letter, at) => at < to && !letter.trim());
  if (to < letters.length && space > least) to = space;
  const piece = (start, end) => letters.slice(start, end).join("").replace(/\s+/g, " ");
  const made = [from ? "… " : ""];
  let at = from;
  for (const [start, end] of matches.filter((one) => one[1] <= to)) {
    made.push(piece(at, start), el("mark", {}, piece(start, end)));
    at = end;
  }
  return [...made, piece(at, to), to < letters.length ? " …" : ""];
}
