"use strict";

// Sorting: a click on a heading sorts by that column, numbers falling and words rising at first; empty cells stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    const sort = () => {
      const text = head.dataset.kind === "text";
      const before = head.getAttribute("aria-sort");
      const falling = before ? before === "ascending" : !text;
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const key = row => text ? row.cells[column].textContent.trim() : row.cells[column].dataset.value;
      const compare = (a, b) => text ? a.localeCompare(b) : Number(a) - Number(b);
      const rows = [...table.tBodies[0].rows].sort((first, second) => {
        const a = key(first), b = key(second);
        if (a === "" || b === "") return (a === "") - (b === "");
        return falling ? compare(b, a) : compare(a, b);
      });
      table.tBodies[0].append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); } });
  });
}

// Examples: show the heatmaps of one explained quantity at a time.
for (const button of document.querySelectorAll(".switch button")) {
  button.addEventListener("click", () => {
    for (const other of document.querySelectorAll(".switch button")) other.setAttribute("aria-pressed", String(other === button));
    for (const row of document.querySelectorAll(".strip tbody tr"))
      row.hidden = row.dataset.target !== "" && row.dataset.target !== button.dataset.target;
  });
}

// The paper's numbers for another network or other data: shown on demand.
for (const box of document.querySelectorAll("label.toggle input"))
  box.addEventListener("change", () => document.body.classList.toggle("with-elsewhere", box.checked));
