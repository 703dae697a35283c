// Markdown as elements. `marked` reads it; what it found is built here, one known element at a time. No HTML is ever
// parsed: tags in a text are shown as text. Images are not loaded: their words stand there, as a link where it may be one.

import { lexer, use } from "./vendor/marked.esm.js";
import { button, copy, el } from "./dom.js";
import { highlight } from "./highlight.js";

// Texts that would take long to parse are shown as they are. They are not written by hand.
const LONGEST = 20_000; // in UTF-16 units
const DEEP = /^(?:[ \t]*(?:[-*+>]|\d{1,9}[.)])){30}/m;
const SCHEMES = ["http:", "https:", "mailto:"];
const NAMED = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };
const FORMULA = /^\\(?:\([^]{1,999}?\\\)|\[(?=\s|[^\]]{0,999}[\^_={])[^]{1,999}?\\\])/; // \(a^2\) or \[ a^2 \]: shown as it is written
use({ extensions: [{ name: "formula", level: "inline", tokenizer: (text) => FORMULA.test(text) ? { type: "formula", raw: FORMULA.exec(text)[0] } : undefined }] });
const node = (text) => document.createTextNode(text);
const drawn = new WeakMap();

const CLOSED = /^ {0,3}(`{3,}|~{3,})[^\n]*\n(?:[^]*\n)? {0,3}\1[`~]*\s*$/;
let isGrowing = false;

/** Shows `text` in `place`. What stands there already and has not changed stays: a text can grow under a reader's eyes. */
export function show(place, text, grows = false) {
  isGrowing = grows; // code that is not yet complete gets its colours later
  const tokens = read(text);
  const before = drawn.get(place) ?? [];
  const raws = tokens.map((token) => token.raw);
  let same = 0;
  while (same < before.length && same < raws.length && before[same] === raws[same]) same++;
  while (place.childNodes.length > same) place.lastChild.remove();
  place.append(...tokens.slice(same).map(block));
  drawn.set(place, raws);
}

function read(text) {
  try {
    if (text.length <= LONGEST && !DEEP.test(text)) return lexer(text).filter((token) => token.type !== "space" && token.type !== "def");
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // nested deeper than the stack
  }
  return [{ type: "plain", raw: text }];
}

/** The address, if a click on it may go there; else null. Relative ones are none: a chat has no place of its own. */
export function address(href) {
  try {
    return SCHEMES.includes(new URL(href).protocol) ? new URL(href).href : null;
  } catch {
    return null;
  }
}

/** A block that goes the way its text goes, right to left too. What is within it goes with it: marks and lines stand where it begins. */
function block(token) {
  const made = blockOf(token);
  if (token.type !== "code") made.dir = "auto";
  return made;
}

function blockOf(token) {
  const { type } = token;
  if (type === "heading") return el(`h${Math.min(6, token.depth + 2)}`, {}, inside(token));
  if (type === "paragraph" || type === "text") return el("p", {}, inside(token));
  if (type === "code") return code(token);
  if (type === "blockquote") return el("blockquote", {}, token.tokens.map(blockOf));
  if (type === "list") return list(token);
  if (type === "table") return table(token);
  if (type === "hr") return el("hr");
  if (type === "checkbox") return box(token);
  if (type === "space" || type === "def") return node("");
  return el("p", { class: "cm-asis" }, token.raw.trimEnd());
}

function code(token) {
  const language = (token.lang ?? "").split(/\s/)[0];
  const text = el("code", {}, token.text);
  if (!isGrowing || CLOSED.test(token.raw)) highlight(text, token.text, language);
  const copying = button("Copy code", () => copy(token.text, copying), { sign: "copy" });
  return el(
    "div",
    { class: "cm-code" },
    el("div", { class: "cm-codehead" }, el("span", {}, language.slice(0, 30) || "text"), copying),
    el("pre", { tabindex: 0, dir: "ltr" }, text),
  );
}

function list(token) {
  const start = token.ordered && Number(token.start) > 1 ? { start: token.start } : {};
  const items = token.items.map((item) => el("li", {}, item.tokens.flatMap((inner) => (inner.type === "text" ? inside(inner) : blockOf(inner)))));
  return el(token.ordered ? "ol" : "ul", start, items);
}

const box = (token) => node(token.checked ? "☑ " : "☐ ");

function table(token) {
  const cell = (name) => (one) => el(name, { class: one.align ? `cm-${one.align}` : null }, inside(one));
  return el(
    "div",
    { class: "cm-scroll", tabindex: 0, role: "group", "aria-label": "Table" },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, token.header.map(cell("th")))),
      el("tbody", {}, token.rows.map((row) => el("tr", {}, row.map(cell("td"))))),
    ),
  );
}

const inside = (token, linked = false) => (token.tokens ? token.tokens.map((one) => inline(one, linked)) : [plain(token.text)]);

function inline(token, linked) {
  const { type } = token;
  if (type === "strong" || type === "em" || type === "del") return el(type, {}, inside(token, linked));
  if (type === "codespan") return el("code", {}, token.text);
  if (type === "br") return el("br");
  if (type === "checkbox") return box(token);
  if (type === "link") return link(token.href, inside(token, true), linked);
  if (type === "image") return link(token.href, [plain(token.text || "image")], linked);
  if (type === "escape") return node(token.text);
  if (type === "text") return token.tokens ? el("span", {}, inside(token, linked)) : plain(token.text);
  return node(token.raw);
}

function link(href, words, linked) {
  const leads = linked ? null : address(href);
  return leads ? el("a", { href: leads, rel: "noopener noreferrer nofollow", target: "_blank" }, words) : el("span", {}, words);
}

const plain = (text) =>
  node(
    text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(amp|lt|gt|quot|apos|nbsp));/g, (whole, decimal, hex, name) => {
      if (name) return NAMED[name];
      const point = decimal ? Number(decimal) : parseInt(hex, 16);
      return point > 0 && point <= 0x10ffff ? String.fromCodePoint(point) : whole;
    }),
  );
