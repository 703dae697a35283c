// What a prompt is made of: a bar for the budget of memory, and each section with its text.

import { counted, el, id, number } from "./dom.js";

const KINDS = {
  pins: ["Pins", "what holds until it is taken back"],
  summary: ["Summary", "older turns, folded into a few sentences"],
  data: ["Important data", "what must not be lost, kept apart"],
  narrative: ["Narrative", "how the conversation went"],
  facts: ["Facts", "what is known, by key"],
  card: ["Notes", "the notes that came with the last reply"],
  outline: ["Outline", "the last reply in a few words"],
  lines: ["A line a turn", "turns that have no room word for word"],
  window: ["Newest turns", "every word of them"],
  recall: ["Recalled", "older turns that the question is about, word for word"],
  instructions: ["Instructions", "what this chat was told to do"],
  sources: ["Sources", "material that came with the question"],
  question: ["Question", "what was asked"],
};
const BESIDE = ["instructions", "sources", "question"];

/** Shows a context of the API; `title` says of when it is. */
export function showContext(context, title) {
  const memory = context.sections.filter((one) => !BESIDE.includes(one.kind) && one.tokens);
  const beside = context.sections.filter((one) => BESIDE.includes(one.kind) && one.tokens);
  const used = memory.map((one) => `${nameOf(one)} ${number(one.tokens)}`).join(", ") || "nothing yet";
  id("context-title").textContent = title;
  id("context-sum").replaceChildren(el("strong", {}, number(context.tokens)), ` of ${counted(context.budget, "token")}`);
  const bar = id("bar");
  bar.setAttribute("aria-label", `Budget of memory: ${used}; ${number(Math.max(0, context.budget - context.tokens))} free.`);
  bar.replaceChildren(...memory.map(piece), free(context));
  const opened = new Set([...id("sections").querySelectorAll("details[open]")].map((one) => one.dataset.kind));
  id("sections").replaceChildren(
    ...memory.map((one) => section(one, opened)),
    ...(beside.length ? [el("p", { class: "cm-beside" }, "Besides, not counted as memory:")] : []),
    ...beside.map((one) => section(one, opened)),
    ...lacking(context),
  );
}

const nameOf = ({ kind }) => KINDS[kind]?.[0] ?? kind;

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
  const text = one.text === undefined ? "The text is shown when the reply is complete." : one.text || "Nothing.";
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
    one.clipped ? el("p", { class: "cm-hint" }, "Cut to fit: not all of it had room.") : null,
  );
}

function lacking(context) {
  const said = [];
  if (context.unrepresented) said.push(`${counted(context.unrepresented, "older turn")} had no room at all.`);
  if (context.exact === false && context.why) said.push(`This is not exactly what was sent: ${context.why}`);
  return said.map((one) => el("p", { class: "cm-hint" }, one));
}
