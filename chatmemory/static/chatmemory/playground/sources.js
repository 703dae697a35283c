// The sources of a reply: what of memory stood in its prompt, by kind, each with where it was said.

import { call } from "./api.js";
import { announce, el, hint, link, time } from "./dom.js";
import { muting, placeOf } from "./lines.js";
import { WORDS } from "./words.js";

const MUTED = ["pin", "message", "excerpt", "elsewhere"]; // kinds that can be muted
const MOST = 300; // letters of an excerpt: the rest is in its message
const FOLDED = ["summary", "line", "message"]; // kinds that may be many, and are read elsewhere on the page

/** Lists them below a reply. `acts` are `goTo`, `version` (shows one of the summary), `changed` and `tried`. */
export async function showSources(message, place, acts) {
  const { results } = await call("GET", `chats/${message.chat_id}/messages/${message.id}/sources`);
  const kinds = Object.keys(WORDS.sources).map((kind) => [kind, results.filter((one) => one.kind === kind)]);
  const groups = kinds.filter(([, found]) => found.length).map(([kind, found]) => group(kind, found, acts));
  place.replaceChildren(el("h4", {}, "Sources of this reply"), ...(groups.length ? groups : [hint(WORDS.no_sources)]));
}

function group(kind, found, acts) {
  const [{ version }] = found;
  const why = kind === "summary" && version ? hint(link(WORDS.why, () => acts.version({ version }), { "aria-label": `${WORDS.why} Version ${version} of the summary` })) : null;
  const list = el("ol", { class: "cm-history" }, found.map((one) => row(one, acts)));
  return el("details", { class: "cm-older", open: !FOLDED.includes(kind) }, el("summary", {}, `${WORDS.sources[kind]} · ${found.length}`), list, why);
}

function row(one, acts) {
  const { kind, pin_id: pinId, message_id: messageId, chat_title: title, text } = one;
  const change = (work, sentence) =>
    acts.tried(async () => {
      await work();
      announce(sentence);
      const again = row({ ...one, muted: !one.muted }, acts);
      made.replaceWith(again);
      again.querySelector("button:last-of-type").focus();
      acts.changed();
    });
  const where = title !== null ? placeOf(one, acts.goTo) : one.said_at ? [time(one.said_at)] : [];
  const why = messageId ? link(WORDS.why, () => acts.goTo(one.chat_id, messageId, title ?? "This chat"), { "aria-label": `${WORDS.why} ${text.slice(0, 60)}` }) : null;
  const mute = MUTED.includes(kind) && (pinId || messageId) ? muting({ ...one, id: pinId }, change) : null;
  const made = el(
    "li",
    { class: one.muted ? "cm-version cm-muted" : "cm-version" },
    el("p", { class: "cm-pin", dir: "auto" }, text.length > MOST ? `${text.slice(0, MOST)} …` : text),
    where.length || why || mute ? hint(where, one.muted ? " · not used now" : "", " ", why, " ", mute) : null,
  );
  return made;
}
