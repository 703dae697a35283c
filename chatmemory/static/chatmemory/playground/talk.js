// What is being said: one question at a time, on its way to the server, and its reply on its way back.

import { call, request } from "./api.js";
import { announce, id, link } from "./dom.js";
import { follow } from "./follow.js";
import { tellOthers } from "./tabs.js";
import * as unsent from "./unsent.js";
import { changeOf } from "./versions.js";
import { WORDS } from "./words.js";

export class Talk {
  #reading = null; // {controller, chatId, messageId, message}

  /**
   * `parts` are the page's conversation, memory, note and composer. `desk` has what is not of one reply: chat() is the
   * open one, began(chatId) is told of a new one, open(chatId), renew(), replied(chatId), failed(error).
   */
  constructor(parts, desk) {
    Object.assign(this, parts, { desk });
  }

  async send(message) {
    if (this.#reading) return this.composer.giveBack(message); // a reply was being written in the chat that was opened
    const chat = this.desk.chat();
    const variant = { model_variant: id("variant").value, memory_events: true };
    const [path, body] = chat ? [`chats/${chat.id}/messages`, { message, ...variant }] : ["message/first", { message, ...variant, policy: id("policy").value, temporary: id("temporary").checked }];
    this.note.clear();
    this.conversation.toNewest();
    this.conversation.put({ id: "sending", seq: this.#nextSeq(), role: "user", content: message, status: "sending", created_at: new Date().toISOString() });
    id("welcome").hidden = id("guide").hidden = true;
    await this.#run({ start: question(path, body), message });
  }

  get isReading() {
    return Boolean(this.#reading);
  }

  async regenerate(message) {
    if (this.#reading) return;
    this.note.clear();
    const body = { model_variant: id("variant").value, memory_events: true };
    await this.#run({ start: question(`chats/${this.desk.chat().id}/messages/${message.id}/regenerate`, body), again: message });
  }

  /** Goes on reading a reply that was being written when the chat was opened. */
  async resume({ chat_id: chatId, id: messageId, content: text }) {
    await this.#run({ reply: { chatId, messageId, text } });
  }

  /** Reads no more. What is being written goes on; what did not get through is given back. */
  leave() {
    const mine = this.#reading;
    this.#read(null);
    mine?.controller.abort();
    if (mine?.isDelayed) this.#takeBack(mine);
  }

  /** Ends the reply, or the attempts to send its question. */
  async stop() {
    const mine = this.#reading;
    if (!mine) return;
    const { chatId, messageId } = mine;
    if (!messageId) {
      this.leave();
      this.#takeBack(mine);
      this.note.say("Stopped before the server answered.");
      return;
    }
    try {
      this.conversation.put((await call("POST", `chats/${chatId}/messages/${messageId}/cancel`)).message);
    } catch (error) {
      if (error.code !== "conflict") this.desk.failed(error); // else it ended by itself
    }
  }

  /** Reads one reply: of a question that `start` sends, or one that is known. */
  async #run({ start, reply, message, again }) {
    const mine = { controller: new AbortController(), chatId: this.desk.chat()?.id, messageId: reply?.messageId, message };
    const { signal } = mine.controller;
    this.#read(mine);
    const on = {
      created: (data) => this.#created(mine, data, again),
      remembered: (update) => this.note.say(changeOf(update), { action: link("Show", () => this.memory.show(update)), about: "memory" }),
      text: (text) => {
        this.note.clear("waiting");
        this.conversation.grow(mine.messageId, text);
      },
      waiting: (sentence) => {
        mine.isDelayed = true;
        this.note.say(sentence, { about: "waiting" });
      },
    };
    try {
      const final = await follow({ start, reply, on, signal });
      this.note.clear("waiting");
      this.conversation.put(final);
      announce(WORDS.ends[final.status] ?? "The reply is complete.");
      this.memory.afterReply(final);
      this.desk.replied(final.chat_id);
      if (start) tellOthers(final.chat_id);
    } catch (error) {
      if (error.status === 401) this.#takeBack(mine);
      else if (!signal.aborted) this.#refused(error, mine);
    } finally {
      if (this.#reading === mine) this.#read(null);
    }
  }

  #created(mine, data, again) {
    const { message } = mine;
    unsent.answered();
    this.note.clear("waiting");
    mine.messageId = data.message_id;
    mine.chatId = data.chat_id;
    const now = { chat_id: data.chat_id, created_at: new Date().toISOString(), metadata: {} };
    if (message !== undefined) {
      this.conversation.drop("sending");
      if (!this.conversation.find(data.user_message_id))
        this.conversation.put({ ...now, id: data.user_message_id, seq: this.#nextSeq(), role: "user", content: message, status: "complete" });
    }
    if (again?.role === "assistant") this.conversation.put({ ...again, superseded_by: data.message_id });
    if (!this.conversation.find(data.message_id))
      this.conversation.put({ ...now, id: data.message_id, seq: this.#nextSeq(), role: "assistant", content: "", status: "streaming", model_variant: data.model_variant });
    if (!this.desk.chat()) this.desk.began(data.chat_id);
    tellOthers(data.chat_id);
    if (data.context) this.memory.sent(data.context);
  }

  #refused(error, mine) {
    const { chatId, messageId } = mine;
    this.#takeBack(mine);
    if (error.code === "chat_busy") {
      this.note.fail(error.message, { about: "busy" });
      this.#read(null);
      this.desk.renew(); // shows what was asked elsewhere, and the reply as it is written
    } else if (messageId && error.status !== 404) this.note.fail(error.message, { action: link("Try again", () => this.desk.open(chatId)) });
    else this.desk.failed(error);
  }

  /** Gives a message that is not known to have arrived back to who wrote it: once. */
  #takeBack(mine) {
    if (mine.messageId || mine.message === undefined || mine.isBack) return;
    mine.isBack = true;
    unsent.takenBack();
    this.conversation.drop("sending");
    this.composer.giveBack(mine.message);
    id("welcome").hidden = Boolean(this.desk.chat());
  }

  #read(mine) {
    this.#reading = mine;
    this.composer.busy(Boolean(mine));
  }

  #nextSeq() {
    return (this.conversation.last?.seq ?? 0) + 1;
  }
}

function question(path, body) {
  const headers = { "Idempotency-Key": unsent.keyFor(path, body), Accept: "text/event-stream" };
  return (signal) => request("POST", path, { body, headers, signal });
}
