// Reads code beside the page, where an endless pattern does not block it. `highlight.js` ends it if it does.

import { fileOf } from "./languages.js";
import { tokenizer } from "./vendor/speed-highlight/tokenize.js";

const COLOURED = new Set("bool class cmnt deleted err func insert kwd num section str type var".split(" "));
const languages = new Map();

/** What is known of a language: its patterns; none, where it is unknown or cannot be loaded. */
async function load(name) {
  const file = fileOf(name);
  postMessage({ loading: true });
  const found = file ? await import(`./vendor/speed-highlight/languages/${file}.js`).then((module) => module.default, () => []) : [];
  languages.set(name, found);
  postMessage({ loading: false });
  return found;
}

onmessage = async ({ data: { name, code } }) => {
  postMessage({ loading: false });
  const parts = []; // lengths and kinds, in turns
  const steps = tokenizer(code, name, (text, found) => {
    const kind = COLOURED.has(found) ? found : "";
    if (parts.length && parts.at(-1) === kind) parts[parts.length - 2] += text.length;
    else if (text) parts.push(text.length, kind);
  });
  let step = steps.next();
  while (!step.done) step = steps.next(languages.get(step.value) ?? (await load(step.value)));
  postMessage({ parts });
};
