// Keeps what is said of the work on a memory up to date. Asks every second at first, then less often, and stops when
// nothing is left to be done or nobody looks. Then what shows the memory is fetched anew and put in place, form fields
// untouched, and a link leads to what changed.
"use strict";
{
  const FIRST_MS = 1000, LONGEST_MS = 5000, SLOWER = 1.25;

  const follow = (box) => {
    const sentence = box.querySelector(".cm-sentence");
    const sign = box.querySelector(".cm-sign");
    const bar = box.querySelector("progress");
    const refresh = box.querySelector(".cm-refresh");
    let wait = FIRST_MS;
    let timer = 0;
    let over = box.dataset.over === "yes";

    const show = (now) => {
      if (sentence.textContent !== now.sentence) sentence.textContent = now.sentence;
      sign.textContent = now.sign;
      bar.hidden = now.is_over || now.kind === "bad";
      if (now.of) {
        bar.max = now.of;
        bar.value = now.done;
      } else bar.removeAttribute("value");
      over = now.is_over;
      if (over) settle(now.head);
      box.dispatchEvent(new CustomEvent("memory-progress", { bubbles: true, detail: now }));
    };

    // What was said when the work began is not so any more, and what is shown is of the version before.
    const settle = (head) => {
      for (const line of document.querySelectorAll(".messagelist .cm-until-done")) line.remove();
      const before = box.dataset.head;
      if (String(head) === before) return;
      box.dataset.head = head;
      refresh.href = before === "0" ? "" : `${box.dataset.diff}?from=${before}&to=${head}`;
      refresh.textContent = before === "0" ? "Reload this page" : "See what changed";
      refresh.hidden = false;
      box.classList.add("cm-has-news");
      freshen().catch(() => {}); // the page stays as it was, and the link is there
    };

    const freshen = async () => {
      const answer = await fetch(location.href, { redirect: "error" });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-fresh]")) {
        const newer = fresh.getElementById(part.id);
        if (newer) part.replaceWith(document.adoptNode(newer));
      }
    };

    const ask = async () => {
      timer = 0;
      try {
        const answer = await fetch(box.dataset.url, { headers: { Accept: "application/json" }, redirect: "error" });
        if (answer.status === 401 || answer.status === 403 || answer.status === 404) {
          over = true;
          sentence.textContent = "This page can no longer tell how far it is. Reload it.";
          refresh.hidden = false;
          return;
        }
        if (answer.ok) show(await answer.json());
      } catch {
        // The server is away for the moment: asked again, later.
      }
      wait = Math.min(wait * SLOWER, LONGEST_MS);
      next();
    };

    const next = () => {
      if (!over && !document.hidden && !timer) timer = setTimeout(ask, wait);
    };

    refresh.hidden = true;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(timer);
      timer = 0;
      wait = FIRST_MS;
      next();
    });
    next();
  };

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".cm-under-way").forEach(follow));
}
