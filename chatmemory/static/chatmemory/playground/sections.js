// What a prompt is made of: a bar for the budget of memory, and each section with its text.

import { counted, el, id, number } from "./dom.js";

const KINDS = {
  pins: ["Pins", "always in the prompt until removed"],
  summary: ["Summary", "older messages in a few sentences"],
  data: ["Key data", "details that must not get lost"],
  narrative: ["Story", "how the conversation went so far"],
  facts: ["Facts", "what is known, by name"],
  card: ["Notes", "written by the model with its last reply"],
  outline: ["Outline", "the last reply in a few words"],
  lines: ["One-line summaries", "messages that didn't fit in full"],
  window: ["Recent messages", "full text"],
  recall: ["Recalled", "earlier messages that match your question"],
  instructions: ["Instructions", "the system prompt of this chat"],
  sources: ["Sources", "material that came with the question"],
  question: ["Question", "your message"],
};
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

/** How much was said, and how much of that is sent: the whole chat as a bar, with the part that memory takes. */
function showSaid({ tokens, said_tokens: said }) {
  const box = id("context-said");
  box.hidden = !said;
  if (!said) return;
  const saves = tokens < said;
  const share = Math.round((1 - tokens / said) * 100);
  id("context-said-told").replaceChildren(
    el("strong", {}, number(said)), ` ${said === 1 ? "token" : "tokens"} said → `, el("strong", {}, number(tokens)), " sent", saves && share ? ` (−${share}\u00a0%)` : "",
  );
  Object.assign(id("context-whole"), { max: Math.max(said, tokens), value: tokens });
  id("context-whole").textContent = `${number(tokens)} of ${number(said)}`;
}

// Policies name their own sections; the server says how.
const NAMES = JSON.parse(id("sections").dataset.names);
const nameOf = ({ kind }) => KINDS[kind]?.[0] ?? NAMES[kind] ?? kind;

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
      el("span", { class: "cm-name" }, nameOf(one), el("small", {}, KINDS[one.kind]?.[1] ?? "")),
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
