// The page: who looks, which chat is open, what is being said. All else is in the modules that it puts together.

import { ApiError, call, request, whenUnknown } from "./api.js";
import { Chats, titleOf } from "./chats.js";
import { Conversation } from "./conversation.js";
import { ask } from "./dialogs.js";
import { announce, button, el, id } from "./dom.js";
import { follow } from "./follow.js";
import { Memory } from "./memory.js";
import { Note } from "./note.js";
import * as session from "./session.js";

const ENDED = {
  complete: "The reply is complete.",
  incomplete: "The reply was cut off.",
  failed: "There is no reply.",
  cancelled: "The reply was stopped.",
};
const WELCOMED = "cm-welcomed";
let chat = null;
let opening = null;
let reading = null; // {controller, chatId, messageId}

const note = new Note(id("note"));
const memory = new Memory({ verbatim: (message) => conversation.verbatimFrom(message), failed });
const acts = { edit, forget, regenerate, saw, failed };
const conversation = new Conversation(id("scroller"), id("messages"), acts, (atEnd) => (id("newest").hidden = atEnd));
const chats = new Chats(open, failed);

// Who looks

function door(sentence = "") {
  reading?.controller.abort();
  session.forget();
  document.body.dataset.view = "door";
  id("door-told").textContent = sentence;
  id("token").focus();
}

async function enter() {
  document.body.dataset.view = "chat";
  id("leave").hidden = !session.byToken();
  try {
    const [models] = await Promise.all([call("GET", "models"), chats.load()]);
    id("variant").replaceChildren(...models.results.map((one) => el("option", { value: one.name, selected: one.default }, one.name)));
    id("offline").hidden = !models.offline;
    const wanted = session.fromAddress();
    if (wanted) await open(wanted);
    else fresh();
  } catch (error) {
    failed(error);
  }
}

id("by-token").addEventListener("submit", (event) => {
  event.preventDefault();
  session.keep(id("token").value.trim());
  id("token").value = "";
  enter();
});

id("by-name").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const body = { username: id("username").value, password: id("password").value };
    session.keep((await call("POST", "auth/token", { body })).token);
    id("password").value = "";
    enter();
  } catch (error) {
    id("door-told").textContent = error.message;
  }
});

// Chats

function fresh() {
  leave();
  chat = null;
  history.replaceState(null, "", location.pathname);
  conversation.clear();
  memory.open(null);
  chats.mark(null);
  head();
  look("chat");
  id("message").focus();
}

async function open(chatId) {
  leave();
  look("chat");
  opening = new AbortController();
  const { signal } = opening;
  try {
    const [found] = await Promise.all([call("GET", `chats/${chatId}`, { signal }), conversation.open(chatId, signal)]);
    if (signal.aborted) return;
    chat = found;
    history.replaceState(null, "", `#chat=${chatId}`);
    chats.mark(chatId);
    head();
    memory.open(chat);
    const { last } = conversation;
    if (last?.status === "streaming") run({ reply: { chatId, messageId: last.id, text: last.content } });
  } catch (error) {
    if (!signal.aborted) failed(error);
  }
}

/** Stops reading what another chat says. It goes on being written. */
function leave() {
  opening?.abort();
  reading?.controller.abort();
  note.clear();
  busy(null);
}

function head() {
  id("title").textContent = chat ? titleOf(chat) : "New chat";
  document.title = `${chat ? titleOf(chat) : "New chat"} · Playground`;
  for (const name of ["rename", "delete"]) id(name).hidden = !chat;
  id("policy").value = chat?.policy ?? id("policy").dataset.default;
  id("welcome").hidden = Boolean(chat);
  id("guide").hidden = !chat?.metadata?.sample || Boolean(localStorage.getItem(WELCOMED));
}

