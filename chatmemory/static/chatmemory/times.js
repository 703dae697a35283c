// Times in the zone and language of the viewer. Servers write UTC; what is added to a page later is shown, too.
"use strict";
{
  const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const show = (time) => {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.getTime()) || time.dataset.shown) return;
    time.dataset.shown = "yes";
    if (time.classList.contains("cm-ago")) {
      time.title = absolute.format(moment);
      return;
    }
    time.title = time.textContent;
    time.textContent = absolute.format(moment);
  };
  const showAll = (root) => root.querySelectorAll("time.cm-time").forEach(show);
  document.addEventListener("DOMContentLoaded", () => {
    showAll(document);
    new MutationObserver((changes) => {
      for (const change of changes)
        for (const node of change.addedNodes)
          if (node.nodeType === Node.ELEMENT_NODE) {
            if (node.matches("time.cm-time")) show(node);
            showAll(node);
          }
    }).observe(document.body, { childList: true, subtree: true });
  });
}
