// Colours for code. A worker reads it, block by block; one that takes too long is ended, and its block stays plain.

import { el } from "./dom.js";
import { fileOf } from "./languages.js";

const LONGEST = 20_000; // in UTF-16 units
const MOST_PARTS = 3000; // about half of them have a colour; more would take the page long to draw
const MOST_MS = 500;
const KEPT = 100; // blocks whose parts are known, for when they are drawn again
const known = new Map();
const waiting = [];
let worker = null;
let isAway = false;
let timer = 0;

/** Colours `place`, whose text is `code`: now if it was read before, else soon. The text stays what it is. */
export function highlight(place, code, language) {
  const file = fileOf(language);
  if (!file || !code || code.length > LONGEST || isAway) return;
  const key = `${file}\n${code}`;
  if (known.has(key)) return paint(place, code, known.get(key));
  waiting.push({ place, code, file, key });
  if (waiting.length === 1) queueMicrotask(next); // when it has its place on the page
}

function next() {
  if (!waiting.length) return;
  const [{ place, code, file, key }] = waiting;
  if (known.has(key)) return done(known.get(key));
  if (!place.isConnected) return drop();
  worker ??= begin();
  worker.postMessage({ name: file, code });
}

function begin() {
  const made = new Worker(new URL("./code-worker.js", import.meta.url), { type: "module" });
  made.onmessage = ({ data }) => {
    if (data.parts) done(data.parts);
    else if (data.loading) clearTimeout(timer);
    else watch();
  };
  made.onerror = () => { // a browser that has no such workers, or a server that is away
    isAway = true;
    clearTimeout(timer);
    waiting.length = 0;
  };
  return made;
}

/** Gives the worker so much time for what it reads now, not for what it loads. */
function watch() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    worker.terminate();
    worker = null;
    done([]);
  }, MOST_MS);
}

function done(parts) {
  clearTimeout(timer);
  const { place, code, key } = waiting[0];
  if (known.size >= KEPT) known.delete(known.keys().next().value);
  known.set(key, parts);
  if (place.isConnected) paint(place, code, parts);
  drop();
}

function drop() {
  waiting.shift();
  next();
}

function paint(place, code, parts) {
  if (!parts.length || parts.length > 2 * MOST_PARTS) return;
  if (getSelection().containsNode(place, true)) return; // the user may be about to copy it
  const made = [];
  let at = 0;
  for (let index = 0; index < parts.length; index += 2) {
    const text = code.slice(at, (at += parts[index]));
    made.push(parts[index + 1] ? el("span", { class: `cm-code-${parts[index + 1]}` }, text) : text);
  }
  place.replaceChildren(...made, code.slice(at));
}
