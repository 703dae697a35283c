// The memory of the open chat, as it is now: what would be sent, the summary, its versions; and a fold as it lands.

import { call } from "./api.js";
import { clear, restore } from "./changes.js";
import { announce, counted, el, hint, id, number, on, time } from "./dom.js";
import { look } from "./look.js";
import { showContext } from "./sections.js";
import { laidOut, showDifference, showHistory, told } from "./versions.js";
import { WORDS } from "./words.js";

const TICK_MS = 2000;
const AFTER_REPLY_MS = 8000;
const FOLD_MS = 12_000;
const SETTLED = ["idle", "paused"];

export class Memory {
  #chat = null;
  #brief = null;
  #version = null;
  #now = null;
  #pinned = null;
  #until = 0;
  #timer = 0;
  #asked = 0;
  #hasAsked = false;

  /** `verbatim` is told the first message that is sent word for word, `settled` is called when no work goes on, `tried` does work that may fail. */
  constructor({ verbatim, settled, tried }) {
    Object.assign(this, { verbatim, settled, tried });
    on("pause", () => this.tried(() => this.#pause()));
    on("clear", () => this.tried(async () => (await clear(this.#chat)) && this.afterChange()));
    on("fold", () => this.tried(() => this.#fold()));
    id("sooner").addEventListener("change", () => this.tried(() => this.#updateAfter(Number(id("sooner").value))));
    on("context-now", () => {
      this.#drawNow();
      id("context-title").focus();
    });
    document.addEventListener("visibilitychange", () => !document.hidden && this.watch(0));
  }

  /** Shows the memory of a chat; of none, what will be there. */
  async open(chat) {
    this.#chat = chat;
    this.#asked++;
    this.#brief = this.#now = this.#pinned = this.#version = null;
    clearTimeout(this.#timer);
    this.#hasAsked = false;
    id("memory").classList.toggle("cm-blank", !chat);
    id("context-now").hidden = true;
    if (!chat) return;
    await this.tried(() => this.#refresh());
    this.watch(0);
  }

  /** What `message.created` tells of a prompt: sizes, the texts come later. */
  sent(context) {
    this.#pinned = "next";
    showContext(context, "Prompt of this reply", { wasSent: true });
  }

  async afterReply(message) {
    if (!this.#chat) return;
    this.watch(AFTER_REPLY_MS);
    await this.#saw(message);
    await this.tried(() => this.#refresh());
  }

  afterChange() {
    this.tried(() => this.#refresh());
    this.watch(FOLD_MS);
  }

  /** Shows what a version changed. */
  async show(version) {
    look("memory");
    await this.tried(() => this.#changed(version));
  }

  async saw(message) {
    await this.#saw(message);
    id("context-title").focus();
  }

  async #saw(message) {
    await this.tried(async () => {
      const chat = this.#chat;
      const context = await call("GET", `chats/${chat.id}/messages/${message.id}/context`);
      if (chat.id !== this.#chat?.id) return;
      this.#pinned = message.id;
      showContext(context, `Prompt sent for message ${message.seq}`, { wasSent: true });
      id("context-now").hidden = false;
    });
  }

  /** Looks again every two seconds, for `ms` and until the work is settled. A hidden page does not. */
  watch(ms) {
    this.#until = Math.max(this.#until, Date.now() + ms);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), TICK_MS);
  }

  async #look() {
    if (!this.#chat || document.hidden || (this.#isSettled() && Date.now() > this.#until)) return;
    await this.tried(() => this.#refresh(true));
    this.watch(0);
  }

  #isSettled() {
    return SETTLED.includes(this.#brief?.work.state ?? "idle");
  }

  async #refresh(quietly = false) {
    const asked = ++this.#asked;
    const chat = this.#chat;
    if (!chat) return; // it was left meanwhile
    const path = `chats/${chat.id}`;
    const [brief, known] = await Promise.all([call("GET", `${path}/brief`), quietly ? chat : call("GET", path)]);
    if (asked !== this.#asked) return;
    this.#chat = known;
    const landed = this.#version !== null && brief.version !== this.#version;
    const isNew = this.#version !== brief.version || !brief.paused !== !this.#brief?.paused;
    this.#brief = brief;
    this.#version = brief.version;
    if (landed) this.#hasAsked = false;
    if (this.#isSettled()) this.settled();
    this.#drawStanding();
    if (quietly && !isNew) return;
    const [context, revisions] = await Promise.all([call("POST", `${path}/context`, { body: {} }), isNew ? call("GET", `${path}/revisions?limit=10`) : null]);
    if (asked !== this.#asked) return;
    this.#now = context;
    this.#drawStanding();
    if (!this.#pinned) this.#drawNow();
    this.verbatim(context.sections.find((one) => one.kind === "window")?.message_ids[0] ?? null);
    if (revisions) showHistory(revisions.results, brief, { changed: (one) => this.tried(() => this.#changed(one)), restore: (one) => this.tried(() => this.#restore(one)) });
    const newest = revisions?.results[0];
    if (landed && newest) await this.#landed(newest);
    else if (isNew) this.#drawSummary();
  }

  async #landed(revision) {
    this.#until = Date.now() + TICK_MS;
    this.#drawNow();
    const sentence = told(revision);
    announce(sentence);
    await this.#changed(revision, sentence);
    id("summary-box").open = true;
  }

  async #changed(one, sentence = "") {
    const against = one.kind === "restore" ? `?against=${one.version - 1}` : ""; // not the one that it says again
    const found = await call("GET", `chats/${this.#chat.id}/revisions/${one.version}/diff${against}`);
    showDifference(found, one, sentence || `Changes in version ${one.version}`, () => this.#drawSummary());
    id("summary-box").open = true;
    if (!sentence) id("summary-box").scrollIntoView({ block: "nearest" });
  }

  async #restore(revision) {
    if (await restore(this.#chat, revision)) this.afterChange();
  }

  async #pause() {
    await call("POST", `chats/${this.#chat.id}/brief/${this.#brief.paused ? "resume" : "pause"}`);
    this.afterChange();
  }

  async #fold() {
    await call("POST", `chats/${this.#chat.id}/resummarize`, { body: { mode: "update" } });
    this.#hasAsked = true;
    await this.#refresh(true);
    this.watch(0);
  }

  /** 0: as usual on this server. */
  async #updateAfter(tokens) {
    const { threshold: _, ...others } = this.#chat.options;
    await call("PATCH", `chats/${this.#chat.id}`, { body: { options: tokens ? { ...others, threshold: tokens } : others } });
    this.afterChange();
  }

  #drawWork({ state, sentence }) {
    id("pause").textContent = this.#brief.paused ? "Resume updates" : "Pause updates";
    id("fold-told").textContent = state !== "idle" ? sentence : this.#hasAsked ? WORDS.nothing_to_do : "";
  }

  #drawNow() {
    this.#pinned = null;
    id("context-now").hidden = true;
    if (this.#now) showContext(this.#now, "Next prompt");
  }

  #drawSummary() {
    const brief = this.#brief;
    id("summary").replaceChildren(brief.readable.length ? laidOut(brief.readable) : hint(brief.version ? WORDS.cleared : WORDS.empty));
  }

  #drawStanding() {
    const { version, updated_at, token_count, unfolded, rebuild } = this.#brief;
    const about = version ? ["Version ", String(version), " · ", counted(token_count, "token"), " · ", updated_at ? time(updated_at) : ""] : ["No version yet"];
    id("summary-about").replaceChildren(...about);
    id("summary-told").replaceChildren(...(rebuild ? [hint(WORDS.rebuilding)] : []));
    id("clear").hidden = !token_count;
    this.#drawWork(this.#brief.work);
    this.#drawPending(unfolded);
  }

  #drawPending({ turns, tokens }) {
    const { policy, next_update: next } = this.#brief;
    const option = [...id("policy").options].find((one) => one.value === policy);
    id("sooner-box").hidden = !option?.dataset.threshold || policy !== this.#chat.policy;
    id("sooner").value = this.#chat.options.threshold ?? 0;
    let words = `${counted(turns, "new turn")}, ${counted(tokens, "token")}`;
    const meter = id("pending");
    meter.hidden = !next;
    if (next) {
      const { unit, has, threshold } = next;
      words = `${number(has)} of ${counted(threshold, unit === "tokens" ? "token" : "turn")} (${words})`;
      if (has >= threshold && this.#brief.work.state === "idle") words += `. ${WORDS.all_recent}`;
      Object.assign(meter, { max: threshold, value: Math.min(has, threshold) });
    }
    id("pending-told").textContent = words;
  }
}
