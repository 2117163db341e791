// Draws the graph of a topology as SVG, as wide as its place. dagre computes the layout again only when components or lines are added
// or removed, or when the place changes its width. A sample changes texts, colours, widths and dashes in place.
import { Graph, layout } from "./vendor/dagre.esm.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDEST = 12;
const NARROWEST = 1.5;
const READABLE = 0.72; // a smaller graph is drawn from top to bottom instead
const MANY = 60; // components, from which only one layout is tried
const STEP = 1.25;
let drawn = null; // { key, nodes, edges, svg, scale }
let newest = null; // the last sample
let zoom = 0; // 0: as wide as the place, otherwise a factor

export function drawGraph(place, sample) {
  if (!sample.nodes) return;
  newest = sample;
  const width = place.parentElement?.clientWidth || 1200;
  const timed = sample.nodes.some((node) => node.facts[2]);
  const key = JSON.stringify([sample.nodes.map((node) => node.id), sample.edges.map((edge) => [edge.source, edge.target]), timed, width]);
  if (drawn?.key !== key || drawn.place !== place) {
    const begun = performance.now();
    drawn = { key, place, ...build(place, sample, width, timed) };
    resize();
    place.dataset.milliseconds = (performance.now() - begun).toFixed(1);
  }
  sample.nodes.forEach((node) => showNode(drawn.nodes.get(node.id), node));
  const most = Math.max(1, ...sample.edges.map((edge) => edge.rate));
  const says = document.getElementById("graph-says");
  if (says) says.hidden = sample.edges.every((edge) => edge.counted);
  sample.edges.forEach((edge, number) => showEdge(drawn.edges[number], edge, most));
}

export function startZoom(place) {
  new ResizeObserver(() => { if (newest) drawGraph(place, newest); }).observe(place.parentElement);
  document.addEventListener("click", (event) => {
    const way = event.target.closest?.("[data-zoom]")?.dataset.zoom;
    if (!way || !drawn?.svg) return;
    const now = zoom || drawn.scale;
    zoom = way === "fit" ? 0 : Math.min(3, Math.max(0.25, way === "in" ? now * STEP : now / STEP));
    resize();
  });
}

function resize() {
  if (!drawn?.svg) return;
  const scale = zoom || drawn.scale;
  drawn.svg.setAttribute("width", Math.floor(drawn.width * scale));
  drawn.svg.setAttribute("height", Math.floor(drawn.height * scale));
}

function build(place, sample, width, timed) {
  if (!sample.nodes.length) {
    place.replaceChildren();
    return { nodes: new Map(), edges: [] };
  }
  let graph = laidOut(sample, "LR", timed);
  if (scaleOf(graph, width) < READABLE && sample.nodes.length <= MANY) {
    const upright = laidOut(sample, "TB", timed);
    if (scaleOf(upright, width) > scaleOf(graph, width)) graph = upright;
  }
  const size = graph.graph();
  const svg = make("svg", { viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": "Graph of the components" });
  const edges = sample.edges.map((edge) => buildEdge(svg, graph.edge(edge.source, edge.target).points));
  const nodes = new Map(sample.nodes.map((node) => [node.id, buildNode(svg, node, graph.node(node.id))]));
  place.replaceChildren(svg);
  return { nodes, edges, svg, width: size.width, height: size.height, scale: Math.max(0.5, scaleOf(graph, width)) };
}

function scaleOf(graph, width) {
  return Math.min(1, width / graph.graph().width);
}

function laidOut(sample, rankdir, timed) {
  const graph = new Graph();
  graph.setGraph({ rankdir, nodesep: 24, ranksep: rankdir === "LR" ? 84 : 46, ranker: "longest-path", marginx: rankdir === "LR" ? 8 : 40, marginy: 24 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of sample.nodes) graph.setNode(node.id, { width: Math.max(152, 30 + 8 * node.name.length), height: timed ? 84 : 68 });
  for (const edge of sample.edges) graph.setEdge(edge.source, edge.target, {});
  layout(graph);
  return graph;
}

function buildNode(svg, node, box) {
  const link = make("a", { href: node.href });
  const top = box.y - box.height / 2;
  link.append(
    make("rect", { x: box.x - box.width / 2, y: top, width: box.width, height: box.height, rx: 8 }),
    make("path", { class: "stripe", d: `M${box.x - box.width / 2 + 5} ${top + 12}v${box.height - 24}` }),
    make("text", { x: box.x, y: top + 23, class: "name" }, `${node.name} `),
    make("text", { x: box.x, y: top + 42, class: "facts" }),
    make("text", { x: box.x, y: top + 58, class: "facts" }),
    make("text", { x: box.x, y: top + 74, class: "facts" }),
  );
  svg.append(link);
  return link;
}

function showNode(link, node) {
  link.setAttribute("aria-label", node.label);
  const classes = [node.kind, node.down && "down", node.blocked && "blocked", node.busy !== null && `busy-${node.busy}`];
  link.setAttribute("class", classes.filter(Boolean).join(" "));
  link.querySelectorAll(".facts").forEach((text, number) => { text.textContent = node.facts[number] ? `${node.facts[number]} ` : ""; });
}

function buildEdge(svg, points) {
  const group = make("g", { role: "img" });
  const tip = points[points.length - 1];
  const middle = points[Math.floor(points.length / 2)];
  const from = points[points.length - 2];
  const angle = Math.atan2(tip.y - from.y, tip.x - from.x);
  const end = { x: tip.x - 12 * Math.cos(angle), y: tip.y - 12 * Math.sin(angle) }; // under the arrow's head
  const upright = Math.abs(Math.sin(angle)) > 0.7;
  const left = middle.x < (points[0].x + tip.x) / 2 - 1; // away from the boxes that the line passes
  const side = left ? { x: middle.x - 14, class: "rate before" } : { x: middle.x + 14, class: "rate beside" };
  const label = upright ? { ...side, y: middle.y + 3 } : { x: middle.x, y: middle.y - 11, class: "rate" };
  group.append(
    make("path", { d: curve([...points.slice(0, -1), end]) }),
    make("path", { class: "arrow", d: "M0 0L-14 -9L-14 9Z", transform: `translate(${tip.x} ${tip.y}) rotate(${(angle * 180) / Math.PI})` }),
    make("text", label),
  );
  svg.append(group);
  return group;
}

function showEdge(group, edge, most) {
  group.setAttribute("aria-label", edge.label);
  group.setAttribute("class", edge.held ? "held" : "");
  group.querySelector("path").style.strokeWidth = `${NARROWEST + (WIDEST - NARROWEST) * Math.sqrt(edge.rate / most)}px`;
  group.querySelector(".rate").textContent = edge.text;
}

function curve(points) {
  const [first, ...rest] = points;
  let path = `M${first.x} ${first.y}`;
  for (let at = 0; at < rest.length - 1; at++) {
    const end = at === rest.length - 2 ? rest[at + 1] : { x: (rest[at].x + rest[at + 1].x) / 2, y: (rest[at].y + rest[at + 1].y) / 2 };
    path += `Q${rest[at].x} ${rest[at].y} ${end.x} ${end.y}`;
  }
  return path;
}

function make(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
