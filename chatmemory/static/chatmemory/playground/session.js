// What the API is told of who asks: the token of this tab or the session of a sign-in, kept until it is ended.

const KEY = "cm-token";
const ISSUED = "cm-token-issued";
const csrf = document.querySelector('meta[name="csrf-token"]')?.content ?? "";

/** What the address gives (`#token=…&chat=…`). The token is taken out of it, so that neither history nor a copied link keeps it. */
export function fromAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const chat = given.get("chat");
  if (given.has("token")) address(chat);
  return { token: given.get("token") ?? "", chat };
}

/** Has the address lead to a chat, or to none. */
export const address = (chat) => history.replaceState(null, "", location.pathname + (chat ? `#${new URLSearchParams({ chat })}` : ""));

export const token = () => sessionStorage.getItem(KEY) ?? "";
export const isKnown = () => Boolean(token() || csrf);
export const byToken = () => Boolean(token());

/** `issued`: the server made the token for this page, so it is to be revoked at signing out. */
export function keep(given, { issued = false } = {}) {
  sessionStorage.setItem(KEY, given);
  if (issued) sessionStorage.setItem(ISSUED, "yes");
  else sessionStorage.removeItem(ISSUED);
}

export const isIssued = () => sessionStorage.getItem(ISSUED) === "yes";

export function forget() {
  sessionStorage.removeItem(KEY);
  sessionStorage.removeItem(ISSUED);
}

/** Whether this is the token of the link that `quickstart` printed when it started this server, and nowhere else. */
export async function isPrinted(given) {
  const printed = document.body.dataset.printed;
  if (!printed || !crypto.subtle) return false;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(given));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("") === printed;
}

/** Headers that say who calls. */
export function credentials() {
  return token() ? bearer(token()) : csrf ? { "X-CSRFToken": csrf } : {};
}

export const bearer = (given) => ({ Authorization: `Bearer ${given}` });

/** Ends the session, in the admin too. */
export const endSession = () => fetch("/accounts/logout/", { method: "POST", headers: { "X-CSRFToken": csrf }, redirect: "manual" });
