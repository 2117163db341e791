// Sorts tables when a column's name is clicked or its key pressed. A fragment that arrives is sorted before it is swapped in, so rows
// do not jump and the focus stays.

const orders = new Map(); // by the table's id: { column, ascending }

export function startSorting() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button.sort");
    if (!button) return;
    const table = button.closest("table");
    const column = button.closest("th").cellIndex;
    const before = orders.get(table.id);
    const number = button.closest("th").classList.contains("number");
    const ascending = before?.column === column ? !before.ascending : !number;
    orders.set(table.id, { column, ascending });
    sort(table);
  });
  document.addEventListener("htmx:sse:before:message", (event) => {
    const message = event.detail.message;
    if (message.event || orders.size === 0) return;
    const piece = new DOMParser().parseFromString(message.data, "text/html");
    piece.querySelectorAll("table.sortable").forEach(sort);
    message.data = piece.body.innerHTML;
  });
}

function sort(table) {
  const order = orders.get(table.id);
  if (!order) return;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const way = order.ascending ? "ascending" : "descending";
    head.setAttribute("aria-sort", column === order.column ? way : "none");
  });
  const sign = order.ascending ? 1 : -1;
  const rows = [...table.tBodies[0].rows];
  rows.sort((one, other) => sign * compare(one.cells[order.column], other.cells[order.column]));
  table.tBodies[0].append(...rows);
}

function compare(one, other) {
  if (one.dataset.value !== undefined && other.dataset.value !== undefined) return one.dataset.value - other.dataset.value;
  return one.textContent.trim().localeCompare(other.textContent.trim(), undefined, { numeric: true });
}
