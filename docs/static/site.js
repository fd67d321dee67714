// Tables that do not fit the window are set smaller, or else a block for each row; lines are not broken after the hyphens
// of a command's flags and after ± (see site.css).

const tooWide = ({ parentElement: frame }) => frame.scrollWidth > frame.clientWidth;
const hasRibbon = (table) =>
  [...table.querySelectorAll("td > p")].some((text) => text.offsetHeight > 1.5 * text.offsetWidth);

function nameColumns(table) {
  const names = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  for (const row of table.tBodies[0].rows) {
    [...row.cells].forEach((cell, column) => {
      const speaksForItself = names.length < 3 || (column === 0 && cell.querySelector("code"));
      if (names[column] && !speaksForItself) cell.firstElementChild.dataset.column = names[column];
    });
  }
}

function fit(table) {
  table.classList.remove("dense", "stacked");
  if (tooWide(table)) table.classList.add("dense");
  if (tooWide(table) || (window.innerWidth <= 480 && hasRibbon(table))) table.classList.add("stacked");
}

document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll(".highlight-none pre")) {
    block.innerHTML = block.innerHTML.replace(/--[\w-]+/g, '<span class="flag">$&</span>');
  }
  for (const cell of document.querySelectorAll("table.docutils td > p")) {
    cell.innerHTML = cell.innerHTML.replaceAll("± ", "±&nbsp;");
  }
  const tables = [...document.querySelectorAll("table.docutils:has(thead)")];
  const fitAll = () => tables.forEach(fit);
  tables.forEach(nameColumns);
  fitAll();
  window.addEventListener("resize", fitAll);
  document.fonts.ready.then(fitAll);
});
