// Buttons that copy an id. Where the browser keeps pages from the clipboard (plain HTTP), the id is shown to be copied by hand.
"use strict";
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.(".cm-copy");
  if (!button) return;
  const id = button.dataset.copy;
  try {
    await navigator.clipboard.writeText(id);
    button.classList.add("cm-copied");
    setTimeout(() => button.classList.remove("cm-copied"), 1500);
  } catch {
    const shown = button.parentElement.querySelector(".cm-id");
    if (shown) {
      shown.textContent = id;
      getSelection().selectAllChildren(shown);
    }
  }
});
