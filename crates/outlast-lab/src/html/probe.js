"use strict";
// Looks at the page that it stands in and tells the page around it what is wrong.
const found = [];
const wrong = (what) => found.push(String(what).slice(0, 300));
window.addEventListener("error", (event) => wrong(`script: ${event.message}`));
window.addEventListener("unhandledrejection", (event) => wrong(`script: ${event.reason}`));

const name = (element) =>
  `${element.tagName.toLowerCase()}${element.id ? "#" + element.id : ""} "${(
    element.textContent ?? "").trim().slice(0, 40)}"`;

const channels = (colour) => (colour.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
const luminance = ([red, green, blue]) => {
  const linear = [red, green, blue].map((value) => {
    const share = value / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const paperBehind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const paper = channels(getComputedStyle(at).backgroundColor);
    if (paper.length < 4 || paper[3] > 0) return paper;
  }
  return [255, 255, 255];
};

// WCAG AA: 4.5, or 3 for large text.
const contrast = () => {
  const seen = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some(
      (node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim() !== "",
    );
    if (!hasText || element.closest("title, script, style, option, .skip")) continue;
    if (element.getClientRects().length === 0) continue;
    const style = getComputedStyle(element);
    const ink = channels(element.closest("svg") ? style.fill : style.color);
    const paper = paperBehind(element.closest("svg") ?? element);
    const [light, dark] = [luminance(ink), luminance(paper)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 700);
    const key = `${ink} on ${paper}`;
    if (ratio < (isLarge ? 3 : 4.5) && !seen.has(key)) {
      seen.add(key);
      wrong(`contrast: ${ratio.toFixed(2)} of ${name(element)} (${key})`);
    }
  }
};

const overflow = () => {
  if (document.documentElement.scrollWidth <= window.innerWidth) return;
  const wide = [...document.querySelectorAll("body *")].find((element) => {
    const inScroller = element.parentElement.closest(".scroll, .plot, ol.line");
    return !inScroller && element.getBoundingClientRect().right > window.innerWidth + 1;
  });
  wrong(`overflow: ${document.documentElement.scrollWidth} px${wide ? " by " + name(wide) : ""}`);
};

const links = () => {
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  ids.filter((id, index) => ids.indexOf(id) !== index).forEach((id) => wrong(`id: ${id} twice`));
  const files = [];
  for (const link of document.querySelectorAll("a[href]")) {
    const to = link.getAttribute("href");
    if (!to.startsWith("#")) files.push(to);
    else if (!document.getElementById(to.slice(1))) wrong(`link: ${to} leads nowhere`);
  }
  return files;
};

const structure = () => {
  for (const figure of document.querySelectorAll("figure")) {
    const caption = figure.querySelector("figcaption");
    if ((caption?.textContent ?? "").length < 20) wrong(`caption: ${name(figure)}`);
    if (!caption?.querySelector(".command code")?.textContent) wrong(`command: ${name(figure)}`);
  }
  for (const svg of document.querySelectorAll("svg")) {
    if (!svg.getAttribute("aria-label")) wrong("label: a figure without one");
    const series = new Map();
    for (const mark of svg.querySelectorAll("[data-series]")) {
      if (!mark.querySelector("title")?.textContent) wrong(`hover: ${mark.dataset.series}`);
      const colour = mark.getAttribute("fill");
      const other = series.get(colour) ?? mark.dataset.series;
      if (other !== mark.dataset.series) wrong(`colour: ${other} and ${mark.dataset.series}`);
      series.set(colour, mark.dataset.series);
    }
    // No label, and so no legend, is cut off.
    const { width, height } = svg.viewBox.baseVal;
    for (const text of svg.querySelectorAll("text")) {
      const isShown = text.getClientRects().length > 0 && !text.hasAttribute("transform");
      const box = isShown ? text.getBBox() : null;
      const isOut = box && (box.x < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 1);
      if (isOut) wrong(`cut: "${text.textContent.trim()}" of ${svg.getAttribute("aria-label")}`);
    }
  }
  for (const head of document.querySelectorAll("th")) {
    if (!head.hasAttribute("scope")) wrong(`scope: ${name(head)}`);
  }
  let before = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const level = Number(heading.tagName[1]);
    if (level > before + 1) wrong(`heading: ${name(heading)} behind level ${before}`);
    before = level;
  }
  for (const control of document.querySelectorAll("button, input, select")) {
    const label = control.getAttribute("aria-label") ?? control.closest("label")?.textContent;
    if (!(label ?? control.textContent).trim()) wrong(`label: ${control.outerHTML}`);
  }
  for (const id of ["main"]) if (!document.getElementById(id)) wrong(`id: no ${id}`);
};

// What the script adds has to work.
const use = () => {
  const head = document.querySelector("th button");
  head?.click();
  if (head && !head.closest("th").hasAttribute("aria-sort")) wrong("sort: nothing happened");
  const table = document.querySelector(".controls input")?.closest("p").nextElementSibling;
  if (table) {
    const filter = table.previousElementSibling.querySelector("input");
    filter.value = "no row has this";
    filter.dispatchEvent(new Event("input"));
    const shown = [...table.querySelectorAll("tbody tr")].filter((row) => !row.hidden);
    if (shown.length > 0) wrong(`filter: ${shown.length} rows are left`);
    filter.value = "";
    filter.dispatchEvent(new Event("input"));
  }
  // On a desk the words of a scheme are seen without scrolling, however many figures follow.
  const words = [...document.querySelectorAll(".schemes td.gives")];
  const isCut = (cell) => cell.getBoundingClientRect().right > window.innerWidth;
  if (window.innerWidth >= 1000 && words.some(isCut)) wrong("schemes: what one gives up is cut off");
  const series = document.querySelector("figure .tools button[aria-pressed]");
  series?.click();
  if (series && !document.querySelector("svg .off")) wrong("series: none is switched off");
  series?.click();
  const larger = document.querySelector("figure .tools button[aria-label=Larger]");
  const svg = larger?.closest("figure").querySelector("svg");
  const width = svg?.getBoundingClientRect().width;
  larger?.click();
  if (svg && svg.getBoundingClientRect().width <= width) wrong("zoom: nothing is larger");
  overflow();
  larger?.parentElement.querySelector("[aria-label='As it was']").click();
  const flaw = document.getElementById("flaw");
  if (flaw) {
    const first = document.querySelector("details.crash");
    if (first.hidden || !first.open) wrong("explorer: no crash is shown at once");
    flaw.selectedIndex = flaw.options.length - 1;
    flaw.dispatchEvent(new Event("input"));
    const shown = [...document.querySelectorAll("details.crash")].filter((crash) => !crash.hidden);
    if (shown.length !== 1 || !shown[0].open) wrong(`explorer: ${shown.length} crashes are shown`);
  }
};

window.addEventListener("load", () => {
  const screens = document.documentElement.scrollHeight / window.innerHeight;
  overflow();
  let files = [];
  try {
    files = links();
    structure();
    use();
    document.querySelectorAll("details").forEach((details) => {
      details.hidden = false;
      details.open = true;
    });
    structure();
    overflow();
    contrast();
  } catch (error) {
    wrong(`probe: ${error}`);
  }
  const told = { page: location.search.slice(1), found: [...new Set(found)], files, screens };
  parent.postMessage(told, "*");
});
