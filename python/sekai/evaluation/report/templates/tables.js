"use strict";
// Tables that sort by a click on a head, and tables to choose from.
(function () {
  function value(row, place) {
    const cell = row.cells[place];
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  }

  // What has no number is last, whichever way the others are sorted.
  function compare(place, sign) {
    return function (one, other) {
      const a = value(one, place);
      const b = value(other, place);
      if (a !== null && b !== null) return a === b ? 0 : sign * (a < b ? -1 : 1);
      if (a !== null || b !== null) return a !== null ? -1 : 1;
      return sign * one.cells[place].textContent.localeCompare(other.cells[place].textContent);
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
