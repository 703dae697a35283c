// The page: which chat is open. All else is in the modules that it puts together.

import { ApiError, call } from "./api.js";
import { edit, forget, maySwitch, remove, sharingOf, titleFor } from "./changes.js";
import { Chats, titleOf } from "./chats.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { tell } from "./dialogs.js";
import { announce, el, id, link, on, time } from "./dom.js";
import { door } from "./door.js";
import { keys, look } from "./look.js";
import { Memory } from "./memory.js";
import { alone, SPEAKERS } from "./message.js";
import { Note } from "./note.js";
import { Pins } from "./pins.js";
import { Remembered } from "./remembered.js";
import { Search } from "./search.js";
import * as session from "./session.js";
import { hear, tellOthers } from "./tabs.js";
import { Talk } from "./talk.js";
import * as unsent from "./unsent.js";
import { WORDS } from "./words.js";

const WELCOMED = "cm-welcomed";
let chat = null;
let opening = null;
let renewing = false;
let opened = Promise.resolve(true); // whether the chat that was asked for last is there

const note = new Note(id("note"));
const memory = new Memory({ verbatim: (message) => conversation.verbatimFrom(message), settled: () => note.clear("policy"), tried });
const pins = new Pins({ changed: () => memory.afterChange(), unshared: () => note.say(WORDS.not_shared, { action: link("Change what they share", () => remembered.open()) }), failed });
const remembered = new Remembered({ goTo: goToSaid, changed });
const composer = new Composer({ send, stop: () => talk.stop() });
const acts = { edit: changing(edit), forget: changing(forget), pin: (message) => pins.pin(message), regenerate: (message) => talk.regenerate(message), saw, goTo: goToSaid, version: (one) => memory.show(one), changed, tried, failed };
const conversation = new Conversation(id("scroller"), id("messages"), acts, (atEnd) => (id("newest").hidden = atEnd));
const chats = new Chats(open, failed);
const search = new Search(chats, { goTo: (...found) => tried(() => goTo(...found)), failed });
const desk = { chat: () => chat, began, open, renew, replied, failed };
const talk = new Talk({ conversation, memory, note, composer }, desk);

async function entered() {
  await tried(async () => {
    const [models] = await Promise.all([call("GET", "models"), chats.load()]);
    id("variant").replaceChildren(...models.results.map((one) => el("option", { value: one.name, selected: one.default }, one.name)));
    id("offline").hidden = !models.offline;
    const { chat: wanted } = session.fromAddress();
    if (wanted) await open(wanted);
    else fresh();
    composer.giveBack(unsent.onItsWay());
  });
}

/** Clears everything of the last user but the draft, which is kept for a user whose session ended. */
function left() {
  remembered.close();
  close();
  chats.clear();
  search.clear();
}

function ended() {
  composer.clear();
  unsent.forget();
  session.address();
}

// The open chat

function close() {
  leave();
  opened = Promise.resolve(true);
  show(null);
}

function fresh() {
  close();
  session.address();
  id("temporary").checked = false;
  look("chat");
  composer.focus();
}

function open(chatId) {
  return (opened = load(chatId));
}

/** Opens the chat of a message at it, or shows it alone where that is too far up. */
async function goTo(message, title) {
  const { chat_id: chatId } = message;
  const isThereYet = chat?.id === chatId && message.seq <= conversation.last?.seq;
  if (!(await (isThereYet ? opened : open(chatId))) || chat?.id !== chatId) return;
  look("chat");
  const isThere = await conversation.reveal(message, () => note.say(WORDS.going_up, { about: "search" }));
  note.clear("search");
  if (isThere) announce(`Message ${message.seq}.`);
  else tell(title, el("span", {}, `${SPEAKERS[message.role]}, message ${message.seq}, `, time(message.created_at), `. ${WORDS.far_up}`), alone(message));
}

/** Opens the chat at a message of it, if there still is one: a pin may have none. */
async function goToSaid(chatId, messageId, title) {
  remembered.close();
  await tried(async () => {
    if (messageId) await goTo(await call("GET", `chats/${chatId}/messages/${messageId}`), title);
    else await open(chatId);
  });
}

/** Whether it is there now. */
async function load(chatId) {
  leave();
  look("chat");
  opening = new AbortController();
  const { signal } = opening;
  try {
    const [found] = await Promise.all([call("GET", `chats/${chatId}`, { signal }), conversation.open(chatId, signal)]);
    if (signal.aborted) return opened;
    session.address(chatId);
    show(found);
    const { last } = conversation;
    if (last?.status === "streaming") talk.resume(last);
    return true;
  } catch (error) {
    if (signal.aborted) return opened;
    opened = Promise.resolve(true); // the one before still is
    if (error.status === 404) gone(chatId);
    else if (error.isPassing) note.fail(error.message, { action: link("Try again", () => open(chatId)) });
    else failed(error);
    return false;
  }
}

/** A message goes to the chat that was asked for, never to the one before it. */
async function send(message) {
  if (await opened) await talk.send(message);
  else composer.giveBack(message);
}

/** Stops reading what another chat says. It goes on being written. */
function leave() {
  opening?.abort();
  talk.leave();
  note.clear();
}

/** Takes a chat, or none, as the one that is open. */
function show(opened) {
  chat = opened;
  if (!chat) conversation.clear();
  memory.open(chat);
  pins.open(chat);
  chats.mark(chat?.id ?? null);
  head();
}

