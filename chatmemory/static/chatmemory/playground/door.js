// The way in and out as people see it: by a token, by a link, by name and password; and whose account it is.

import { call, whenUnknown } from "./api.js";
import { id, on, submitted } from "./dom.js";
import * as session from "./session.js";
import { WORDS } from "./words.js";

const AGAIN_MS = 5000;

/**
 * Opens the page to who is known, or asks who it is.
 *
 * `entered` is called when a user signs in, `left` when they sign out, and then `ended` if they wanted to; `told` with a
 * sentence for who is in. Gives what to call when the address has changed: that returns the chat to open, if any.
 */
export function door({ entered, left, ended, told }) {
  let name = "";
  let asideLink = null; // {token, chat} of a link that came while another user was signed in

  const tell = (sentence) => (id("door-told").textContent = sentence);
  const enter = async () => {
    document.body.dataset.view = "chat";
    tell("");
    await Promise.all([entered(), identify()]);
  };

  /** Shows whose account it is while a user is signed in. */
  const named = (given, isStaff = false) => {
    name = given;
    document.body.toggleAttribute("data-staff", isStaff);
    id("who").hidden = !name;
    id("who-name").textContent = id("who-name").title = name;
  };
  const identify = async () => {
    const token = session.token();
    const isSame = () => document.body.dataset.view !== "door" && token === session.token();
    try {
      const me = await call("GET", "me");
      if (isSame()) named(me.username, me.is_staff);
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
    tell(sentence);
    id("token").focus();
  };

  /** Asks whether to go on as the account of a link's token, unless `quickstart` printed that link. Until then, the token is not used otherwise. */
  const offer = async ({ token, chat }) => {
    show();
    asideLink = null;
    if (chat) session.address(chat);
    let me = null;
    let sentence = WORDS.stale_link;
    try {
      me = await call("GET", "me", { headers: session.bearer(token) });
    } catch (error) {
      if (error.status !== 401) sentence = `${error.message} ${WORDS.link_again}`;
    }
    if (document.body.dataset.view !== "door") return; // meanwhile the user signed in by another way
    if (!me) {
      tell(sentence);
      return;
    }
    const accept = () => {
      session.keep(token);
      enter();
    };
    if (await session.isPrinted(token)) return accept();
    id("offer-name").textContent = me.username;
    id("offer-yes").textContent = `Continue as ${me.username}`;
    id("offer-yes").onclick = accept;
    id("offer").hidden = false;
    id("ways").hidden = true;
    id("offer-title").focus();
  };

  /** Reads the address. A link's token counts only if no user is signed in. */
  const address = () => {
    const { token, chat } = session.fromAddress();
    if (!token || token === session.token()) return { chat };
    if (!session.isKnown() || document.body.dataset.view === "door") return { offered: { token, chat } };
    asideLink = { token, chat };
    session.address();
    return { isAside: true };
  };
  const aside = () => asideLink && told(`You are signed in as ${name}. ${WORDS.aside}`);

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
      if (error.status !== 401 && document.body.dataset.view === "door") tell(WORDS.still_valid);
    }
  };
  const endSession = async () => {
    try {
      const answer = await session.endSession();
      if (answer.type !== "opaqueredirect" && !answer.ok) throw new Error(`status ${answer.status}`);
    } catch {
      told(WORDS.not_ended);
      return;
    }
    left();
    ended();
    location.reload();
  };

  submitted("by-token", () => {
    session.keep(id("token").value.trim());
    id("token").value = "";
    enter();
  });
  submitted("by-name", async () => {
    try {
      const body = { username: id("username").value, password: id("password").value };
      session.keep((await call("POST", "auth/token", { body })).token, { issued: true });
      id("password").value = "";
      enter();
    } catch (error) {
      if (error.status === 403) location.assign(`/accounts/login/?next=${location.pathname}`); // there is a second factor
      else tell(error.message);
    }
  });
  on("offer-no", () => show());
  on("leave", () => (session.byToken() ? signOut() : endSession()));
  whenUnknown(() => {
    if (document.body.dataset.view === "door") return;
    if (asideLink) offer(asideLink);
    else show(session.byToken() ? WORDS.unknown : WORDS.signed_out);
  });
  // Another user may have signed in to the admin meanwhile, in another window.
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
