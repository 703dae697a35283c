// Names for parts of Django's own widgets that have none which assistive technology reads.
"use strict";
{
  const name = () => {
    for (const select of document.querySelectorAll("select.admin-autocomplete")) {
      const label = document.querySelector(`label[for="${select.id}"]`)?.textContent.replace(/:\s*$/, "").trim() ?? "";
      for (const part of select.parentElement.querySelectorAll(".select2-selection, .select2-selection__rendered")) {
        part.removeAttribute("aria-labelledby");
        part.setAttribute("aria-label", label);
      }
    }
    for (const tip of document.querySelectorAll(".help-tooltip[aria-label]:not([role])")) tip.setAttribute("role", "img");
  };
  addEventListener("DOMContentLoaded", () => {
    name();
    new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
  });
}
