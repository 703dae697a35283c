// Keeps the page of a comparison up to date until it is over. What is shown is fetched anew and put in place, so that
// nobody who reads on, or has a keyboard alone, is taken back to the top.
"use strict";
{
  const shown = () => document.getElementById("cm-comparison");

  const freshen = async () => {
    const answer = await fetch(location.href, { redirect: "error" });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("cm-comparison");
    if (fresh && fresh.innerHTML !== shown().innerHTML) shown().replaceWith(document.adoptNode(fresh));
  };

  const again = () => {
    const seconds = Number(shown()?.dataset.refresh);
    if (seconds) setTimeout(() => freshen().catch(() => {}).finally(again), seconds * 1000);
  };

  again();
}
