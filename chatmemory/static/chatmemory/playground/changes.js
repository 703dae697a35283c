// Changes to what was said or is remembered, each asked for first: of a message, of a chat, of its memory.

import { call } from "./api.js";
import { ask } from "./dialogs.js";
import { announce, counted, el, hint } from "./dom.js";
import { WORDS } from "./words.js";

const pathOf = (message) => `chats/${message.chat_id}/messages/${message.id}`;

/**
 * The message as it is now, as `changed`, and whether to ask it `again`; null where nothing is to be done. `mayAsk` offers
 * to. Where the server refuses, the text is asked for once more, as it was typed.
 */
export async function edit(message, mayAsk, text = message.content, told = WORDS.edit.told) {
  const said = await ask({ ...WORDS.edit, told, text, long: true, also: mayAsk ? "Save and ask again" : "" });
  if (!said) return null;
  const { text: content, also: again } = said;
  if (content === message.content) return again ? { changed: message, again } : null;
  try {
    const changed = await call("PATCH", pathOf(message), { body: { content } });
    announce("The message was changed.");
    return { changed, again };
  } catch (error) {
    if ([401, 404].includes(error.status)) throw error;
    return edit(message, mayAsk, content, error.message);
  }
}

/** As `edit`. */
export async function forget(message) {
  if (!(await ask(WORDS.forget))) return null;
  await call("DELETE", pathOf(message));
  announce("The message was deleted.");
  return { changed: { ...message, content: "", status: "deleted" } };
}

/** The new title, for who wants one; else null. */
export async function titleFor(chat) {
  const title = await ask({ ...WORDS.rename, text: chat.title });
  return title === null ? null : [...title].slice(0, 200).join("");
}

/** The `project` of a chat and what it shares (`across`), for who wants others; else null. */
export function sharingOf(chat) {
  const project = el("input", { id: "dialog-project", name: "project", dir: "auto", maxlength: 100, autocomplete: "off", "aria-describedby": "dialog-told" });
  const across = el("select", { id: "dialog-across", name: "across" }, Object.entries(WORDS.shares).map(([name, words]) => el("option", { value: name }, words)));
  Object.assign(project, { value: chat.project });
  across.value = chat.across;
  const fields = [el("label", { for: "dialog-project" }, "Project"), project, el("label", { for: "dialog-across" }, "Shares with your other chats"), across, hint(WORDS.at_most)];
  return ask({ ...WORDS.sharing, fields });
}

/** Whether the chat is gone now. */
export async function remove(chat) {
  const goes = await call("GET", `chats/${chat.id}/deletion`);
  const parts = WORDS.goes.filter(([name]) => goes[name]).map(([name, ...words]) => counted(goes[name], ...words));
  const told = parts.length ? `This permanently deletes ${new Intl.ListFormat("en").format(parts)}.` : WORDS.remove.told;
  if (!(await ask({ ...WORDS.remove, told }))) return false;
  await call("DELETE", `chats/${chat.id}`);
  return true;
}

/** What summarizing would take, in words; "" where there is nothing to summarize. */
async function estimated(chat, query) {
  const { turns, calls, cost_usd: cost } = await call("GET", `chats/${chat.id}/estimate?${query}`);
  const price = cost ? `, about $${cost < 0.01 ? cost.toPrecision(1) : cost.toFixed(2)}` : "";
  return calls ? `${counted(turns, "turn")}, about ${counted(calls, "summarizer call")}${price}` : "";
}

/** Whether the chat is to be remembered by another policy. Asks only where there is something to rebuild. */
export async function maySwitch(chat, policy) {
  const takes = await estimated(chat, `policy=${policy}`);
  return !takes || (await ask({ ...WORDS.policy, told: `Rebuilds ${takes}. ${WORDS.policy.told}` }));
}

/** Whether an older version is the current one now. */
export async function restore(chat, { version }) {
  const takes = await estimated(chat, `restore=${version}`);
  const again = takes && ` ${WORDS.again}: ${takes}.`;
  const sure = await ask({ ...WORDS.restore, title: `Restore version ${version}?`, told: WORDS.restore.told + again });
  if (sure) await call("POST", `chats/${chat.id}/revisions/${version}/restore`, { body: { pause: sure.checked } });
  return sure;
}

/** Whether the summary is empty now. */
export async function clear(chat) {
  const sure = await ask(WORDS.clear);
  if (sure) await call("POST", `chats/${chat.id}/brief/clear`);
  return sure;
}
