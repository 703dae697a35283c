// How the page is looked at: the part that is shown where there is room for one, and light or dark.

import { id } from "./dom.js";

const tabs = document.querySelectorAll("[data-look]");

/** Shows one part of the page: "chats", "chat" or "memory". Where there is room, all are there. */
export function look(view) {
  document.body.dataset.view = view;
  for (const one of tabs) one.setAttribute("aria-pressed", String(one.dataset.look === view));
}

for (const one of tabs) one.addEventListener("click", () => look(one.dataset.look));
id("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("cm-theme", root.dataset.theme);
});
