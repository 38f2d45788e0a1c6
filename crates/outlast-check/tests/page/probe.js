const told = [...document.querySelectorAll("button.show")].map((button) => {
  button.click();
  return [...document.querySelectorAll("#files tr")].map((row) => [...row.children].map((cell) => cell.textContent));
});
const wide = [...document.querySelectorAll("main *")].filter((node) => !node.closest(".plot, .hex, .scroll")
  && node.getBoundingClientRect().right > innerWidth + 1).map((node) => node.outerHTML.slice(0, 80));
const all = document.getElementById("drop-all");
all.click();
const dropped = document.querySelectorAll("#units input:checked").length;
document.getElementById("keep-all").click();
const kept = document.querySelectorAll("#units li.dropped").length;
const unnamed = [...document.querySelectorAll("button, input, select")].filter((node) =>
  !(node.textContent.trim() || node.ariaLabel || node.closest("label"))).length;
document.documentElement.innerHTML = "<pre>" + btoa(unescape(encodeURIComponent(JSON.stringify({ told, wide, dropped, kept, unnamed })))) + "</pre>";
