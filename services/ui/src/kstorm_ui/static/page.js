// The page's own scripts, in addition to htmx: draws graph and charts, sorts tables, and shows when the connection is lost.
import { drawGraph, startZoom } from "./graph.js";
import { startCharts } from "./chart.js";
import { startSorting } from "./sorting.js";

const graph = document.getElementById("graph");
if (graph) {
  drawGraph(graph, JSON.parse(graph.dataset.sample));
  startZoom(graph);
  document.addEventListener("sample", (event) => drawGraph(graph, JSON.parse(event.detail.data)));
}
startCharts();
startSorting();

const link = document.getElementById("link");
const SILENCE_MS = 20_000; // the server sends an event or a heartbeat at least every 15 s
let heard = Date.now();
const live = () => { heard = Date.now(); link.hidden = true; };
document.addEventListener("htmx:sse:after:message", live);
let over = false; // no further events will arrive
document.addEventListener("htmx:sse:close", (event) => { over = event.detail.reason === "message" && document.querySelectorAll("[hx-sse\\:connect]").length < 2; });
document.addEventListener("htmx:sse:error", () => { link.hidden = false; });
document.addEventListener("visibilitychange", () => { heard = Date.now(); });
// A page without a live connection receives no events, which does not mean that its data is old.
if (document.querySelector("[hx-sse\\:connect]")) setInterval(() => { if (!over && !document.hidden && Date.now() - heard > SILENCE_MS) link.hidden = false; }, 1000);

// A log shows its end, or the lines of the wanted second. One that is followed shows its end whenever lines arrive.
const toEnd = () => document.querySelectorAll(".log").forEach((log) => { log.scrollTop = log.querySelector(".found")?.offsetTop - 60 || log.scrollHeight; });
toEnd();
if (document.querySelector("[data-follow]")) document.addEventListener("htmx:sse:after:message", toEnd);
