// Changes to what was said, each asked for first: a message is edited or forgotten, a chat gets another title or goes.

import { call } from "./api.js";
import { ask } from "./dialogs.js";
import { announce } from "./dom.js";

const EDITED = "Memory that stood on the former text is dropped at once, and made anew from what remains. Later replies stay as they are.";
const FORGOTTEN = "Its text goes for good: from this chat, from every summary that stood on it, and from what the model reads. What others said of it stays.";
const DELETED = "Its messages, its memory and all that stems from them are removed for good.";

const pathOf = (message) => `chats/${message.chat_id}/messages/${message.id}`;

/** The message as it is now; null where nothing was changed. */
export async function edit(message) {
  const content = await ask({ title: "Edit this message", told: EDITED, label: "Text", text: message.content, long: true, yes: "Save" });
  if (content === null || content === message.content) return null;
  const changed = await call("PATCH", pathOf(message), { body: { content } });
  announce("The message was changed.");
  return changed;
}

/** As `edit`. */
export async function forget(message) {
  if (!(await ask({ title: "Forget this message?", told: FORGOTTEN, yes: "Forget it", danger: true }))) return null;
  await call("DELETE", pathOf(message));
  announce("The message was forgotten.");
  return { ...message, content: "", status: "deleted" };
}

/** The new title, for who wants one; else null. */
export async function titleFor(chat) {
  const title = await ask({ title: "Rename this chat", label: "Title", text: chat.title, yes: "Rename" });
  return title === null ? null : [...title].slice(0, 200).join("");
}

/** Whether the chat is gone now. */
export async function remove(chat) {
  if (!(await ask({ title: "Delete this chat?", told: DELETED, yes: "Delete", danger: true }))) return false;
  await call("DELETE", `chats/${chat.id}`);
  return true;
}
