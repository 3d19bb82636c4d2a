"use strict";
// Finds and sorts columns, and saves tables as CSV and figures as SVG.
(() => {
  const SHOWN = ["fill", "stroke", "stroke-width", "stroke-linecap", "stroke-linejoin", "stroke-dasharray", "opacity", "fill-opacity",
    "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "visibility"];
  const title = document.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 40) || "fedwad";

  function save(kind, type, text, number) {
    const link = document.createElement("a");
    link.href = `data:${type};charset=utf-8,${encodeURIComponent(text)}`;
    link.download = `${title}-${number}.${kind}`;
    link.click();
  }

  // A text that a spreadsheet would read as a formula gets an apostrophe.
  function quoted(cell) {
    const text = (cell.innerText || cell.textContent).replace(/\s+/g, " ").trim();
    const safe = /^[=+\-@]/.test(text) && !/^[+-][\d.,]+(e[+-]?\d+)?$/i.test(text) ? `'${text}` : text;
    return /[",]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
  }

  function standalone(svg) {
    const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((one, k) => {
      const style = getComputedStyle(one);
      for (const name of SHOWN) to[k].setAttribute(name, style.getPropertyValue(name));
    });
    const labels = svg.closest(".cells") ? [...document.querySelectorAll(".named .down span")] : [];
    if (labels.length) {
      const size = labels.length, room = 0.2 * Math.max(...labels.map((label) => label.textContent.length)) + 0.3;
      copy.setAttribute("viewBox", `${-room} ${-room} ${size + room} ${size + room}`);
      labels.forEach((label, k) => [`translate(-.15 ${k + 0.5})`, `translate(${k + 0.5} -.15) rotate(-90)`].forEach((place, side) => {
        const text = document.createElementNS(svg.namespaceURI, "text");
        text.textContent = label.textContent;
        const looks = { transform: place, "font-size": 0.28, "font-family": "sans-serif", "dominant-baseline": "central", "text-anchor": side ? "start" : "end" };
        for (const [name, value] of Object.entries(looks)) text.setAttribute(name, value);
        copy.append(text);
      }));
    }
    return new XMLSerializer().serializeToString(copy);
  }

  function offer(after, words, act) {
    let place = after.nextElementSibling;
    if (!place || !place.classList.contains("saves")) {
      place = document.createElement("p");
      place.className = "saves";
      after.after(place);
    }
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = words;
    button.addEventListener("click", act);
    place.append(button);
  }

  document.querySelectorAll("table").forEach((table, k) => {
    const lines = () => [...table.rows].map((row) => [...row.cells].map(quoted).join(",")).join("\n");
    offer(table.closest(".scroller") || table, "Save as CSV", () => save("csv", "text/csv", `${lines()}\n`, k + 1));
  });
  document.querySelectorAll("figure").forEach((figure, k) => {
    const visible = () => [...figure.querySelectorAll(".cells svg, .wide svg, .narrow svg")].find((svg) => svg.getClientRects().length);
    if (figure.querySelector("svg")) offer(figure, "Save as SVG", () => visible() && save("svg", "image/svg+xml", standalone(visible()), k + 1));
  });

  const find = document.getElementById("find"), rows = document.querySelectorAll("#table-one tbody tr");
  if (find) find.addEventListener("input", () => {
    const words = find.value.trim().toLowerCase();
    for (const row of rows) {
      const is = row.cells[0].textContent.toLowerCase().includes(words);
      row.classList.toggle("lost", !is);
      row.classList.toggle("found", is && words !== "");
    }
  });

  // Columns by name, p-value or SMD; what is unknown comes last.
  const heads = rows.length > 1 ? document.querySelectorAll("#table-one thead th") : [];
  const key = (row, k) => (k ? parseFloat(row.cells[k].textContent.replace("∞", "Infinity")) : row.cells[0].querySelector("bdi").textContent);
  [...heads].slice(0, 3).forEach((head, k) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const sign = (head.getAttribute("aria-sort") || "") === (k === 2 ? "descending" : "ascending") ? -1 : 1;
      const down = (k === 2) === (sign === 1);
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const lost = (x) => k > 0 && x !== x;
      const order = (a, b) => (k ? (a > b) - (a < b) : a.localeCompare(b)) * (down ? -1 : 1);
      const compare = (a, b) => lost(a) - lost(b) || order(a, b);
      const sorted = [...rows].sort((a, b) => compare(key(a, k), key(b, k)));
      sorted[0].parentNode.append(...sorted);
    });
  });
})();

