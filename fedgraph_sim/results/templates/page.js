// A click on a heading sorts its table: numbers by value, text by letter, empty cells last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  table.querySelectorAll("th").forEach((head, column) => {
    if (body.rows.length && body.rows[0].cells[column].classList.contains("number")) head.classList.add("number");
    head.querySelector("button").addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const text = (row) => row.cells[column].textContent;
      const compare = (a, b) => text(a).localeCompare(text(b), "en", { numeric: true });
      const byValue = (a, b) => Number(text(a)) - Number(text(b));
      const rows = [...body.rows];
      const numbers = rows.every((row) => text(row) === "" || !Number.isNaN(Number(text(row))));
      const full = rows.filter((row) => text(row) !== "").sort(numbers ? byValue : compare);
      if (descending) full.reverse();
      body.append(...full, ...rows.filter((row) => text(row) === ""));
    });
  });
}
