// Says below each field of a memory that is edited by hand how many tokens it has, while somebody writes. The server
// counts; it does so again, and refuses what is too long, when the form is sent.
"use strict";
{
  const PAUSE_MS = 300;

  const follow = (form, count) => {
    const field = document.getElementById(count.dataset.for);
    const most = Number(count.dataset.most);
    let timer = 0;

    const ask = async () => {
      const text = field.value;
      const body = new FormData();
      body.set("csrfmiddlewaretoken", form.querySelector("[name=csrfmiddlewaretoken]").value);
      body.set("text", text);
      const answer = await fetch(form.dataset.count, { method: "POST", body, redirect: "error" });
      if (!answer.ok || field.value !== text) return;
      const { tokens } = await answer.json();
      const of = most ? ` of ${most.toLocaleString("en")}` : "";
      count.textContent = `${tokens.toLocaleString("en")}${of} token${(most || tokens) === 1 ? "" : "s"}`;
      count.classList.toggle("cm-over", most > 0 && tokens > most);
    };

    const soon = () => {
      clearTimeout(timer);
      timer = setTimeout(() => ask().catch(() => (count.textContent = "")), PAUSE_MS);
    };
    field.addEventListener("input", soon);
    soon();
  };

  document.addEventListener("DOMContentLoaded", () => {
    const form = document.querySelector(".cm-editing");
    for (const count of form.querySelectorAll(".cm-count")) follow(form, count);
  });
}