// Points at pairs in the heat map and at sites on the map. The page is complete without it.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const cells = document.getElementById("cells");
  if (!data || !cells) return;

  const { names, order } = data;
  const size = names.length;
  const byId = (id) => document.getElementById(id);
  const clamp = (number, low, high) => Math.min(Math.max(number, low), high);
  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

  // Pairs i < j lie row by row; numbers are whole, in units of the last digit shown.
  const pairIndex = (a, b) => {
    const [i, j] = a < b ? [a, b] : [b, a];
    return (i * (2 * size - i - 1)) / 2 + j - i - 1;
  };
  const text = (whole) =>
    whole === null ? "unknown" : (whole / 10 ** data.decimals).toFixed(data.decimals) + data.suffix;
  const interval = (line, pair) =>
    line.upper[pair] === null
      ? `${line.sure} ${line.lower[pair] === null ? "" : "at least "}${text(line.lower[pair])}`
      : `${line.sure} ${text(line.lower[pair])} to ${text(line.upper[pair])}`;
  const element = (tag, className, content) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...content); // strings become text, never markup
    return made;
  };
  const nameOf = (site) => element("bdi", "", [names[site]]);
  const nameAndRows = (site) => (data.rows[site] ? [nameOf(site), ` (${data.rows[site]})`] : [nameOf(site)]);

  // ---- the heat map
  const readout = byId("readout"), which = byId("which"), intervalBar = byId("interval-bar"), spot = byId("spot"), cursor = byId("cursor");
  const marks = { row: cursor.querySelector(".row"), column: cursor.querySelector(".column"), cell: cursor.querySelector(".cell") };
  const labels = ["down", "across"].map((side) => document.querySelectorAll(`.named .${side} span`));
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
      readout.replaceChildren(element("span", "pair", nameAndRows(a)), element("span", "unseen", [": "]),
        element("b", "number", ["0"]), element("span", "interval", ["from itself"]));
      return;
    }
    const lines = data.others.map((other) =>
      `${other.label} ${text(other.value[pair])}` + (other.lower ? `, ${interval(other, pair)}` : ""));
    const verdict = data.verdict[pair];
    if (verdict !== undefined) lines.unshift(data.words[verdict] + (data.pvalue[pair] ? `, p = ${data.pvalue[pair]}` : ""));
    // Without evidence of a difference there is no distance, only how far apart the sites are at most.
    const bounded = data.value[pair] === null && verdict === 0 && data.upper[pair] !== null;
    const number = bounded ? `≤ ${text(data.upper[pair])}` : text(data.value[pair]);
    const others = lines.flatMap((line) => [element("span", "unseen", [", "]), element("span", "other", [line])]);
    readout.replaceChildren(element("span", "pair", [...nameAndRows(a), " – ", ...nameAndRows(b)]), element("span", "unseen", [": "]),
      element("b", "number", [number]), element("span", "unseen", [", "]),
      element("span", "interval", [interval(data, pair)]), ...others);
    intervalBar.style.left = `${place(data.lower[pair])}%`;
    intervalBar.style.right = `${100 - place(data.upper[pair])}%`;
    spot.hidden = data.value[pair] === null;
    spot.style.left = `${place(data.value[pair])}%`;
    explain(a, b, pair);
  }

  // ---- why the chosen pair differs
  const causes = byId("causes"), walk = byId("walk");
  const barOf = (percentage) => { // such as 12% or <1%
    const bar = element("i", "", []);
    bar.style.width = percentage.replace("<", "");
    return element("span", "bar-of", [bar]);
  };
  const named = (text) => element("bdi", "", [text]);

  function explain(a, b, pair) {
    if (!causes) return;
    const { columns, pairs, said, sites } = data.why;
    byId("why-pair").replaceChildren(nameOf(a), " – ", nameOf(b));
    byId("why-said").textContent = said[pair];
    ["why-first", "why-second"].forEach((id, side) => {
      const site = [a, b][side];
      byId(id).replaceChildren(nameOf(site), data.rows[site] ? `, ${data.rows[site]}` : "");
    });
    causes.replaceChildren(...pairs[pair].map(([column, contribution, share, pvalue, smd, cause]) => {
      const head = element("th", "", [named(columns[column])]);
      head.scope = "row";
      const numbers = [pvalue, smd].map((content) => element("td", "n", [content]));
      return element("tr", cause ? "" : "within", [head, element("td", "n", [contribution]), element("td", "share", [barOf(share), share]),
        ...numbers, ...[a, b].map((site) => element("td", "", [sites[site][column]]))]);
    }));
    reach(causes.children, 0);
  }

  // One element of a list is reached by Tab, the others from there by arrow keys.
  function reach(list, at, focus = false) {
    [...list].forEach((one, k) => { one.tabIndex = k === at ? 0 : -1; });
    if (focus && list[at]) list[at].focus();
  }
  const plain = (event) => !event.ctrlKey && !event.metaKey && !event.altKey;

  if (causes) {
    // Pairs from the farthest to the nearest, so that keys can walk through them here too.
    const ranked = data.near.map((value, pair) => pair).filter((pair) => data.near[pair] !== null)
      .sort((a, b) => data.near[b] - data.near[a]);
    const sitesOf = (pair) => {
      let i = 0;
      while (pair >= size - 1 - i) pair -= size - 1 - i++;
      return [i, i + 1 + pair];
    };
    const walkBy = (step) => {
      const [a, b] = [order[chosen[0]], order[chosen[1]]];
      const at = a === b ? -1 : ranked.indexOf(pairIndex(a, b));
      choosePair(...sitesOf(ranked[clamp(at + step, 0, ranked.length - 1)]));
    };
    const button = (words, step) => {
      const made = element("button", "", [words]);
      made.type = "button";
      made.addEventListener("click", () => walkBy(step));
      return made;
    };
    if (walk && ranked.length > 1) walk.append(button("← more distant pair", -1), button("nearer pair →", 1));
    byId("why-pair").setAttribute("role", "status");
    causes.parentNode.setAttribute("aria-label", "Columns of this pair; arrow keys up and down choose a column, left and right another pair");
    causes.addEventListener("keydown", (event) => {
      const at = [...causes.children].indexOf(document.activeElement), last = causes.children.length - 1;
      const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: last }[event.key];
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (at < 0 || !plain(event) || (to === undefined && !step)) return;
      event.preventDefault();
      if (step) {
        walkBy(step);
        reach(causes.children, 0, true);
      } else reach(causes.children, clamp(to, 0, last), true);
    });
    reach(causes.children, 0);
  }

  function choosePair(a, b) {
    choose(order.indexOf(a), order.indexOf(b));
  }

  // ---- which columns set each site apart
  const standing = byId("standing");
  if (standing) {
    const rows = [...standing.tBodies[0].rows].map((row) => [...row.cells].slice(1));
    const heads = [...standing.tHead.rows[0].cells].slice(1);
    const list = rows.flat(), width = heads.length;
    // The contribution of a column to the distance of two sites, if it is a cause there.
    const partOf = (site, other, column) => {
      const row = data.why.pairs[pairIndex(site, other)].find(([one]) => one === column);
      return row && row[5] ? Number(row[1]) : -Infinity;
    };
    const others = (site, column) => order.filter((other) => other !== site)
      .sort((a, b) => partOf(site, b, column) - partOf(site, a, column));
    const describeCell = (at) => {
      const site = order[Math.floor(at / width)], column = data.why.standing[at % width];
      const text = data.why.columns[column], count = list[at].textContent, [far] = others(site, column);
      const here = data.why.sites[site][column], there = data.why.sites[far][column];
      return count ? `${names[site]}, ${text}: differs from ${count} of ${size - 1}. ${here} here, ${there} at ${names[far]}.`
        : `${names[site]}, ${text}: ${here} here.`;
    };
    const visit = (at, focus) => {
      reach(list, at, focus);
      byId("standing-said").textContent = describeCell(at);
      heads.forEach((head, k) => head.classList.toggle("on", k === at % width));
      rows.forEach((row, k) => row[0].parentNode.cells[0].classList.toggle("on", k === Math.floor(at / width)));
    };
    const open = (at) => {
      const site = order[Math.floor(at / width)], [far] = others(site, data.why.standing[at % width]);
      choosePair(site, far);
    };
    standing.setAttribute("role", "grid");
    standing.setAttribute("aria-label", "From how many other sites each site differs in each column; arrow keys choose a cell, Enter its pair");
    list.forEach((cell, at) => {
      cell.setAttribute("aria-label", describeCell(at));
      cell.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && visit(at));
      cell.addEventListener("focus", () => visit(at));
      cell.addEventListener("click", () => (visit(at), open(at)));
    });
    reach(list, 0);
    byId("standing-said").textContent = "Point at a cell, or reach it with Tab and the arrow keys; a click or Enter shows its pair above.";
    standing.addEventListener("keydown", (event) => {
      const at = list.indexOf(document.activeElement), row = Math.floor(at / width), column = at % width;
      if (at < 0 || !plain(event)) return;
      const [down, right] = STEPS[event.key] || [0, { Home: -width, End: width }[event.key] || 0];
      if (event.key === "Enter" || event.key === " ") open(at);
      else if (down || right) visit(clamp(row + down, 0, rows.length - 1) * width + clamp(column + right, 0, width - 1), true);
      else return;
      event.preventDefault();
    });
  }

  function point(event) {
    const box = cells.getBoundingClientRect();
    choose(Math.floor(((event.clientY - box.top) / box.height) * size), Math.floor(((event.clientX - box.left) / box.width) * size));
  }
  cells.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(event));
  cells.addEventListener("click", point); // a tap is a click that was not a scroll

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
    const apart = (other) => data.near[pairIndex(site, other)];
    const near = order.filter((other) => other !== site && apart(other) !== null).sort((a, b) => apart(a) - apart(b)).slice(0, 3);
    const parts = near.flatMap((other, k) => [k ? ", " : ": smallest estimates ", nameOf(other), ` (${text(apart(other))})`]);
    siteReadout.replaceChildren(element("b", "", nameAndRows(site)), ...parts);
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
