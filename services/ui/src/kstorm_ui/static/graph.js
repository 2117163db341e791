// Draws the graph of a topology as SVG. dagre computes the layout again only when components or lines are added or removed. A sample
// changes texts, widths and dashes in place.
import { Graph, layout } from "./vendor/dagre.esm.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDEST = 12;
const NARROWEST = 1.5;
let drawn = null; // { key, nodes, edges }

export function drawGraph(place, sample) {
  if (!sample.nodes) return;
  const key = JSON.stringify([sample.nodes.map((node) => node.id), sample.edges.map((edge) => [edge.source, edge.target])]);
  if (drawn?.key !== key) {
    const begun = performance.now();
    drawn = { key, ...build(place, sample) };
    place.dataset.milliseconds = (performance.now() - begun).toFixed(1);
  }
  sample.nodes.forEach((node) => showNode(drawn.nodes.get(node.id), node));
  const most = Math.max(1, ...sample.edges.map((edge) => edge.rate));
  const says = document.getElementById("graph-says");
  if (says) says.hidden = sample.edges.every((edge) => edge.counted);
  sample.edges.forEach((edge, number) => showEdge(drawn.edges[number], edge, most));
}

function build(place, sample) {
  if (!sample.nodes.length) {
    place.replaceChildren();
    return { nodes: new Map(), edges: [] };
  }
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 28, ranksep: 110, ranker: "longest-path", marginx: 10, marginy: 14 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of sample.nodes) graph.setNode(node.id, { width: Math.max(170, 26 + 8 * node.name.length), height: 56 });
  for (const edge of sample.edges) graph.setEdge(edge.source, edge.target, {});
  layout(graph);
  const { width, height } = graph.graph();
  const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Graph of the components" });
  const edges = sample.edges.map((edge) => buildEdge(svg, graph.edge(edge.source, edge.target).points));
  const nodes = new Map(sample.nodes.map((node) => [node.id, buildNode(svg, node, graph.node(node.id))]));
  place.replaceChildren(svg);
  return { nodes, edges };
}

function buildNode(svg, node, box) {
  const link = make("a", { href: node.href });
  link.append(
    make("rect", { x: box.x - box.width / 2, y: box.y - box.height / 2, width: box.width, height: box.height, rx: 6 }),
    make("text", { x: box.x, y: box.y - 5 }, node.name),
    make("text", { x: box.x, y: box.y + 15, class: "facts" }),
  );
  svg.append(link);
  return link;
}

function showNode(link, node) {
  link.setAttribute("aria-label", node.label);
  link.setAttribute("class", `${node.kind}${node.down ? " down" : ""}`);
  link.querySelector(".facts").textContent = node.facts.join(" · ");
}

function buildEdge(svg, points) {
  const group = make("g", { role: "img" });
  const tip = points[points.length - 1];
  const middle = points[Math.floor(points.length / 2)];
  const from = points[points.length - 2];
  const angle = Math.atan2(tip.y - from.y, tip.x - from.x);
  const end = { x: tip.x - 12 * Math.cos(angle), y: tip.y - 12 * Math.sin(angle) }; // under the arrow's head
  group.append(
    make("path", { d: curve([...points.slice(0, -1), end]) }),
    make("path", { class: "arrow", d: "M0 0L-16 -11L-16 11Z", transform: `translate(${tip.x} ${tip.y}) rotate(${(angle * 180) / Math.PI})` }),
    make("text", { x: middle.x, y: middle.y - 10, class: "rate" }),
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
