// One thing that is remembered, a pin or a message: where it was said, and what can be changed of it.

import { call } from "./api.js";
import { titleOf } from "./chats.js";
import { ask } from "./dialogs.js";
import { link, time } from "./dom.js";
import { WORDS } from "./words.js";

/** Where something was said: the title of its chat as a link there, and when. `goTo` is called with the ids of chat and message, and the title. */
export function placeOf({ chat_id: chatId, chat_title: title, message_id: messageId, said_at: at }, goTo) {
  const named = titleOf({ title });
  return [link(named, () => goTo(chatId, messageId, named), { class: "cm-button cm-plain cm-place", dir: "auto" }), ", ", time(at)];
}

/** The path of a pin, or of a message. */
export const pathOf = ({ chat_id: chatId, id: pinId, message_id: messageId }) => `chats/${chatId}/${pinId ? `pins/${pinId}` : `messages/${messageId}`}`;

/** The link that has a pin or a message not used, or used again. `change` is called with what it changes. */
export function muting(one, change) {
  const [words, sentence] = one.muted ? ["Use again", "It is used again."] : ["Not relevant", "It is in no prompt any more."];
  const muted = !one.muted;
  return link(words, () => change(() => call("PATCH", pathOf(one), { body: { muted } }), sentence), { "aria-label": `${words}: ${one.text.slice(0, 60)}` });
}

/** The new text of a pin, for who wants one; else null. */
export async function correctionOf(pin) {
  const text = await ask({ ...WORDS.correct, text: pin.text, long: true });
  return text?.trim() && text !== pin.text ? text : null;
}