function head() {
  const title = chat ? titleOf(chat) : "New chat";
  id("title").textContent = id("title").title = title;
  document.title = `${title} · Playground`;
  for (const name of ["rename", "delete"]) id(name).hidden = !chat;
  for (const name of ["pin", "sharing"]) id(name).hidden = !chat || chat.temporary;
  id("pin").textContent = chat?.pinned ? "Unpin chat" : "Pin chat";
  chose(chat?.policy ?? id("policy").dataset.default);
  id("welcome").hidden = Boolean(chat);
  id("guide").hidden = !chat?.metadata?.sample || Boolean(localStorage.getItem(WELCOMED));
}

function chose(policy) {
  id("policy").value = policy;
  id("policy-label").textContent = id("policy").selectedOptions[0]?.dataset.label ?? policy;
}

/** A chat that was made by its first message, which the server titles it by. */
function began(chatId) {
  session.address(chatId);
  show({ id: chatId, title: "", policy: id("policy").value, temporary: id("temporary").checked, project: "", across: "all", options: {}, metadata: {} });
  renewed(chatId);
}

/** Shows a chat as the server has it: how much is said in it, and its title, which is made from its messages. */
function renewed(chatId) {
  return tried(async () => {
    const [before, who] = [chat, session.token()];
    const found = await call("GET", `chats/${chatId}`);
    if (who !== session.token()) return; // they signed out meanwhile
    chats.put(found);
    if (chat?.id !== chatId || chat !== before) return; // it was changed meanwhile
    chat = found;
    head();
  });
}

/** Takes in what another tab, or another device, did in the open chat, and reads a reply that is being written there. */
function renew() {
  return tried(async () => {
    const before = chat;
    if (!before || renewing || talk.isReading || document.hidden) return;
    renewing = true;
    const hasNews = await conversation.renew().finally(() => (renewing = false));
    if (chat?.id !== before.id || talk.isReading) return;
    if (hasNews) {
      renewed(chat.id);
      pins.refresh();
      memory.afterChange();
    }
    const { last } = conversation;
    if (last?.status === "streaming") await talk.resume(last);
    note.clear("busy");
  });
}

/** A chat that is no more leaves nothing behind, here either. */
function gone(chatId) {
  chats.drop(chatId);
  fresh();
  note.fail(WORDS.gone);
}

/** Whether the open chat was changed. */
async function change(fields) {
  const { id: chatId } = chat;
  let isDone = false;
  await tried(async () => {
    const changed = await call("PATCH", `chats/${chatId}`, { body: fields });
    isDone = chat?.id === chatId;
    if (isDone) chat = changed;
    chats.put(changed);
  });
  head();
  return isDone;
}

on("new", fresh);
on("rename", async () => {
  const title = await titleFor(chat);
  if (title !== null) await change({ title });
});
on("sharing", async () => {
  const fields = await sharingOf(chat);
  if (!fields || !(await change(fields))) return;
  pins.open(chat);
  memory.afterChange();
});
on("pin", () => change({ pinned: !chat.pinned }));
on("delete", () =>
  tried(async () => {
    const { id: chatId } = chat;
    if (!(await remove(chat))) return;
    chats.drop(chatId);
    fresh();
  }),
);
id("policy").addEventListener("change", () =>
  tried(async () => {
    const policy = id("policy").value;
    if (!chat) return chose(policy);
    head(); // until the user confirms and it is done
    if (!(await maySwitch(chat, policy)) || !(await change({ policy }))) return;
    note.say(WORDS.switching, { about: "policy" });
    memory.afterChange();
  }),
);

// Messages

function changing(work) {
  return (message) =>
    tried(async () => {
      const { changed, again } = (await work(message, conversation.isNewestQuestion(message) && !talk.isReading)) ?? {};
      if (!changed || changed.chat_id !== chat?.id) return;
      conversation.put(changed);
      memory.afterChange();
      pins.refresh();
      tellOthers(changed.chat_id);
      await (again ? talk.regenerate(conversation.last) : renewed(changed.chat_id));
    });
}

/** What the next prompt of the open chat has may be another. */
function changed() {
  if (!chat) return;
  pins.refresh();
  memory.afterChange();
}

function replied(chatId) {
  pins.refresh(); // the question may have stated something
  return renewed(chatId);
}

function saw(message) {
  look("memory");
  memory.saw(message);
}

hear((chatId) => (chatId && chatId !== chat?.id ? renewed(chatId) : renew()));
keys({ stop: () => talk.stop(), fresh });
on("newest", () => conversation.toNewest());
on("guide-close", () => {
  localStorage.setItem(WELCOMED, "yes");
  id("guide").hidden = true;
  composer.focus();
});

// What goes wrong

async function failed(error) {
  if (error.name === "AbortError" || error.status === 401) return;
  if (!(error instanceof ApiError)) throw error;
  if (error.status === 404 && chat && (await isGone(chat.id))) gone(chat.id);
  else note.fail(error.message, { seconds: error.status === 429 ? error.retryAfter : 0 });
}

const isGone = (chatId) => call("GET", `chats/${chatId}`).then(() => false, (error) => error.status === 404);

async function tried(work) {
  try {
    await work();
  } catch (error) {
    await failed(error);
  }
}

addEventListener("hashchange", () => {
  const wanted = moved();
  if (wanted && wanted !== chat?.id) open(wanted);
});
addEventListener("offline", () => note.fail(WORDS.offline, { about: "network" }));
addEventListener("online", () => note.clear("network"));

const moved = door({ entered, left, ended, told: (sentence) => note.say(sentence) });
