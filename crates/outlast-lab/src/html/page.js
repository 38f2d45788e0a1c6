"use strict";
// Tables that sort and filter, figures that zoom and switch series, one explained crash at a time.
// Without this script everything on the page can still be read.

const make = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  element.textContent = text;
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  return element;
};

// A cell's number, its prefix counted, or its words.
const PREFIXES = { k: 1e3, M: 1e6, G: 1e9 };
const valueOf = (cell) => {
  if (cell === undefined) return "";
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  const first = [...cell.childNodes].find((node) => node.textContent.trim() !== "");
  const text = (first?.textContent ?? "").replace(/[\u202f,]/g, "").trim();
  const number = /^(-?\d+(?:\.\d+)?)\s?([kMG]?)/.exec(text);
  return number ? Number(number[1]) * (PREFIXES[number[2]] ?? 1) : text;
};

const sortable = (table) => {
  const body = table.tBodies[0];
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.title = head.title || "Sorts by this column";
    head.removeAttribute("title");
    head.append(button);
    button.addEventListener("click", () => {
      const falls = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const order = (a, b) => {
        const [x, y] = [valueOf(a.cells[column]), valueOf(b.cells[column])];
        if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
        const way = typeof x === "number" ? x - y : x.localeCompare(y);
        return falls ? -way : way;
      };
      [...body.rows].sort(order).forEach((row) => body.append(row));
    });
  });
};

// Shorter tables need no filter.
const ROWS_MIN = 8;
const filterable = (table) => {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < ROWS_MIN) return;
  const controls = make("p", "", { class: "controls" });
  const words = make("input", "", { type: "search", placeholder: "words of a row" });
  const wordsLabel = make("label", "Filter: ");
  wordsLabel.append(words);
  controls.append(wordsLabel);
  const seen = make("select", "");
  const kinds = [...new Set(rows.map((row) => row.dataset.seen).filter(Boolean))];
  if (kinds.length > 0) {
    ["", ...kinds].forEach((kind) => seen.append(make("option", kind || "any", { value: kind })));
    const label = make("label", "Seen: ");
    label.append(seen);
    controls.append(label);
  }
  const apply = () => {
    const wanted = words.value.trim().toLowerCase();
    for (const row of rows) {
      const has = row.textContent.toLowerCase().includes(wanted);
      row.hidden = !has || (seen.value !== "" && row.dataset.seen !== seen.value);
    }
  };
  words.addEventListener("input", apply);
  seen.addEventListener("input", apply);
  table.closest(".scroll").before(controls);
};

document.querySelectorAll(".scroll > table").forEach((table) => {
  if (!table.tHead || !table.tBodies[0]) return;
  sortable(table);
  filterable(table);
});

// Series are switched by their name; bars and lines of one name belong together.
const switchable = (svg, tools) => {
  const marks = [...svg.querySelectorAll("[data-series]")];
  const names = [...new Set(marks.map((mark) => mark.dataset.series))];
  if (names.length < 2) return;
  for (const name of names) {
    const mine = marks.filter((mark) => mark.dataset.series === name);
    const button = make("button", ` ${name}`, { type: "button", "aria-pressed": "true" });
    const swatch = make("span", "", { class: "swatch" });
    swatch.style.background = mine[0].getAttribute("fill");
    button.prepend(swatch);
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      mine.forEach((mark) => mark.classList.toggle("off", !on));
    });
    tools.append(button);
  }
};

const STEP = 1.5;
const zoomable = (plot, svg, tools) => {
  let [zoom, unzoomed] = [1, 0];
  const apply = (factor) => {
    if (zoom === 1) unzoomed = svg.getBoundingClientRect().width;
    zoom = Math.min(8, Math.max(1, zoom * factor));
    plot.classList.toggle("zoomed", zoom > 1);
    // Enlarged, it is wider than a phone's rules let it be.
    if (zoom > 1) svg.style.setProperty("max-width", "none", "important");
    else svg.style.maxWidth = "100%";
    svg.style.width = zoom > 1 ? `${Math.round(unzoomed * zoom)}px` : "";
  };
  const button = (text, name, factor) => {
    const made = make("button", text, { type: "button", "aria-label": name, title: name });
    made.addEventListener("click", () => apply(factor));
    tools.append(made);
  };
  button("+", "Larger", STEP);
  button("−", "Smaller", 1 / STEP);
  button("1:1", "As it was", 0);
  plot.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    apply(event.deltaY < 0 ? STEP : 1 / STEP);
  }, { passive: false });
  let from = null;
  plot.addEventListener("pointerdown", (event) => {
    if (zoom > 1) from = [event.clientX + plot.scrollLeft, event.clientY + plot.scrollTop];
  });
  plot.addEventListener("pointermove", (event) => {
    if (from) plot.scrollTo(from[0] - event.clientX, from[1] - event.clientY);
  });
  ["pointerup", "pointerleave"].forEach((over) => plot.addEventListener(over, () => (from = null)));
};

document.querySelectorAll("figure").forEach((figure) => {
  const [plot, svg] = [figure.querySelector(".plot"), figure.querySelector("svg")];
  if (!plot || !svg) return;
  const tools = make("div", "", { class: "tools" });
  switchable(svg, tools);
  zoomable(plot, svg, tools);
  plot.before(tools);
});

// One explained crash at a time, picked from the list.
const flaw = document.getElementById("flaw");
if (flaw) {
  const crashes = [...document.querySelectorAll("details.crash")];
  const show = (id) => {
    crashes.forEach((crash) => {
      crash.hidden = crash.id !== id;
      crash.open = crash.id === id;
    });
    flaw.value = id;
  };
  flaw.closest("p").hidden = false;
  show(crashes[0].id);
  flaw.addEventListener("input", () => show(flaw.value));
  window.showCrash = show;
}

// A link leads to its target whether or not that is folded.
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.matches("details.crash")) window.showCrash(target.id);
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  target.scrollIntoView();
};
window.addEventListener("hashchange", reveal);
if (location.hash) reveal();
