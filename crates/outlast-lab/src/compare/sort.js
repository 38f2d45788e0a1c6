"use strict";
// Sorts by the column whose head is pressed, and hides what the filters leave out.
const table = document.getElementById("compare");
const body = table.tBodies[0];
const heads = [...table.tHead.rows[0].cells];
const value = (row, column) => {
  const cell = row.cells[column];
  return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
};
heads.forEach((head, column) => {
  const button = head.querySelector("button");
  if (!button) return;
  button.addEventListener("click", () => {
    const falls = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", falls ? "descending" : "ascending");
    const order = (a, b) => {
      const [x, y] = [value(a, column), value(b, column)];
      if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
      const way = typeof x === "number" ? x - y : x.localeCompare(y);
      return falls ? -way : way;
    };
    [...body.rows].sort(order).forEach((row) => body.append(row));
  });
});
const filter = document.getElementById("filter");
const seen = document.getElementById("seen");
const apply = () => {
  for (const row of body.rows) {
    const named = row.cells[0].textContent.includes(filter.value.trim());
    row.hidden = !named || (seen.value !== "" && row.dataset.seen !== seen.value);
  }
};
filter.addEventListener("input", apply);
seen.addEventListener("input", apply);
