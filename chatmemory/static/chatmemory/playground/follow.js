// A reply, read to its end: through lost connections, servers that go away, and reloads.

import { ApiError, request } from "./api.js";
import { eventsOf } from "./sse.js";
import { WORDS } from "./words.js";

const TRIES = 20; // while the browser is offline, they do not count
const LONGEST_MS = 10_000;

/**
 * Reads a reply and gives its final message.
 *
 * `start` sends the question (safe to repeat: it carries an Idempotency-Key); without it, `reply` is one that is known:
 * {chatId, messageId, text}. `on` is told of what happens: created(data), remembered(version of the memory), text(all of
 * it so far), waiting(sentence).
 * Raises ApiError where the server refuses or stays away, and AbortError when `signal` ends the reading.
 */
export async function follow({ start, reply = null, on, signal }) {
  const known = { reply, position: reply ? [...reply.text].length : 0 };
  for (let tries = 0; ; tries++) {
    let wait = Math.min(500 * 2 ** tries, LONGEST_MS);
    try {
      const response = await (known.reply ? rest(known, signal) : start(signal));
      for await (const event of eventsOf(response)) {
        tries = 0;
        wait = 500;
        const data = JSON.parse(event.data);
        if (event.name === "reconnect") wait = data.retry_ms;
        else if (event.name === "message.created") created(known, data, on);
        else if (event.name === "memory.updated") on.remembered(data);
        else if (event.name === "content.delta") grow(known, data.delta, event.id, on);
        else if (data.message) return data.message;
      }
      if (tries >= TRIES) throw new ApiError(WORDS.slow, { status: 410 });
    } catch (error) {
      if (error instanceof ApiError && !error.isPassing) throw error;
      if (signal.aborted) throw abort();
      if (tries >= TRIES) throw error;
      if (!navigator.onLine) tries--;
      if (error.retryAfter) wait = error.retryAfter * 1000;
    }
    on.waiting(known.reply ? WORDS.lost_line : WORDS.unheard);
    await pause(wait, signal);
  }
}

const rest = ({ reply, position }, signal) =>
  request("GET", `chats/${reply.chatId}/messages/${reply.messageId}/stream?memory_events=true`, {
    headers: { Accept: "text/event-stream", ...(position ? { "Last-Event-ID": String(position) } : {}) },
    signal,
  });

function created(known, data, on) {
  if (!known.reply) known.reply = { chatId: data.chat_id, messageId: data.message_id, text: "" };
  on.created(data);
}

function grow(known, delta, id, on) {
  known.reply.text += delta;
  known.position = Number(id) || known.position;
  on.text(known.reply.text);
}

const abort = () => new DOMException("No longer read.", "AbortError");

/** Waits; a network that comes back, or a reader that leaves, ends the waiting. */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      if (signal.aborted) reject(abort());
      else resolve();
    }
    addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}
