"use strict";
// Sortable tables and table selectors.
(function () {
  function value(row, column) {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  }

  // Cells without a number sort last in both directions.
  function compare(column, sign) {
    return function (one, other) {
      const a = value(one, column);
      const b = value(other, column);
      if (a !== null && b !== null) return a === b ? 0 : sign * (a < b ? -1 : 1);
      if (a !== null || b !== null) return a !== null ? -1 : 1;
      return sign * one.cells[column].textContent.localeCompare(other.cells[column].textContent);
    };
  }

  document.querySelectorAll("button[data-sort]").forEach(function (button) {
    button.addEventListener("click", function () {
      const head = button.closest("th");
      const body = button.closest("table").tBodies[0];
      const falling = head.getAttribute("aria-sort") !== "descending";
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const rows = Array.from(body.rows).sort(compare(Number(button.dataset.sort), falling ? -1 : 1));
      rows.forEach((row) => body.appendChild(row));
    });
  });

  document.querySelectorAll("select[data-tables]").forEach(function (select) {
    select.addEventListener("change", function () {
      for (const table of select.closest(".card").querySelectorAll("[data-table]")) {
        table.hidden = table.dataset.table !== select.value;
      }
    });
  });
})();
