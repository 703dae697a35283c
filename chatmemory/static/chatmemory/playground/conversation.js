// The messages of a chat. All that were fetched are kept as values; only those around what is looked at are elements.

import { call, queryOf } from "./api.js";
import { announce, el } from "./dom.js";
import { grow, item } from "./message.js";
import { WORDS } from "./words.js";

const PAGE = 50;
const STEP = 40; // messages that become elements at a time
const MOST = 160; // elements at once
const NEAR = 800; // pixels from an edge at which the next ones are drawn
const AT_END = 48;
const REACH = 1000; // messages that are fetched to come to one that was found
const AT_ONCE = 200;
const ABOVE = 32; // pixels above it

export class Conversation {
  #messages = [];
  #items = new Map();
  #from = 0;
  #to = 0;
  #older = null;
  #path = "";
  #busy = false;
  #sticks = true;
  #top = 0;
  #frame = 0;
  #rest = 0;
  #verbatim = null;
  #found = null;
  #chosen = new Set(); // answers that are looked at in place of the newest to their question
  #divider = el("p", { class: "cm-divider" }, el("span", {}, WORDS.divider));

  /** `acts` are what the buttons of messages do (with `stay`, that what grows does not move the view), `moved` is told whether the newest message is in sight. */
  constructor(scroller, list, acts, moved) {
    Object.assign(this, { scroller, list, moved, acts: { ...acts, choose: (message) => this.#choose(message), stay: () => (this.#sticks = false) } });
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    const resized = new ResizeObserver(() => this.#sticks && this.#toBottom());
    resized.observe(list);
    resized.observe(scroller);
  }

  /** Shows the newest messages of a chat. */
  async open(chatId, signal) {
    const path = `chats/${chatId}/messages`;
    const page = await call("GET", `${path}?order=desc&limit=${PAGE}`, { signal });
    this.clear();
    this.#path = path;
    this.#older = queryOf(page.next);
    this.#messages = unique(page.results.reverse());
    this.toNewest();
  }

  /** Takes in what was said or changed elsewhere. Tells whether there was anything. */
  async renew() {
    const path = this.#path;
    const page = await call("GET", `${path}?order=desc&limit=${PAGE}`);
    if (path !== this.#path) return false;
    const newest = page.results.reverse();
    const changed = newest.filter((one) => isOther(one, this.find(one.id)));
    if (newest.length && !this.find(newest[0].id) && page.next) {
      this.clear(); // so much is new that it does not join what is shown
      this.#path = path;
      this.#older = queryOf(page.next);
      this.#messages = newest;
      this.toNewest();
    } else for (const one of changed) this.put(one);
    return changed.length > 0;
  }

  clear() {
    this.#messages = [];
    this.#items.clear();
    this.#chosen.clear();
    this.#divider.remove();
    this.#verbatim = this.#older = this.#found = null;
    this.#from = this.#to = 0;
    this.list.replaceChildren();
  }

  get last() {
    return this.#messages.at(-1);
  }

  isNewestQuestion({ id }) {
    return this.#messages.findLast((one) => one.role === "user")?.id === id;
  }

  find(id) {
    return this.#messages.find((one) => one.id === id);
  }

  /** Takes a message in, in place of the one with its id, or as the newest. */
  put(message) {
    const at = this.#messages.findIndex((one) => one.id === message.id);
    const before = this.last;
    if (at >= 0) this.#messages[at] = message;
    else {
      this.#messages.push(message);
      this.#unchoose(message);
      if (this.#to === this.#messages.length - 1) this.#to++;
    }
    this.#anchored(() => this.#redraw(before, ...this.#answers(message)));
  }

  drop(id) {
    this.#messages = this.#messages.filter((one) => one.id !== id);
    this.#to = Math.min(this.#to, this.#messages.length);
    this.#anchored(() => this.#redraw(this.last));
  }

  /** A reply that is being written says `text` by now. It is drawn once a frame, less often where that takes long. */
  grow(id, text) {
    const message = this.find(id);
    if (!message) return;
    message.content = text;
    this.#frame ||= requestAnimationFrame((now) => this.#drawGrown(message, now));
  }

  /** Marks where the verbatim part of the prompt begins. */
  verbatimFrom(id) {
    this.#verbatim = id;
    this.#anchored(() => this.#divide());
  }

  toNewest() {
    this.#to = this.#messages.length;
    this.#from = Math.max(0, this.#to - STEP);
    this.#sticks = true;
    this.#draw();
    this.#toBottom();
    this.#fill();
  }

  /** Goes to a message, and marks it; to older ones, too. `loading` is told that this takes a while. False where it is too far up. */
  async reveal({ id, seq }, loading) {
    const path = this.#path;
    const isAway = () => !this.find(id) && this.#older && this.#messages[0].seq > seq;
    if (this.#messages[0]?.seq - seq > REACH) return false;
    this.#busy = true;
    try {
      while (isAway()) {
        loading();
        await this.#fetchOlder(AT_ONCE);
        if (path !== this.#path) return true; // another chat is open now
      }
    } finally {
      this.#busy = false;
    }
    const message = this.find(id);
    if (message) this.#goTo(message);
    return Boolean(message);
  }

  #goTo(message) {
    const before = this.find(this.#found);
    const at = this.#messages.indexOf(message);
    this.#found = message.id;
    this.#unchoose(message);
    this.#chosen.add(message.id);
    this.#from = Math.max(0, at - STEP / 2);
    this.#to = Math.min(this.#messages.length, at + STEP / 2);
    this.#sticks = false;
    this.#redraw(before, ...this.#answers(message));
    const made = this.#items.get(message.id);
    this.scroller.scrollTop += made.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top - ABOVE;
    made.focus({ preventScroll: true });
    this.#scrolled();
  }

  #drawGrown(message, now) {
    this.#frame = 0;
    const made = this.#items.get(message.id);
    if (!made || message.status !== "streaming") return;
    if (now < this.#rest) {
      this.#frame = requestAnimationFrame((later) => this.#drawGrown(message, later));
      return;
    }
    const started = performance.now();
    this.#anchored(() => grow(made, message)); // the view jumps up where a block is away while it is drawn anew
    const ended = performance.now();
    this.#rest = ended - started < 4 ? 0 : ended + 3 * (ended - started);
  }

  #redraw(...messages) {
    for (const one of messages) this.#forget(one?.id);
    this.#draw();
  }

  #forget(id) {
    this.#items.get(id)?.remove();
    this.#items.delete(id);
  }

  /** The message, or where it is an answer, all answers to its question: the newest last. */
  #answers(message) {
    let from = this.#messages.indexOf(message);
    let last = from;
    const isOlder = (at) => this.#messages[at]?.superseded_by;
    if (message.role === "assistant") while (isOlder(from - 1)) from--;
    while (isOlder(last) && this.#messages[last + 1]) last++;
    return this.#messages.slice(from, last + 1).filter((one) => one === message || one.role === "assistant");
  }

  #unchoose(message) {
    const answers = this.#answers(message);
    for (const one of answers) this.#chosen.delete(one.id);
    return answers;
  }

  /** Shows this answer in place of the others to its question. */
  #choose(message) {
    const answers = this.#unchoose(message);
    this.#chosen.add(message.id);
    this.#anchored(() => this.#redraw(...answers));
    this.#items.get(message.id)?.querySelector(".cm-versions :enabled").focus();
    announce(`Version ${answers.indexOf(message) + 1} of ${answers.length}`);
  }

  #itemOf(message) {
    const answers = this.#answers(message);
    const made = item(message, this.acts, message === this.last, answers);
    if (message.id === this.#found) {
      made.classList.add("cm-found");
      made.tabIndex = -1;
    }
    made.hidden = message !== (answers.find((one) => this.#chosen.has(one.id)) ?? answers.at(-1));
    return made;
  }

  #draw() {
    const shown = this.#messages.slice(this.#from, this.#to);
    const ids = new Set(shown.map((one) => one.id));
    for (const id of this.#items.keys())
      if (!ids.has(id)) this.#forget(id);
    let at = this.list.firstElementChild;
    for (const one of shown) {
      const made = this.#items.get(one.id) ?? this.#itemOf(one);
      this.#items.set(one.id, made);
      if (made === at) at = at.nextElementSibling;
      else this.list.insertBefore(made, at);
    }
    this.#divide();
  }

  #divide() {
    const made = this.#items.get(this.#verbatim);
    if (made && this.find(this.#verbatim).seq > 1) made.prepend(this.#divider);
    else this.#divider.remove();
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const isUp = scrollTop < this.#top; // less room moves nothing, and is no wish to leave the end
    this.#top = scrollTop;
    const atEnd = scrollHeight - scrollTop - clientHeight < AT_END && this.#to === this.#messages.length;
    this.#sticks = atEnd || (this.#sticks && !isUp);
    this.moved(this.#sticks);
    this.#fill();
  }

  /** Draws more where the reader comes near an edge. */
  async #fill() {
    if (this.#busy) return;
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    if (scrollTop < NEAR && (this.#from > 0 || this.#older)) await this.#up();
    else if (scrollHeight - scrollTop - clientHeight < NEAR && this.#to < this.#messages.length)
      this.#anchored(() => {
        this.#to = Math.min(this.#messages.length, this.#to + STEP);
        this.#from = Math.max(this.#from, this.#to - MOST);
        this.#draw();
      });
  }

  async #up() {
    this.#busy = true;
    try {
      if (this.#from === 0) await this.#fetchOlder();
      this.#anchored(() => {
        this.#from = Math.max(0, this.#from - STEP);
        if (!this.#sticks) this.#to = Math.min(this.#to, this.#from + MOST);
        this.#draw();
      });
    } catch (error) {
      this.acts.failed(error);
    } finally {
      this.#busy = false;
    }
  }

  async #fetchOlder(count = PAGE) {
    const path = this.#path;
    const query = new URLSearchParams(this.#older);
    query.set("limit", count);
    const page = await call("GET", `${path}?${query}`);
    if (path !== this.#path) return;
    const known = this.#messages.length;
    const [first] = this.#messages;
    this.#messages = unique([...page.results.reverse(), ...this.#messages]);
    const added = this.#messages.length - known;
    this.#older = queryOf(page.next);
    this.#from += added;
    this.#to += added;
    for (const one of this.#answers(first)) this.#forget(one.id); // it may have other versions now
  }

  /** Does `change` without moving what the reader looks at. */
  #anchored(change) {
    const top = this.scroller.getBoundingClientRect().top;
    const looked = [...this.list.children].find((one) => one.getBoundingClientRect().bottom > top);
    const before = looked?.getBoundingClientRect().top ?? 0;
    change();
    const still = looked?.isConnected ? looked : this.#items.get(looked?.dataset.id); // it may have been drawn anew
    if (this.#sticks) this.#toBottom();
    else if (still) this.scroller.scrollTop += still.getBoundingClientRect().top - before;
  }

  #toBottom() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.#top = this.scroller.scrollTop;
  }
}

const SHOWN = ["content", "status", "edited_at", "superseded_by"];
const isOther = (message, known) => !known || SHOWN.some((name) => (message[name] ?? null) !== (known[name] ?? null));

/** A reply that ended while the page was read is there twice, the final one last. */
const unique = (messages) => [...new Map(messages.map((one) => [one.id, one])).values()];
