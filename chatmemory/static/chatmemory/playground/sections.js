// What a prompt is made of: a bar for the budget of memory, and each section with its text.

import { counted, el, id, number } from "./dom.js";

const BESIDE = ["instructions", "sources", "question"];

/** Shows a context of the API; `title` says of when it is. */
export function showContext(context, title) {
  const memory = context.sections.filter((one) => !BESIDE.includes(one.kind) && one.tokens);
  const beside = context.sections.filter((one) => BESIDE.includes(one.kind) && one.tokens);
  const used = memory.map((one) => `${nameOf(one)} ${number(one.tokens)}`).join(", ") || "nothing yet";
  id("context-title").textContent = title;
  id("context-sum").replaceChildren(el("strong", {}, number(context.tokens)), ` of ${counted(context.budget, "token")}`);
  showSaid(context);
  const bar = id("bar");
  bar.setAttribute("aria-label", `Memory budget: ${used}; ${number(Math.max(0, context.budget - context.tokens))} free.`);
  bar.replaceChildren(...memory.map(piece), free(context));
  const opened = new Set([...id("sections").querySelectorAll("details[open]")].map((one) => one.dataset.kind));
  id("sections").replaceChildren(
    ...memory.map((one) => section(one, opened)),
    ...(beside.length ? [el("p", { class: "cm-beside" }, "Not counted toward the memory budget:")] : []),
    ...beside.map((one) => section(one, opened)),
    ...lacking(context),
  );
}

function showSaid({ tokens, said_tokens: said }) {
  id("context-said").hidden = !said;
  if (!said) return;
  const share = Math.round((1 - tokens / said) * 100);
  id("said-tokens").textContent = number(said);
  id("sent-tokens").textContent = number(tokens);
  id("saved-share").textContent = share > 0 ? `(−${share}\u00a0%)` : "";
  Object.assign(id("context-whole"), { max: Math.max(said, tokens), value: tokens });
}

// By kind, what a section is called and what it is.
const NAMES = JSON.parse(id("sections").dataset.names);
const nameOf = ({ kind }) => NAMES[kind]?.[0] ?? kind;

function piece(one) {
  const made = el("span", { class: `cm-piece cm-kind-${one.kind}`, title: `${nameOf(one)}: ${counted(one.tokens, "token")}` });
  made.style.flexGrow = one.tokens;
  return made;
}

function free(context) {
  const made = el("span", { class: "cm-piece cm-free", title: "Free" });
  made.style.flexGrow = Math.max(0, context.budget - context.tokens);
  return made;
}

function section(one, opened) {
  const text = one.text === undefined ? "Available when the reply is finished." : one.text || "Nothing.";
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
    one.clipped ? el("p", { class: "cm-hint" }, "Shortened to fit.") : null,
  );
}

function lacking(context) {
  const said = [];
  const left = context.budget - context.tokens;
  if (left > 0 && context.said_tokens > context.tokens) said.push(`${counted(left, "token")} are kept free for earlier messages that match your question, and to keep prompts cheap.`);
  if (context.unrepresented) said.push(`${counted(context.unrepresented, "older turn")} did not fit and can only be recalled.`);
  if (context.exact === false && context.why) said.push(`This differs from the prompt that was sent: ${context.why}`);
  return said.map((one) => el("p", { class: "cm-hint" }, one));
}
