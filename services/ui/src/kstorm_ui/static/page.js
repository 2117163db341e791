// What a page does by itself beside what htmx does: it draws graph and charts, sorts tables, and says when it hears nothing more.
import { drawGraph } from "./graph.js";
import { startCharts } from "./chart.js";
import { startSorting } from "./sorting.js";

const graph = document.getElementById("graph");
if (graph) {
  drawGraph(graph, JSON.parse(graph.dataset.sample));
  document.addEventListener("sample", (event) => drawGraph(graph, JSON.parse(event.detail.data)));
}
startCharts();
startSorting();

const link = document.getElementById("link");
const SILENCE_MS = 20_000; // the server sends something every 15 s at least
let heard = Date.now();
const live = () => { heard = Date.now(); link.hidden = true; };
document.addEventListener("htmx:sse:after:message", live);
let over = false; // nothing more is to come
document.addEventListener("htmx:sse:close", (event) => { over = event.detail.reason === "message"; });
document.addEventListener("htmx:sse:error", () => { link.hidden = false; });
document.addEventListener("visibilitychange", () => { heard = Date.now(); });
// A page that is not live says nothing by itself, and is not old for that.
if (document.querySelector("[hx-sse\\:connect]")) setInterval(() => { if (!over && !document.hidden && Date.now() - heard > SILENCE_MS) link.hidden = false; }, 1000);
