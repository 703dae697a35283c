// The theme that was chosen here before, set before anything is painted. Without a choice, the system's holds.
"use strict";
{
  const chosen = localStorage.getItem("cm-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
