// A timeline that is opened at a message shows it, also where the link to it had no fragment.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  if (!location.hash) document.querySelector(".cm-is-at")?.scrollIntoView({ block: "center" });
});
