// The versions of a summary: what each one changed, and the way back to it.

import { button, counted, el, id, number, time } from "./dom.js";

const NEAR = 80; // letters
const MADE = {
  fold: (one) => `Summarized ${counted(one.turns, "turn")}`,
  rebuild: () => "Rebuilt from the original messages",
  restore: () => "Restored from an older version",
  manual: () => "Edited by hand",
  retract: () => "Rolled back because a message was edited or deleted",
};

/** One sentence on what a version is. */
export function told(one) {
  if (one.kind !== "fold") return `${MADE[one.kind]?.(one) ?? one.kind}.`;
  const span = one.from_seq === one.through_seq ? `message ${one.from_seq}` : `messages ${one.from_seq} to ${one.through_seq}`;
  return `${counted(one.turns, "turn")} (${span}) ${one.turns === 1 ? "was" : "were"} merged into the summary.`;
}

/** Lists versions, newest first. `acts` are `changed(version)`, `restore(version)`. */
export function showHistory(revisions, current, acts) {
  const rows = revisions.map((one) =>
    el(
      "li",
      { class: "cm-version", "data-version": one.version },
      el("p", {}, el("strong", {}, `Version ${one.version}`), one.version === current ? " · current" : "", el("span", { class: "cm-when" }, time(one.created_at))),
      el("p", { class: "cm-hint" }, `${MADE[one.kind]?.(one) ?? one.kind} · ${counted(one.tokens_after, "token")}${one.degraded ? " · by the built-in summarizer" : one.model ? ` · ${one.model}` : ""}`),
      el(
        "p",
        { class: "cm-links" },
        button("Show changes", () => acts.changed(one.version), { kind: "plain", "aria-label": `Changes in version ${one.version}` }),
        one.version === current ? null : button("Restore", () => acts.restore(one), { kind: "plain", "aria-label": `Restore version ${one.version}` }),
      ),
    ),
  );
  id("history").replaceChildren(...(rows.length ? rows : [el("li", { class: "cm-hint" }, "No version yet.")]));
}

/** Shows what a version changed, word by word. */
export function showDifference(found, sentence, back) {
  const last = found.pieces.length - 1;
  const parts = found.pieces.flatMap(({ op, text }, at) => (op === "equal" ? near(text, at === 0, at === last) : [el(op === "insert" ? "ins" : "del", {}, text)]));
  const lost = found.lost ?? [];
  const legend = el("p", { class: "cm-hint" }, el("ins", {}, "Added"), " ", el("del", {}, "removed"), found.against ? ` since version ${found.against}. ` : ": the first version. ", button("Show summary", back, { kind: "plain" }));
  id("summary").replaceChildren(
    el("p", { class: "cm-landed" }, sentence),
    legend,
    el("div", { class: "cm-text cm-diff", dir: "auto" }, parts),
    ...(lost.length ? [el("p", { class: "cm-hint" }, `No longer in the summary: ${lost.slice(0, 12).join(", ")}${lost.length > 12 ? `, and ${number(lost.length - 12)} more` : ""}. The original messages are kept, and recalled when you ask about them.`)] : []),
  );
}

/** Of what did not change, the words beside what did. */
function near(text, isFirst, isLast) {
  if (text.length <= 3 * NEAR) return [text];
  const skipped = el("span", { class: "cm-skipped" }, " … ");
  return [isFirst ? "" : text.slice(0, text.indexOf(" ", NEAR) + 1), skipped, isLast ? "" : text.slice(text.lastIndexOf(" ", text.length - NEAR))];
}
