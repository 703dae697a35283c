// One message as an element: who said it, what, how it ended, and what can be done with it.

import { button, copy, counted, el, link, time } from "./dom.js";
import { show } from "./markdown.js";
import { showSources } from "./sources.js";
import { WORDS } from "./words.js";

const LONG = 8000; // letters of a message that are shown before a click for the rest

/** Who says a message, by its role. */
export const SPEAKERS = { user: "You", assistant: "Reply", tool_call: "Call of a tool", tool: "Output of a tool" };

/** The element of `message`. `acts` does what its buttons say; `isLast` tells that it is the newest of its chat, `answers` are it and all others to the same question. */
export function item(message, acts, isLast, answers) {
  const byUser = message.role === "user";
  const made = el(
    "li",
    { class: `cm-message ${byUser ? "cm-user" : "cm-reply"}`, "data-id": message.id, "data-status": message.status },
    el("h3", { class: "cm-unseen" }, `${SPEAKERS[message.role]}, message ${message.seq}`),
  );
  made.append(...[content(message), ending(message, acts, isLast), tools(message, acts, isLast, answers)].filter(Boolean));
  return made;
}

/** A message by itself, to be read where its chat is not shown. */
export const alone = (message) => el("div", { class: "cm-sent", tabindex: 0, role: "group", "aria-label": "Message" }, content(message));

/** Draws a reply that has grown. */
export function grow(made, message) {
  const body = made.querySelector(".cm-body");
  body.classList.remove("cm-waiting");
  show(body, message.content, true);
}

function content(message) {
  if (message.status === "deleted") return el("p", { class: "cm-gone" }, WORDS.deleted);
  if (message.tool_call) return called(message);
  if (message.status === "complete" && !message.content) return null; // it only calls tools
  const body = el("div", { class: "cm-body", dir: "auto" });
  if (message.status === "streaming" && !message.content) body.classList.add("cm-waiting");
  draw(body, message, message.status === "streaming" ? Infinity : LONG);
  return body;
}

/** A call of a tool or its output, folded up: what matters of it is in the reply. */
function called({ role, content: text, tool_call: call }) {
  const title = role === "tool_call" ? `Called ${call.name}` : `${call.name || "Tool"} returned`;
  return el("details", { class: "cm-called" }, el("summary", {}, title), el("pre", { tabindex: 0, dir: "auto" }, role === "tool_call" ? call.arguments : text));
}

function draw(body, message, most) {
  const isLong = message.content.length > most;
  const text = message.content.slice(0, most).replace(/[\ud800-\udbff]$/, "");
  if (message.role === "user") body.textContent = text;
  else show(body, text, message.status === "streaming");
  if (!isLong) return;
  const whole = () => {
    body.replaceChildren();
    draw(body, message, Infinity);
  };
  body.append(el("p", { class: "cm-more" }, "… ", link(`Show all ${counted([...message.content].length, "character")}`, whole)));
}

function ending(message, acts, isLast) {
  const told = WORDS.ends[message.status];
  if (!told) return null;
  const why = message.status === "cancelled" ? "" : message.error?.message ?? "";
  const again = isLast ? link("Try again", () => acts.regenerate(message)) : null;
  return el("p", { class: "cm-ended" }, el("span", {}, `${told} ${why}`), again);
}

/** ‹ 2/2 ›: which of the answers to a question this is, and the way to the others. */
function versions(message, acts, answers) {
  if (answers.length < 2) return null;
  const at = answers.indexOf(message);
  const to = (other, sign, words) => button(sign, () => acts.choose(other), { "aria-label": words, title: words, disabled: !other });
  const place = el("span", {}, `${at + 1}/${answers.length}`);
  return el("span", { class: "cm-versions", role: "group", "aria-label": "Versions of this answer" }, to(answers[at - 1], "‹", "Previous version"), place, to(answers[at + 1], "›", "Next version"));
}

/** The link that lists the sources of a reply below it, or takes the list away. */
function sources(message, acts) {
  const opener = link("Sources", () => acts.tried(() => toggle(opener, message, acts)), { "aria-label": "Sources of this reply", "aria-expanded": "false" });
  return opener;
}

async function toggle(opener, message, acts) {
  const made = opener.closest(".cm-message");
  const before = made.querySelector(".cm-sources");
  before?.remove();
  opener.setAttribute("aria-expanded", String(!before));
  if (before) return;
  const place = el("section", { class: "cm-sources", "aria-label": `Sources of message ${message.seq}` }, "…");
  acts.stay();
  made.append(place);
  await showSources(message, place, acts).catch((error) => {
    place.remove();
    opener.setAttribute("aria-expanded", "false");
    throw error;
  });
  opener.parentElement.scrollIntoView(); // the list may be longer than the view
}

function tools(message, acts, isLast, answers) {
  if (["streaming", "sending"].includes(message.status)) return null;
  const isReply = message.role === "assistant";
  const gone = message.status === "deleted";
  const hasText = Boolean(message.content.trim());
  const copying = button("Copy", () => copy(message.content, copying), { sign: "copy" });
  const instead = message.metadata?.requested_variant;
  const unanswered = message.role === "user" && isLast && !gone;
  return el(
    "div",
    { class: "cm-tools" },
    versions(message, acts, answers),
    hasText ? copying : null,
    hasText ? button("Pin", () => acts.pin(message), { sign: "pin" }) : null,
    hasText && message.role !== "tool_call" ? button("Edit", () => acts.edit(message), { sign: "edit" }) : null,
    gone ? null : button("Delete", () => acts.forget(message), { sign: "bin" }),
    (isReply && isLast) || unanswered ? button(isReply ? "Regenerate" : "Ask for a reply", () => acts.regenerate(message), { sign: "again" }) : null,
    isReply && message.model_variant ? button("Prompt sent", () => acts.saw(message), { sign: "eye" }) : null,
    isReply && message.model_variant ? sources(message, acts) : null,
    el("span", { class: "cm-when" }, message.model_variant && isReply ? `${message.model_variant}${instead ? ` in place of ${instead}` : ""} · ` : "", time(message.created_at), message.edited_at ? " · edited" : "", message.superseded_by ? " · replaced" : ""),
  );
}
