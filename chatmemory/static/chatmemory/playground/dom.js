// Making elements. Text is only ever text: nothing on this page is made from a string of HTML.

/** An element with attributes, properties (`on…`, `dataset` parts as `data-…`) and children; null children are left out. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** One of the page's signs, drawn in the template once. */
export const icon = (name) => id("signs").content.querySelector(`[data-sign="${name}"]`).cloneNode(true);

/** A button that says in words what it does; with an icon, the words are shown on hover. */
export function button(words, onclick, { sign = null, kind = "quiet", ...rest } = {}) {
  const shown = sign ? { "aria-label": words, title: words } : {};
  return el("button", { type: "button", class: `cm-button cm-${kind}`, onclick, ...shown, ...rest }, sign ? icon(sign) : words);
}

export const id = (name) => document.getElementById(name);
export const on = (name, work) => id(name).addEventListener("click", work);
export const submitted = (name, work) =>
  id(name).addEventListener("submit", (event) => {
    event.preventDefault();
    work();
  });
export const hint = (...children) => el("p", { class: "cm-hint" }, ...children);
/** A button that looks like a link. */
export const link = (words, onclick, rest = {}) => button(words, onclick, { kind: "plain", ...rest });
export const number = new Intl.NumberFormat(undefined).format;
export const counted = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const UNITS = [["day", 86_400], ["hour", 3600], ["minute", 60]];

/** So many seconds from now, in words. */
export function relative(seconds) {
  const [unit, size] = UNITS.find(([, one]) => Math.abs(seconds) >= one) ?? ["second", 1];
  return ago.format(Math.round(seconds / size), unit);
}

/** A time in the viewer's zone; what is not a week old, as how long ago. */
export function time(iso) {
  const seconds = (Date.now() - new Date(iso)) / 1000;
  const words = seconds < 45 ? "just now" : relative(-seconds);
  return el("time", { datetime: iso, title: moment.format(new Date(iso)) }, seconds > 604_800 ? moment.format(new Date(iso)) : words);
}

/** Says something to who listens instead of looking. */
export function announce(sentence) {
  id("announced").textContent = "";
  requestAnimationFrame(() => (id("announced").textContent = sentence));
}

export async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
    from.dataset.done = "yes";
    announce("Copied.");
    setTimeout(() => delete from.dataset.done, 1500);
  } catch {
    announce("The browser does not allow copying here.");
  }
}
