// Questions that stop everything else until they are answered. Esc is always "no".

import { el, id } from "./dom.js";

/** Shows something to read. */
export function tell(title, told, body) {
  const dialog = id("dialog");
  dialog.replaceChildren(
    el(
      "form",
      { method: "dialog", class: "cm-asking" },
      el("h2", { id: "dialog-title", dir: "auto" }, title),
      el("p", { id: "dialog-told" }, told),
      body,
      el("div", { class: "cm-answers" }, el("button", { class: "cm-button cm-primary" }, "Close")),
    ),
  );
  dialog.showModal();
}

/**
 * Asks, and gives the answer: null for no; else true, or with `text` what was written.
 *
 * `text` is what a field begins with, `label` names it, `long` makes it a large one. With `check`, a box that is ticked at
 * first, yes is `{ checked }`. With `also`, even an empty one, yes is `{ text, also }`: whether that button said so. With
 * `fields`, elements among which are named fields, yes is their values by name.
 */
export function ask({ title, told, yes, danger = false, text = null, label = "", long = false, check = "", also = null, fields = null }) {
  const dialog = id("dialog");
  const field = text === null ? null : el(long ? "textarea" : "input", { id: "dialog-field", dir: "auto", ...(long ? { rows: 8 } : {}) });
  if (field) field.value = text;
  const box = check ? el("input", { type: "checkbox", checked: true }) : null;
  const submit = el("button", { class: `cm-button ${danger ? "cm-danger" : "cm-primary"}`, value: "yes" }, yes);
  const back = document.activeElement;
  const menu = document.querySelector(`[popovertarget="${back.closest("[popover]")?.id}"]`); // closed by now, if it was in one
  dialog.replaceChildren(
    el(
      "form",
      { method: "dialog", class: "cm-asking" },
      el("h2", { id: "dialog-title" }, title),
      told ? el("p", { id: "dialog-told" }, told) : null,
      field ? el("label", { for: "dialog-field" }, label) : null,
      field,
      ...(fields ?? []),
      box ? el("label", { class: "cm-check" }, box, check) : null,
      el("div", { class: "cm-answers" }, el("button", { class: "cm-button cm-plain", value: "" }, "Cancel"), also ? el("button", { class: "cm-button", value: "also" }, also) : null, submit),
    ),
  );
  dialog.returnValue = "";
  dialog.showModal();
  const typed = field ?? fields?.find((one) => one.name);
  (typed ?? dialog.querySelector("button")).focus();
  field?.setSelectionRange?.(field.value.length, field.value.length);
  typed?.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || (long && !(event.ctrlKey || event.metaKey))) return;
    event.preventDefault();
    submit.click();
  });
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        const said = dialog.returnValue;
        resolve(!said ? null : fields ? Object.fromEntries(fields.filter((one) => one.name).map((one) => [one.name, one.value])) : also !== null ? { text: field.value, also: said === "also" } : field ? field.value : box ? { checked: box.checked } : true);
        (back.checkVisibility() ? back : menu)?.focus();
      },
      { once: true },
    );
  });
}
