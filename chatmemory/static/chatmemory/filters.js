// The filters of a list are folded on a phone, until they are opened; Django's own script keeps that for the tab.
"use strict";
{
  const filters = document.querySelector(".cm-filters");
  const kept = JSON.parse(sessionStorage.getItem("django.admin.filtersState") ?? "{}") ?? {};
  if (filters && matchMedia("(max-width: 767px)").matches && !(filters.dataset.filterTitle in kept)) filters.open = false;
}
