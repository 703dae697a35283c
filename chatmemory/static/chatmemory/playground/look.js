// How the page is looked at: the part that is shown where there is room for one, and light or dark.

import { id, on } from "./dom.js";

const tabs = document.querySelectorAll("[data-look]");
const showKeys = () => id("keys").showModal();

/** Shows one part of the page: "chats", "chat" or "memory". Where there is room, all are there. */
export function look(view) {
  document.body.dataset.view = view;
  for (const one of tabs) one.setAttribute("aria-pressed", String(one.dataset.look === view));
}

for (const one of tabs) one.addEventListener("click", () => look(one.dataset.look));
for (const one of document.querySelectorAll(".cm-skip"))
  one.addEventListener("click", (event) => {
    event.preventDefault(); // the address goes on naming the chat
    look(one.dataset.part);
    id(one.hash.slice(1)).focus();
  });
on("keys-open", showKeys);

/** Keys that work on the whole page; its dialog lists them. */
export function keys({ stop, fresh }) {
  const search = () => {
    look("chats");
    id("search").select();
  };
  const works = { Escape: stop, "?": showKeys, "Ctrl+k": search, "Ctrl+O": fresh };
  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    const work = works[(event.ctrlKey || event.metaKey ? "Ctrl+" : "") + key];
    if (!work || document.body.dataset.view === "door" || event.isComposing || document.querySelector("dialog[open]")) return;
    if (key === "?" && target.matches("input, textarea, select")) return;
    if (key === "Escape" && target.id === "search") return; // it empties the field
    event.preventDefault();
    work();
  });
}

on("theme", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("cm-theme", root.dataset.theme);
});
