// What was typed and is not yet known to have arrived: kept in this tab, through reloads and a signing in again.
//
// A message that was sent without an answer may have arrived all the same. Sent once more as it was, it goes under the
// key that it had, so that the server knows it and takes it in once.

const DRAFT = "cm-draft";
const LAST = "cm-unanswered";

export const draft = () => sessionStorage.getItem(DRAFT) ?? "";
export const keepDraft = (text) => keep(DRAFT, text);

/** The Idempotency-Key for a request: that of the last one, where that is the same and was never answered. */
export function keyFor(path, body) {
  const request = JSON.stringify([path, body]);
  const key = last().request === request ? last().key : newKey();
  keep(LAST, JSON.stringify({ request, key, message: body.message }));
  return key;
}

/** The last request was taken in: what is sent from now on is another one. */
export const answered = () => sessionStorage.removeItem(LAST);

/** The last message is with who wrote it again. Its key is kept, should it be sent once more. */
export const takenBack = () => keep(LAST, JSON.stringify({ ...last(), message: "" }));

/** The message that was on its way when the page was left; empty where there is none. */
export const onItsWay = () => last().message ?? "";

export function forget() {
  for (const name of [DRAFT, LAST]) sessionStorage.removeItem(name);
}

const last = () => JSON.parse(sessionStorage.getItem(LAST) ?? "{}");

function keep(name, text) {
  try {
    sessionStorage.setItem(name, text);
  } catch {
    sessionStorage.removeItem(name); // too large to be kept; the page itself still has it
  }
}

const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].join("-");
