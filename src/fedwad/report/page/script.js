"use strict";
// Points at pairs in the heat map and at sites on the map. The page is complete without it.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const cells = document.getElementById("cells");
  if (!data || !cells) return;

  const { names, order } = data;
  const size = names.length;
  const byId = (id) => document.getElementById(id);
  const clamp = (number, low, high) => Math.min(Math.max(number, low), high);

  // Pairs i < j lie row by row; numbers are whole, in units of the last digit shown.
  const pairIndex = (a, b) => {
    const [i, j] = a < b ? [a, b] : [b, a];
    return (i * (2 * size - i - 1)) / 2 + j - i - 1;
  };
  const text = (whole) =>
    whole === null ? "unknown" : (whole / 10 ** data.decimals).toFixed(data.decimals) + data.suffix;
  const interval = (line, pair) =>
    line.upper[pair] === null
      ? `${line.sure} at least ${text(line.lower[pair])}`
      : `${line.sure} ${text(line.lower[pair])} to ${text(line.upper[pair])}`;
  const element = (tag, className, content) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...content); // strings become text, never markup
    return made;
  };
  const nameOf = (site) => element("bdi", "", [names[site]]);

  // ---- the heat map
  const readout = byId("readout"), which = byId("which"), intervalBar = byId("interval-bar"), spot = byId("spot"), cursor = byId("cursor");
  const marks = { row: cursor.querySelector(".row"), column: cursor.querySelector(".column"), cell: cursor.querySelector(".cell") };
  const labels = ["down", "across"].map((side) => document.querySelectorAll(`.named .${side} span`));
  const VERDICTS = ["no evidence of a difference", "different by more than chance"];
  let chosen = data.start;

  const place = (whole) => {
    if (whole === null) return 100;
    const [low, high] = data.span;
    return clamp(high > low ? (100 * (whole - low)) / (high - low) : 0, 0, 100);
  };
  const setBox = (rect, x, y, width, height) => {
    for (const [key, value] of Object.entries({ x, y, width, height })) rect.setAttribute(key, value);
  };

  function choose(row, column) {
    chosen = [clamp(row, 0, size - 1), clamp(column, 0, size - 1)];
    [row, column] = chosen;
    setBox(marks.row, 0, row, size, 1);
    setBox(marks.column, column, 0, 1, size);
    setBox(marks.cell, column, row, 1, 1);
    cursor.style.visibility = "visible";
    labels.forEach((list, side) => list.forEach((label, k) => label.classList.toggle("on", k === chosen[side])));
    describe(order[row], order[column]);
  }

  function describe(a, b) {
    const same = a === b, pair = same ? -1 : pairIndex(a, b);
    which.textContent = same ? "One site" : "This pair";
    intervalBar.hidden = spot.hidden = same;
    if (same) {
      readout.replaceChildren(element("span", "pair", [nameOf(a)]), element("span", "unseen", [": "]),
        element("b", "number", ["0"]), element("span", "interval", ["from itself"]));
      return;
    }
    const lines = data.others.map((other) =>
      `${other.label} ${text(other.value[pair])}` + (other.lower ? `, ${interval(other, pair)}` : ""));
    if (data.verdict.length) lines.unshift(VERDICTS[data.verdict[pair]]);
    const others = lines.flatMap((line) => [element("span", "unseen", [", "]), element("span", "other", [line])]);
    readout.replaceChildren(element("span", "pair", [nameOf(a), " – ", nameOf(b)]), element("span", "unseen", [": "]),
      element("b", "number", [text(data.value[pair])]), element("span", "unseen", [", "]),
      element("span", "interval", [interval(data, pair)]), ...others);
    intervalBar.style.left = `${place(data.lower[pair])}%`;
    intervalBar.style.right = `${100 - place(data.upper[pair])}%`;
    spot.style.left = `${place(data.value[pair])}%`;
    explain(a, b, pair);
  }

  // ---- why the chosen pair differs
  const causes = byId("causes");
  function explain(a, b, pair) {
    if (!causes) return;
    byId("why-pair").replaceChildren(nameOf(a), " – ", nameOf(b));
    byId("why-none").hidden = data.why.pairs[pair].length > 0;
    causes.replaceChildren(...data.why.pairs[pair].map(([column, thousandths, sure]) => {
      const bar = element("i", "", []);
      bar.style.width = `${thousandths / 10}%`;
      const part = thousandths >= 10 ? `${Math.round(thousandths / 10)}%` : "<1%";
      const at = (site) => element("span", "at-site", [nameOf(site), ` ${data.why.sites[site][column]}`]);
      return element("li", sure ? "" : "within", [element("span", "column", [element("bdi", "", [data.why.columns[column]])]),
        element("b", "part", [part]), element("span", "bar-of", [bar]), at(a), at(b)]);
    }));
  }

  function point(event) {
    const box = cells.getBoundingClientRect();
    choose(Math.floor(((event.clientY - box.top) / box.height) * size), Math.floor(((event.clientX - box.left) / box.width) * size));
  }
  cells.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(event));
  cells.addEventListener("click", point); // a tap is a click that was not a scroll

  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const step = ([down, right]) => choose(chosen[0] + down, chosen[1] + right);
  cells.addEventListener("keydown", (event) => {
    if (!STEPS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    step(STEPS[event.key]);
  });
  cells.addEventListener("focus", () => cells.matches(":focus-visible") && choose(...chosen));
  for (const button of document.querySelectorAll("[data-step]"))
    button.addEventListener("click", () => step(button.dataset.step.split(" ").map(Number)));

  // ---- the map of sites
  const siteReadout = byId("site-readout");
  function showSite(site) {
    const near = order.filter((other) => other !== site && data.value[pairIndex(site, other)] !== null)
      .sort((a, b) => data.value[pairIndex(site, a)] - data.value[pairIndex(site, b)]).slice(0, 3);
    const parts = near.flatMap((other, k) => [k ? ", then " : ": nearest is ", nameOf(other), ` (${text(data.value[pairIndex(site, other)])})`]);
    siteReadout.replaceChildren(element("b", "", [nameOf(site)]), ...parts);
    for (const dot of document.querySelectorAll("[data-site]")) dot.classList.toggle("on", Number(dot.dataset.site) === site);
  }
  for (const map of document.querySelectorAll(".map svg")) {
    let at = -1;
    const visit = (event) => {
      const dot = event.target.closest("[data-site]");
      if (dot) showSite(Number(dot.dataset.site));
    };
    map.addEventListener("pointerover", visit);
    map.addEventListener("click", visit);
    map.addEventListener("keydown", (event) => {
      if (!STEPS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      at = (at + STEPS[event.key][0] + STEPS[event.key][1] + size) % size;
      showSite(order[at]);
    });
  }
})();
