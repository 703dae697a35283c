// The versions of a summary: what each one changed, and restoring it.

import { counted, el, hint, id, link, number, time } from "./dom.js";
import { WORDS } from "./words.js";

const NEAR = 80; // letters
const MADE = {
  fold: (one) => `Summarized ${counted(one.turns, "turn")}`,
  manual: (one) => (one.tokens_after ? "Edited by hand" : "Cleared"),
};

const made = (one) => MADE[one.kind]?.(one) ?? WORDS.made[one.kind] ?? one.kind;

/** One sentence on what a version is. */
export function told(one) {
  if (one.kind !== "fold") return `${made(one)}.`;
  const span = one.from_seq === one.through_seq ? `message ${one.from_seq}` : `messages ${one.from_seq} to ${one.through_seq}`;
  return `${counted(one.turns, "turn")} (${span}) ${one.turns === 1 ? "was" : "were"} merged into the summary.`;
}

/** One sentence on what a version changed, as a stream tells it. */
export function changeOf({ turns, tokens_before: before, tokens_after: after, lost_count: lost }) {
  const parts = [turns ? counted(turns, "turn") : "", `${number(before)} → ${counted(after, "token")}`, lost ? `${counted(lost, "detail")} lost` : ""];
  return `Memory updated: ${parts.filter(Boolean).join(", ")}.`;
}

/** Lists versions, newest first. `acts` are `changed(version)`, `restore(version)`. */
export function showHistory(revisions, { version: current, paused }, acts) {
  const rows = revisions.map((one) =>
    el(
      "li",
      { class: "cm-version", "data-version": one.version },
      el("p", {}, el("strong", {}, `Version ${one.version}`), one.version === current ? ` · current${paused ? ", updates paused" : ""}` : "", el("span", { class: "cm-when" }, time(one.created_at))),
      hint(`${made(one)} · ${counted(one.tokens_after, "token")}${one.degraded ? " · by the built-in summarizer" : one.model ? ` · ${one.model}` : ""}`),
      el(
        "p",
        { class: "cm-links" },
        link("Show changes", () => acts.changed(one), { "aria-label": `Changes in version ${one.version}` }),
        one.version === current ? null : link("Restore", () => acts.restore(one), { "aria-label": `Restore version ${one.version}` }),
      ),
    ),
  );
  id("history").replaceChildren(...(rows.length ? rows : [el("li", { class: "cm-hint" }, "No version yet.")]));
}

const SHAPES = {
  text: ([{ text }]) => el("p", {}, text),
  list: (entries) => el("ul", {}, entries.map(({ text }) => el("li", {}, text))),
  table: (entries) => el("dl", {}, entries.map(({ name, text }) => el("div", {}, el("dt", {}, name), el("dd", {}, text)))),
};

/** What a memory holds, each part below its heading; a single one goes without. */
export function laidOut(parts) {
  const made = parts.flatMap(({ title, shape, entries }) => [parts.length > 1 ? el("h4", {}, title) : null, SHAPES[shape](entries)]);
  return el("div", { class: "cm-text cm-laid-out", dir: "auto" }, made);
}

/** Shows what a version changed, word by word; or that it changed nothing, or all, because another policy made it. */
export function showDifference(found, { kind, version }, sentence, back) {
  const { pieces, against, lost } = found;
  const isSame = pieces.every(({ op }) => op === "equal");
  const isReplaced = against && found.policy !== found.against_policy;
  const since = against ? ` since version ${against}. ` : version === 1 ? ": the first version. " : ". ";
  const legend = isSame
    ? [kind === "fold" ? WORDS.same : "The summary did not change.", " "]
    : isReplaced
      ? [WORDS.replaced, " "]
      : [el("ins", {}, "Added"), " ", el("del", {}, "removed"), since];
  id("summary").replaceChildren(
    el("p", { class: kind === "retract" ? "cm-landed cm-rolled" : "cm-landed" }, sentence),
    ...(pieces.length ? [hint(legend, link("Show summary", back)), ...(isReplaced ? bothTexts(found) : [inOne(pieces, isSame)])] : [hint(WORDS.cleared)]),
    ...(lost.length ? [hint(`No longer in the summary: ${lost.slice(0, 12).join(", ")}${lost.length > 12 ? `, and ${number(lost.length - 12)} more` : ""}. ${WORDS.lost}`)] : []),
  );
}

/** Two texts as one: of what did not change, the words beside what did. */
function inOne(pieces, isSame) {
  const last = pieces.length - 1;
  const parts = pieces.flatMap(({ op, text }, at) => (op !== "equal" ? [el(op === "insert" ? "ins" : "del", {}, text)] : isSame ? [text] : near(text, at === 0, at === last)));
  return el("div", { class: "cm-text cm-diff", dir: "auto" }, parts);
}

/** The newer text, and below it the one that it replaced. */
function bothTexts({ pieces, version, against, policy, against_policy: before }) {
  const text = (op) => pieces.filter((one) => one.op === op).map((one) => one.text).join("");
  const sides = [[version, policy, text("insert")], [against, before, text("delete")]];
  return sides.flatMap(([number, name, said]) => [el("h4", {}, `Version ${number}: ${policyName(name)}`), el("div", { class: "cm-text", dir: "auto" }, said || WORDS.cleared)]);
}

function policyName(name) {
  const option = [...id("policy").options].find((one) => one.value === name);
  return option ? `${option.dataset.label} (${name})` : name;
}

/** Of what did not change, the words beside what did. */
function near(text, isFirst, isLast) {
  if (text.length <= 3 * NEAR) return [text];
  const skipped = el("span", { class: "cm-skipped" }, " … ");
  return [isFirst ? "" : text.slice(0, text.indexOf(" ", NEAR) + 1), skipped, isLast ? "" : text.slice(text.lastIndexOf(" ", text.length - NEAR))];
}
