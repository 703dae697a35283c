// Who speaks to the API: a token of this tab, or the session of a signed-in member of staff.

const KEY = "cm-token";
const csrf = document.querySelector('meta[name="csrf-token"]')?.content ?? "";

/** Takes token and chat out of the address (`#token=…&chat=…`), where neither history nor a copied link keeps them. */
export function fromAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = given.get("token");
  if (token) {
    sessionStorage.setItem(KEY, token);
    history.replaceState(null, "", location.pathname + (given.get("chat") ? `#chat=${given.get("chat")}` : ""));
  }
  return given.get("chat");
}

export const token = () => sessionStorage.getItem(KEY) ?? "";
export const keep = (given) => sessionStorage.setItem(KEY, given);
export const forget = () => sessionStorage.removeItem(KEY);
export const isKnown = () => Boolean(token() || csrf);
export const byToken = () => Boolean(token());

/** Headers that say who calls. */
export function credentials() {
  return token() ? { Authorization: `Bearer ${token()}` } : csrf ? { "X-CSRFToken": csrf } : {};
}
