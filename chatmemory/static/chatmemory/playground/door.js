// Whose account it is: the way in, by a token, a link or name and password, and the way out.

import { call, whenUnknown } from "./api.js";
import { id } from "./dom.js";
import * as session from "./session.js";

const UNKNOWN = "This token is invalid or has expired.";
const STALE_LINK = "The token in this link is invalid or has expired.";
const SIGNED_OUT = "Your session has ended. Sign in again to continue.";
const STILL_VALID = "You are signed out here, but the server could not be reached: the token that this page had stays valid until it expires, or until all your tokens are revoked.";
const NOT_ENDED = "Signing out did not work. Load this page again, and try once more.";
const AGAIN_MS = 5000;

/**
 * Opens the page to who is known, or asks who it is.
 *
 * `entered` is called when somebody comes in, `left` when they go, and then `ended` if they wanted to; `told` with a
 * sentence for who is in. Gives what to call when the address has changed: that returns the chat to open, if any.
 */
export function door({ entered, left, ended, told }) {
  let name = "";
  let asideLink = null; // {token, chat} of a link that came while somebody else was in

  const enter = async () => {
    document.body.dataset.view = "chat";
    id("door-told").textContent = "";
    await Promise.all([entered(), identify()]);
  };

  /** Shows whose account it is, for as long as somebody is in. */
  const named = (given) => {
    name = given;
    id("who").hidden = !name;
    id("who-name").textContent = id("who-name").title = name;
  };
  const identify = async () => {
    const token = session.token();
    const isSame = () => document.body.dataset.view !== "door" && token === session.token();
    try {
      const me = await call("GET", "me");
      if (isSame()) named(me.username);
    } catch (error) {
      if (error.status !== 401) setTimeout(() => isSame() && identify(), AGAIN_MS);
    }
  };
  const show = (sentence = "") => {
    left();
    session.forget();
    named("");
    document.body.dataset.view = "door";
    id("offer").hidden = true;
    id("ways").hidden = false;
    id("door-told").textContent = sentence;
    id("token").focus();
  };

  /** Asks whether to go on as the account of a link's token. Until somebody says so, the token is not used otherwise. */
  const offer = async ({ token, chat }) => {
    show();
    asideLink = null;
    if (chat) history.replaceState(null, "", `#${new URLSearchParams({ chat })}`);
    let me = null;
    let sentence = STALE_LINK;
    try {
      me = await call("GET", "me", { headers: session.bearer(token) });
    } catch (error) {
      if (error.status !== 401) sentence = `${error.message} Open the link again in a moment.`;
    }
    if (document.body.dataset.view !== "door") return; // meanwhile somebody came in by another way
    if (!me) {
      id("door-told").textContent = sentence;
      return;
    }
    id("offer-name").textContent = me.username;
    id("offer-yes").textContent = `Continue as ${me.username}`;
    id("offer-yes").onclick = () => {
      session.keep(token);
      enter();
    };
    id("offer").hidden = false;
    id("ways").hidden = true;
    id("offer-title").focus();
  };

  /** Reads the address. A link's token counts only where nobody is known. */
  const address = () => {
    const { token, chat } = session.fromAddress();
    if (!token || token === session.token()) return { chat };
    if (!session.isKnown() || document.body.dataset.view === "door") return { offered: { token, chat } };
    asideLink = { token, chat };
    history.replaceState(null, "", location.pathname);
    return { isAside: true };
  };
  const aside = () => asideLink && told(`You are signed in as ${name}. The link that you opened has another token, which was not used: sign out first.`);

  const signOut = async () => {
    const token = session.isIssued() ? session.token() : "";
    const link = asideLink;
    show();
    ended();
    if (link) offer(link);
    if (!token) return;
    try {
      await call("DELETE", "auth/token", { headers: session.bearer(token), keepalive: true });
    } catch (error) {
      if (error.status !== 401 && document.body.dataset.view === "door") id("door-told").textContent = STILL_VALID;
    }
  };
  const endSession = async () => {
    try {
      const answer = await session.endSession();
      if (answer.type !== "opaqueredirect" && !answer.ok) throw new Error(`status ${answer.status}`);
    } catch {
      told(NOT_ENDED);
      return;
    }
    left();
    ended();
    location.reload();
  };

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
      session.keep((await call("POST", "auth/token", { body })).token, { issued: true });
      id("password").value = "";
      enter();
    } catch (error) {
      id("door-told").textContent = error.message;
    }
  });
  id("offer-no").addEventListener("click", () => show());
  id("leave").addEventListener("click", () => (session.byToken() ? signOut() : endSession()));
  whenUnknown(() => {
    if (document.body.dataset.view === "door") return;
    if (asideLink) offer(asideLink);
    else show(session.byToken() ? UNKNOWN : SIGNED_OUT);
  });
  // Somebody else may have signed in to the admin meanwhile, in another window.
  document.addEventListener("visibilitychange", async () => {
    if (document.hidden || !name || session.byToken()) return;
    const me = await call("GET", "me").catch(() => null);
    if (me && me.username !== name) location.reload();
  });

  const arrived = address();
  if (session.isKnown()) enter().then(aside);
  else if (arrived.offered) offer(arrived.offered);
  else show();

  return () => {
    const { chat, offered, isAside } = address();
    if (offered) offer(offered);
    if (isAside) aside();
    return document.body.dataset.view === "door" ? null : chat;
  };
}