id("new").addEventListener("click", fresh);
id("rename").addEventListener("click", async () => {
  const title = await ask({ title: "Rename this chat", label: "Title", text: chat.title, yes: "Rename" });
  if (title !== null) await change({ title: title.slice(0, 200) });
});
id("delete").addEventListener("click", async () => {
  const sure = await ask({ title: "Delete this chat?", told: "Its messages, its memory and all that stems from them are removed for good.", yes: "Delete", danger: true });
  if (!sure) return;
  await tried(async () => {
    await call("DELETE", `chats/${chat.id}`);
    fresh();
    await chats.load();
  });
});
id("policy").addEventListener("change", async () => {
  const policy = id("policy").value;
  if (!chat) return;
  await change({ policy });
  note.say("Memory is rebuilt in the new way, in the background. Until then the old one serves.");
  memory.afterChange();
});

async function change(fields) {
  await tried(async () => {
    chat = await call("PATCH", `chats/${chat.id}`, { body: fields });
    await chats.load();
  });
  head();
}

// What is said

const key = () => crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16)).join("-");

async function send(message) {
  note.clear();
  conversation.toNewest();
  const seq = (conversation.last?.seq ?? 0) + 1;
  conversation.put({ id: "sending", seq, role: "user", content: message, status: "sending", created_at: new Date().toISOString() });
  const variant = { model_variant: id("variant").value };
  const [path, body] = chat ? [`chats/${chat.id}/messages`, { message, ...variant }] : ["message/first", { message, ...variant, policy: id("policy").value }];
  const headers = { "Idempotency-Key": key(), Accept: "text/event-stream" };
  id("welcome").hidden = id("guide").hidden = true;
  await run({ start: (signal) => request("POST", path, { body, headers, signal }), message });
}

async function regenerate(message) {
  if (reading) return;
  note.clear();
  const path = `chats/${chat.id}/messages/${message.id}/regenerate`;
  const headers = { "Idempotency-Key": key(), Accept: "text/event-stream" };
  const body = { model_variant: id("variant").value };
  await run({ start: (signal) => request("POST", path, { body, headers, signal }), again: message });
}

/** Reads one reply: of a question that `start` sends, or one that is known. */
async function run({ start, reply, message, again }) {
  const mine = { controller: new AbortController(), chatId: chat?.id, messageId: reply?.messageId };
  busy(mine);
  const on = {
    created: (data) => created(mine, data, message, again),
    text: (text) => {
      note.clear("waiting");
      conversation.grow(mine.messageId, text);
    },
    waiting: (sentence) => note.say(sentence, { about: "waiting" }),
  };
  try {
    const final = await follow({ start, reply, on, signal: mine.controller.signal });
    note.clear("waiting");
    conversation.put(final);
    announce(ENDED[final.status] ?? "");
    memory.afterReply(final);
    chats.load().catch(failed);
  } catch (error) {
    if (!mine.controller.signal.aborted) refused(error, mine, message);
  } finally {
    if (reading === mine) busy(null);
  }
}

function created(mine, data, message, again) {
  mine.messageId = data.message_id;
  mine.chatId = data.chat_id;
  const now = { chat_id: data.chat_id, created_at: new Date().toISOString(), metadata: {} };
  if (message !== undefined) {
    conversation.drop("sending");
    conversation.put({ ...now, id: data.user_message_id, seq: (conversation.last?.seq ?? 0) + 1, role: "user", content: message, status: "complete" });
  }
  if (again?.role === "assistant") conversation.put({ ...again, superseded_by: data.message_id });
  if (!conversation.find(data.message_id))
    conversation.put({ ...now, id: data.message_id, seq: (conversation.last?.seq ?? 0) + 1, role: "assistant", content: "", status: "streaming", model_variant: data.model_variant });
  if (data.context) memory.sent(data.context);
  if (!chat) named(data.chat_id, message);
}

/** A chat that was made by its first message: it gets the message's first words as its title. */
async function named(chatId, message) {
  chat = { id: chatId, title: "", policy: id("policy").value, metadata: {} };
  history.replaceState(null, "", `#chat=${chatId}`);
  memory.open(chat);
  chats.mark(chatId);
  await change({ title: [...message.trim().split("\n")[0]].slice(0, 60).join("") });
}

