// Draws the charts of the overview from the tables beneath them, which are the one place where the numbers stand.
// Series are told apart by their dash and their sign; colours are those of the page, and follow its theme.
"use strict";
{
  const DASHES = [[], [9, 5], [2, 4], [12, 4, 2, 4], [5, 3], [16, 6]];
  const SIGNS = ["●", "■", "▲", "◆", "✚", "✖"];
  const HEIGHT = 220;
  const DAY = 86400;
  const WHOLE = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].flatMap((power) => [1, 2, 5].map((one) => one * 10 ** power));
  const SVG = "http://www.w3.org/2000/svg";

  const short = (number) =>
    new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }).format(number);

  // The table as uPlot wants it: days as seconds, then a list for each column; and what people read in its place.
  const readTable = (table) => {
    const labels = [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent);
    const rows = [...table.tBodies[0].rows].reverse();
    const days = rows.map((row) => Date.parse(`${row.querySelector("time").dateTime}T00:00:00Z`) / 1000);
    const cells = labels.map((_, at) => rows.map((row) => row.cells[at + 1]));
    const values = cells.map((column) => column.map((cell) => (cell.dataset.value ? Number(cell.dataset.value) : null)));
    const texts = cells.map((column) => column.map((cell) => cell.textContent));
    return { labels, days, values, texts };
  };

  const element = (name, attributes, ...children) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  // A piece of the line with its sign, as it is drawn in the chart.
  const sample = (at) =>
    element(
      "svg",
      { width: 40, height: 14, "aria-hidden": "true" },
      element("line", {
        x1: 0, x2: 40, y1: 7, y2: 7, stroke: `var(--cm-series-${at + 1})`, "stroke-width": 2,
        "stroke-dasharray": DASHES[at].join(" "),
      }),
      element("text", {
        x: 20, y: 11, "text-anchor": "middle", "font-size": 12, fill: `var(--cm-series-${at + 1})`,
      }, SIGNS[at]),
    );

  // The names of the series, and beside each its value of the day under the cursor, or of the last day.
  const makeKeys = (table) => {
    const list = document.createElement("ul");
    list.className = "cm-keys";
    const shown = table.labels.map((label, at) => {
      const item = document.createElement("li");
      const value = document.createElement("b");
      item.append(sample(at), `${label} `, value);
      list.append(item);
      return value;
    });
    const day = document.createElement("li");
    list.append(day);
    const show = (at) => {
      const index = at ?? table.days.length - 1;
      shown.forEach((value, series) => (value.textContent = table.texts[series][index]));
      day.textContent = new Date(table.days[index] * 1000).toLocaleDateString(undefined, {
        day: "numeric", month: "short", timeZone: "UTC",
      });
    };
    show(null);
    return { list, show };
  };

  // Signs on the line: of every day while there is room, else every so many days.
  const drawSigns = (plot, series) => {
    if (series === 0) return;
    const [context, ratio] = [plot.ctx, devicePixelRatio];
    const step = Math.max(1, Math.ceil((plot.data[0].length * 14) / (plot.bbox.width / ratio)));
    context.save();
    context.fillStyle = plot.series[series].stroke(plot, series);
    context.font = `${13 * ratio}px sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    let last = -Infinity;
    plot.data[series].forEach((value, at) => {
      if (!value || at < last + step) return; // zeros lie on each other
      last = at;
      const x = plot.valToPos(plot.data[0][at], "x", true);
      const y = plot.valToPos(value, plot.series[series].scale, true);
      context.fillText(SIGNS[series - 1], x, y);
    });
    context.restore();
  };

  // By keyboard: arrows go from day to day, as the mouse does; what the keys then show is read out.
  const makeReachable = (plot, keys) => {
    const last = plot.data[0].length - 1;
    const show = (at) => plot.setCursor({ left: at === null ? -10 : plot.valToPos(plot.data[0][at], "x"), top: 0 });
    plot.root.tabIndex = 0;
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", "Chart of the table below. Arrow keys go from day to day.");
    plot.root.addEventListener("focus", () => keys.setAttribute("aria-live", "polite"));
    plot.root.addEventListener("blur", () => {
      keys.removeAttribute("aria-live");
      show(null);
    });
    plot.root.addEventListener("keydown", (event) => {
      const now = plot.cursor.idx ?? last;
      const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last, Escape: null }[event.key];
      if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      show(to === null ? null : Math.min(last, Math.max(0, to)));
    });
  };

  const draw = (section) => {
    const place = section.querySelector(".cm-chart");
    const source = section.querySelector("table");
    if (!place || !source) return null;
    const table = readTable(source);
    const unit = section.dataset.unit;
    const style = () => getComputedStyle(document.documentElement);
    const colour = (name) => style().getPropertyValue(name).trim();
    const axis = () => ({
      stroke: () => colour("--body-quiet-color"),
      grid: { stroke: () => colour("--cm-grid"), width: 1 },
      ticks: { stroke: () => colour("--cm-grid"), width: 1 },
      font: "12px sans-serif",
    });
    const keys = makeKeys(table);
    place.replaceChildren(keys.list);
    const width = () => Math.max(200, place.clientWidth - 16);
    const options = {
      width: width(),
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false },
      scales: {
        x: { range: (_, from, to) => [from - DAY / 2, to + DAY / 2] },
        y: { range: (_, from, to) => [Math.min(0, from ?? 0), to > 0 ? (unit === "%" ? 100 : to * 1.08) : 1] },
      },
      axes: [
        { ...axis(), values: (_, ticks) => ticks.map((at) => new Date(at * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short", timeZone: "UTC" })), space: 64, size: 34, incrs: [1, 2, 7, 14, 28].map((days) => days * DAY) },
        { ...axis(), values: (_, ticks) => ticks.map(short), size: 56, ...(unit ? {} : { incrs: WHOLE }) },
      ],
      series: [
        {},
        ...table.labels.map((label, at) => ({
          label,
          stroke: () => colour(`--cm-series-${at + 1}`),
          width: 2,
          dash: DASHES[at],
          spanGaps: true,
          points: { show: false },
        })),
      ],
      hooks: { drawSeries: [drawSigns], setCursor: [(plot) => keys.show(plot.cursor.idx)] },
    };
    const plot = new uPlot(options, [table.days, ...table.values], place);
    makeReachable(plot, keys.list);
    new ResizeObserver(() => plot.setSize({ width: width(), height: HEIGHT })).observe(place);
    return plot;
  };

  document.addEventListener("DOMContentLoaded", () => {
    const plots = [...document.querySelectorAll("[data-chart]")].map(draw).filter(Boolean);
    const again = () => plots.forEach((plot) => plot.redraw(false, true));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  });
}
