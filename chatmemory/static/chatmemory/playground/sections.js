// What a prompt is made of: a bar for the budget of memory, and each section with its text.

import { counted, el, hint, id, number } from "./dom.js";
import { WORDS } from "./words.js";

const BESIDE = ["instructions", "tools", "sources", "question", "open_turn", "attachments"];

/** Shows a context of the API; `title` says of when it is, `wasSent` that it is not the next one. */
export function showContext(context, title, { wasSent = false } = {}) {
  const memory = context.sections.filter((one) => !BESIDE.includes(one.kind) && one.tokens);
  const beside = context.sections.filter((one) => BESIDE.includes(one.kind) && one.tokens);
  const used = memory.map((one) => `${nameOf(one)} ${number(one.tokens)}`).join(", ") || "nothing yet";
  id("context-title").textContent = title;
  id("context-sum").replaceChildren(el("strong", {}, number(context.tokens)), ` of ${counted(context.budget, "token")}`);
  showSaid(context);
  const bar = id("bar");
  const left = Math.max(0, context.budget - context.tokens);
  bar.setAttribute("aria-label", `Memory budget: ${used}; ${number(left)} free.`);
  bar.replaceChildren(...memory.map((one) => piece(one.kind, `${nameOf(one)}: ${counted(one.tokens, "token")}`, one.tokens)), wasSent ? piece("free", "Free", left) : keptFree(context, left));
  const opened = new Set([...id("sections").querySelectorAll("details[open]")].map((one) => one.dataset.kind));
  id("sections").replaceChildren(
    ...memory.map((one) => section(one, opened)),
    ...(beside.length ? [el("p", { class: "cm-beside" }, "Not counted toward the memory budget:")] : []),
    ...beside.map((one) => section(one, opened)),
    ...lacking(context, wasSent),
  );
}

function showSaid({ tokens, history_tokens: said }) {
  id("context-said").hidden = !said;
  if (!said) return;
  const share = Math.round((1 - tokens / said) * 100);
  id("said-tokens").textContent = number(said);
  id("sent-tokens").textContent = number(tokens);
  id("saved-share").textContent = share > 0 ? `(−${share}%)` : "";
  Object.assign(id("context-whole"), { max: Math.max(said, tokens), value: tokens });
}

// By kind, what a section is called and what it is.
const NAMES = JSON.parse(id("sections").dataset.names);
const nameOf = ({ kind }) => NAMES[kind]?.[0] ?? kind;

function piece(kind, title, tokens) {
  const made = el("span", { class: `cm-piece cm-kind-${kind}`, title });
  made.style.flexGrow = tokens;
  return made;
}

/** What is left, hatched where the rest of a longer chat may be recalled into it. */
function keptFree({ history_tokens: said, tokens }, left) {
  return said > tokens ? piece("kept-free", `Reserved: ${counted(left, "token")}`, left) : piece("free", "Free", left);
}

function section(one, opened) {
  const text = one.text === undefined ? WORDS.later : one.text || "Nothing.";
  return el(
    "details",
    { class: "cm-section", "data-kind": one.kind, open: opened.has(one.kind) },
    el(
      "summary",
      {},
      el("span", { class: `cm-key cm-kind-${one.kind}` }),
      el("span", { class: "cm-name" }, nameOf(one), el("small", {}, NAMES[one.kind]?.[1] ?? "")),
      el("span", { class: "cm-tokens" }, number(one.tokens), el("span", { class: "cm-unseen" }, " tokens")),
    ),
    el("pre", { class: "cm-sent", dir: "auto", tabindex: 0 }, text),
    one.clipped ? hint("Shortened to fit.") : null,
  );
}

function lacking(context, wasSent) {
  const said = [];
  const left = context.budget - context.tokens;
  if (left > 0 && context.history_tokens > context.tokens) said.push(`${counted(left, "token")} ${wasSent ? WORDS.stayed_free : WORDS.left_free}`);
  if (context.unrepresented) said.push(`${counted(context.unrepresented, "older turn")} ${WORDS.unfit}`);
  if (context.exact === false && context.why) said.push(`${WORDS.differs} ${context.why}`);
  return said.map((one) => hint(one));
}
