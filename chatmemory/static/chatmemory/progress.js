// Keeps what is said of the work on a memory up to date. Asks every second at first, then less often, and stops when
// nothing is left to be done or nobody looks. A page is never reloaded while somebody reads it: a link offers that.
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
      bar.hidden = now.is_over || now.doing === "failed";
      if (now.of) {
        bar.max = now.of;
        bar.value = now.done;
      } else bar.removeAttribute("value");
      const isNew = String(now.head) !== box.dataset.head;
      refresh.hidden = !isNew;
      refresh.textContent = "Reload to see it";
      box.classList.toggle("cm-has-news", isNew);
      over = now.is_over;
      box.dispatchEvent(new CustomEvent("memory-progress", { bubbles: true, detail: now }));
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
