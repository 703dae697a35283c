// Other tabs of this browser: they are told of a chat that changed here, and this one hears of those that changed there.

import { id } from "./dom.js";

const channel = new BroadcastChannel("cm-chats");
const who = () => id("who-name").textContent;

export const tellOthers = (chatId) => channel.postMessage({ who: who(), chatId });

/** `changed` is called with the id of a chat that changed in another tab; with none where this tab is looked at again. */
export function hear(changed) {
  channel.addEventListener("message", ({ data }) => who() && data.who === who() && changed(data.chatId));
  document.addEventListener("visibilitychange", () => !document.hidden && changed());
  addEventListener("focus", () => changed());
}
