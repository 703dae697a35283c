// Changes to what was said, each asked for first: a message is edited or forgotten, a chat gets another title or goes.

import { call } from "./api.js";
import { ask } from "./dialogs.js";
import { announce } from "./dom.js";

const EDITED = "Memory based on the old text is removed and rebuilt. Later replies are not changed.";
const FORGOTTEN = "This permanently deletes the text from the chat and from every summary built on it. Replies that quote it are kept.";
const DELETED = "The chat, its messages and its memory will be permanently deleted.";

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
  if (!(await ask({ title: "Delete this message?", told: FORGOTTEN, yes: "Delete", danger: true }))) return null;
  await call("DELETE", pathOf(message));
  announce("The message was deleted.");
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