function refused(error, mine, message) {
  if (!mine.messageId && message !== undefined) {
    conversation.drop("sending");
    if (!id("message").value) id("message").value = message;
    grown();
    id("welcome").hidden = Boolean(chat);
  }
  if (error.code === "chat_busy") note.fail(error.message, button("Watch it", () => open(chat.id), { kind: "plain" }));
  else if (mine.messageId) note.fail(error.message, button("Try again", () => open(mine.chatId), { kind: "plain" }));
  else failed(error);
}

function failed(error) {
  if (error.name === "AbortError" || error.status === 401) return;
  if (!(error instanceof ApiError)) throw error;
  note.fail(error.message, null, error.status === 429 ? error.retryAfter : 0);
}

async function tried(work) {
  try {
    await work();
  } catch (error) {
    failed(error);
  }
}

id("stop").addEventListener("click", () =>
  tried(async () => {
    const { chatId, messageId } = reading ?? {};
    if (!messageId) return;
    try {
      conversation.put((await call("POST", `chats/${chatId}/messages/${messageId}/cancel`)).message);
    } catch (error) {
      if (error.code !== "conflict") throw error; // it ended by itself
    }
  }),
);

// What was said

async function edit(message) {
  const told = "Memory that stood on the former text is dropped at once, and made anew from what remains. Later replies stay as they are.";
  const content = await ask({ title: "Edit this message", told, label: "Text", text: message.content, long: true, yes: "Save" });
  if (content === null || content === message.content) return;
  await tried(async () => {
    conversation.put(await call("PATCH", `chats/${chat.id}/messages/${message.id}`, { body: { content } }));
    announce("The message was changed.");
    memory.afterChange();
  });
}

async function forget(message) {
  const told = "Its text goes for good: from this chat, from every summary that stood on it, and from what the model reads. What others said of it stays.";
  if (!(await ask({ title: "Forget this message?", told, yes: "Forget it", danger: true }))) return;
  await tried(async () => {
    await call("DELETE", `chats/${chat.id}/messages/${message.id}`);
    conversation.put({ ...message, content: "", status: "deleted" });
    announce("The message was forgotten.");
    memory.afterChange();
  });
}

function saw(message) {
  look("memory");
  memory.saw(message);
}

// The composer

const field = id("message");

function busy(mine) {
  reading = mine;
  id("stop").hidden = !mine;
  id("send").hidden = Boolean(mine);
  id("messages").setAttribute("aria-busy", String(Boolean(mine)));
  id("hint").textContent = mine ? "A reply is being written. You can go on typing, and send when it is complete." : "Enter sends. Shift and Enter make a new line.";
}

function grown() {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight + 2, 240)}px`;
}

function submit() {
  const message = field.value;
  if (reading || !message.trim()) return;
  field.value = "";
  grown();
  send(message);
}

id("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
field.addEventListener("input", grown);
field.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
for (const one of document.querySelectorAll("[data-ask]")) one.addEventListener("click", () => !reading && send(one.textContent.trim()));
id("guide-close").addEventListener("click", () => {
  localStorage.setItem(WELCOMED, "yes");
  id("guide").hidden = true;
  field.focus();
});
id("newest").addEventListener("click", () => conversation.toNewest());

// The page's own things

function look(view) {
  document.body.dataset.view = view;
  for (const one of document.querySelectorAll("[data-look]")) one.setAttribute("aria-pressed", String(one.dataset.look === view));
}

for (const one of document.querySelectorAll("[data-look]")) one.addEventListener("click", () => look(one.dataset.look));
id("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("cm-theme", root.dataset.theme);
});
id("leave").addEventListener("click", () => door());
addEventListener("hashchange", () => {
  const wanted = session.fromAddress();
  if (wanted && wanted !== chat?.id) open(wanted);
});
addEventListener("offline", () => note.fail("You are offline. What is being written goes on without you."));
addEventListener("online", () => note.clear());

whenUnknown(() => door("The server does not know this token any more. Give another one, or sign in again."));
session.fromAddress();
if (session.isKnown()) enter();
else door();
