// Sorts tables when a column's name is clicked or its key pressed. A fragment that arrives is prepared before it is swapped in: it is
// sorted, so rows do not jump and the focus stays, and details that are open stay open.

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
    const open = [...document.querySelectorAll("details[id][open]")].map((details) => details.id);
    if (message.event || (orders.size === 0 && !open.length)) return;
    const piece = new DOMParser().parseFromString(message.data, "text/html");
    piece.querySelectorAll("table.sortable").forEach(sort);
    open.forEach((id) => piece.getElementById(id)?.setAttribute("open", ""));
    message.data = piece.body.innerHTML;
  });
}

// Rows that belong together are in a body of their own.
function sort(table) {
  const order = orders.get(table.id);
  if (!order) return;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const way = order.ascending ? "ascending" : "descending";
    head.setAttribute("aria-sort", column === order.column ? way : "none");
  });
  const sign = order.ascending ? 1 : -1;
  const bodies = [...table.tBodies];
  const cell = (part) => (part.rows ? part.rows[0] : part).cells[order.column];
  const parts = bodies.length > 1 ? bodies : [...(bodies[0]?.rows ?? [])];
  parts.sort((one, other) => sign * compare(cell(one), cell(other)));
  (bodies.length > 1 ? table : bodies[0])?.append(...parts);
}

function compare(one, other) {
  if (one.dataset.value !== undefined && other.dataset.value !== undefined) return one.dataset.value - other.dataset.value;
  return one.textContent.trim().localeCompare(other.textContent.trim(), undefined, { numeric: true });
}
