// Who looks: the way in, by a token or by name and password, and the way out.

import { call, whenUnknown } from "./api.js";
import { id } from "./dom.js";
import * as session from "./session.js";

const UNKNOWN = "The server does not know this token any more. Give another one, or sign in again.";
const SIGNED_OUT = "You are signed out by now. Sign in again, and go on where you were.";

/**
 * Opens the page to who is known, or asks who it is.
 *
 * `entered` is called when somebody comes in, `left` when they go, and then `ended` if they wanted to.
 */
export function door({ entered, left, ended }) {
  const enter = () => {
    document.body.dataset.view = "chat";
    id("leave").hidden = !session.byToken();
    id("door-told").textContent = "";
    entered();
  };
  const show = (sentence = "") => {
    left();
    session.forget();
    document.body.dataset.view = "door";
    id("door-told").textContent = sentence;
    id("token").focus();
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
      session.keep((await call("POST", "auth/token", { body })).token);
      id("password").value = "";
      enter();
    } catch (error) {
      id("door-told").textContent = error.message;
    }
  });
  id("leave").addEventListener("click", () => {
    show();
    ended();
  });
  whenUnknown(() => document.body.dataset.view !== "door" && show(session.byToken() ? UNKNOWN : SIGNED_OUT));

  session.fromAddress();
  if (session.isKnown()) enter();
  else show();
}
