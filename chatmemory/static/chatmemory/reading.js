// A chat that staff read: replies as the playground shows them, opened at the newest message. Nothing is sent anywhere.
import { show } from "./playground/markdown.js";

for (const body of document.querySelectorAll("[data-markdown]")) {
  const text = body.textContent;
  body.classList.remove("cm-asis");
  body.replaceChildren();
  show(body, text);
}
const scroller = document.getElementById("scroller");
if (!new URLSearchParams(location.search).has("upto")) scroller.scrollTop = scroller.scrollHeight;
