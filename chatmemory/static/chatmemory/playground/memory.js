// The memory of the open chat, as it is now: what would be sent, the summary, its versions; and a fold as it lands.

import { call } from "./api.js";
import { announce, counted, el, id, number, time } from "./dom.js";
import { ask } from "./dialogs.js";
import { showDifference, showHistory, told } from "./history.js";
import { showContext } from "./sections.js";

const TICK_MS = 2000;
const AFTER_REPLY_MS = 8000;
const FOLD_MS = 12_000;

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

  /** `verbatim` is told the id of the first message that is sent word for word, `failed` what went wrong. */
  constructor({ verbatim, failed }) {
    Object.assign(this, { verbatim, failed });
    id("fold").addEventListener("click", () => this.#try(() => this.#fold()));
    id("sooner").addEventListener("change", () => this.#try(() => this.#updateAfter(Number(id("sooner").value))));
    id("context-now").addEventListener("click", () => {
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
    await this.#try(() => this.#refresh());
    this.watch(0);
  }

  /** What `message.created` tells of a prompt: sizes, the texts come later. */
  sent(context) {
    this.#pinned = "next";
    showContext(context, "Prompt of this reply");
  }

  async afterReply(message) {
    if (!this.#chat) return;
    this.watch(AFTER_REPLY_MS);
    await this.#saw(message);
    await this.#try(() => this.#refresh());
  }

  afterChange() {
    this.#try(() => this.#refresh());
    this.watch(FOLD_MS);
  }

  async saw(message) {
    await this.#saw(message);
    id("context-title").focus();
  }

  async #saw(message) {
    await this.#try(async () => {
      const chat = this.#chat;
      const context = await call("GET", `chats/${chat.id}/messages/${message.id}/context`);
      if (chat.id !== this.#chat?.id) return;
      this.#pinned = message.id;
      showContext(context, `Prompt sent for message ${message.seq}`);
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
    if (!this.#chat || document.hidden || !((this.#brief?.work.state ?? "idle") !== "idle" || Date.now() < this.#until)) return;
    await this.#try(() => this.#refresh(true));
    this.watch(0);
  }

  async #refresh(quietly = false) {
    const asked = ++this.#asked;
    const chat = this.#chat;
    const path = `chats/${chat.id}`;
    const [brief, known] = await Promise.all([call("GET", `${path}/brief`), quietly ? chat : call("GET", path)]);
    if (asked !== this.#asked) return;
    this.#chat = known;
    const landed = this.#version !== null && brief.version !== this.#version;
    const isNew = this.#version !== brief.version;
    this.#brief = brief;
    this.#version = brief.version;
    if (landed) this.#hasAsked = false;
    this.#drawStanding();
    if (quietly && !isNew) return;
    const [context, revisions] = await Promise.all([call("GET", `${path}/context`), isNew ? call("GET", `${path}/revisions?limit=10`) : null]);
    if (asked !== this.#asked) return;
    this.#now = context;
    this.#drawStanding();
    if (!this.#pinned) this.#drawNow();
    this.verbatim(context.sections.find((one) => one.kind === "window")?.message_ids[0] ?? null);
    if (revisions) showHistory(revisions.results, brief.version, { changed: (version) => this.#try(() => this.#changed(version)), restore: (one) => this.#try(() => this.#restore(one)) });
    const newest = revisions?.results[0];
    if (landed && newest) await this.#landed(newest);
    else if (isNew) this.#drawSummary();
  }

  async #landed(revision) {
    this.#until = Date.now() + TICK_MS;
    this.#drawNow();
    const sentence = told(revision);
    announce(sentence);
    await this.#changed(revision.version, sentence);
    id("summary-box").open = true;
  }

  async #changed(version, sentence = "") {
    const found = await call("GET", `chats/${this.#chat.id}/revisions/${version}/diff`);
    showDifference(found, sentence || `Changes in version ${version}`, () => this.#drawSummary());
    id("summary-box").open = true;
    if (!sentence) id("summary-box").scrollIntoView({ block: "nearest" });
  }

  async #restore(revision) {
    const sure = await ask({
      title: `Restore version ${revision.version}?`,
      told: "It becomes the current version. Newer messages will be summarized again. Nothing is deleted.",
      yes: "Restore",
    });
    if (!sure) return;
    await call("POST", `chats/${this.#chat.id}/revisions/${revision.version}/restore`);
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

  #drawWork({ state, since }) {
    const words = {
      idle: this.#hasAsked ? "Nothing to summarize yet. The most recent messages always stay in full." : "",
      queued: "Waiting for the worker…",
      waiting: "It will be tried again.",
      no_worker: "No worker is running: start manage.py worker.",
    };
    id("fold-told").textContent = words[state] ?? `Working on it (${Math.round((Date.now() - new Date(since)) / 1000)} s)…`;
  }

  #drawNow() {
    this.#pinned = null;
    id("context-now").hidden = true;
    if (this.#now) showContext(this.#now, "Next prompt");
  }

  #drawSummary() {
    const brief = this.#brief;
    const text = brief.brief.global_summary || kept(brief.state);
    id("summary").replaceChildren(text ? el("div", { class: "cm-text", dir: "auto" }, text) : el("p", { class: "cm-hint" }, "No summary yet. The model still sees the whole conversation."));
  }

  #drawStanding() {
    const { version, updated_at, token_count, degraded, last_error, unfolded, rebuild } = this.#brief;
    const about = version ? ["Version ", String(version), " · ", counted(token_count, "token"), " · ", updated_at ? time(updated_at) : ""] : ["No version yet"];
    id("summary-about").replaceChildren(...about);
    const said = [
      rebuild ? "Rebuilding from the original messages. The current summary is used until it's done." : "",
      degraded ? "The summarizer failed; the built-in one was used until it is back." : "",
      last_error ? `The last attempt failed: ${last_error.message ?? last_error.code}` : "",
    ].filter(Boolean);
    id("summary-told").replaceChildren(...said.map((one) => el("p", { class: "cm-hint" }, one)));
    this.#drawWork(this.#brief.work);
    this.#drawPending(unfolded);
  }

  #drawPending({ turns, tokens }) {
    const { policy, next_update: next } = this.#brief;
    const option = [...id("policy").options].find((one) => one.value === policy);
    id("sooner-box").hidden = !option?.dataset.threshold || policy !== this.#chat.policy;
    id("sooner").value = this.#chat.options.threshold ?? 0;
    const words = `${counted(turns, "new turn")}, ${counted(tokens, "token")}`;
    const meter = id("pending");
    meter.hidden = !next;
    id("pending-told").textContent = words;
    if (!next) return;
    const { unit, has, threshold } = next;
    id("pending-told").textContent = `${number(has)} of ${counted(threshold, unit === "tokens" ? "token" : "turn")} (${words})`;
    Object.assign(meter, { max: threshold, value: Math.min(has, threshold) });
    meter.textContent = `${number(has)} of ${number(threshold)}`;
  }

  async #try(work) {
    try {
      await work();
    } catch (error) {
      this.failed(error);
    }
  }
}

/** The state of a policy that keeps more than a summary, as text. */
function kept(state) {
  const data = state?.data ?? {};
  return Object.keys(data).length ? JSON.stringify(data, null, 2).replace(/^[{}]$|["{}[\],]/gm, "").replace(/\n\s*(?=\n)/g, "").trim() : "";
}
