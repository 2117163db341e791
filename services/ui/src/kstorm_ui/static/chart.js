// Charts of the last hour, drawn by uPlot, with marks for what happened. The server has the history, and each sample adds a point. A
// table on the page has the same data.
const COLOURS = ["--first", "--second", "--third"];
const MARKS = { kill: "--bad", start: "--good", rebalance: "--held", deployment: "--first", operator: "--first" };
const HOUR = 3600;
const HEIGHT = 200;
const LETTER = 12; // height of a mark's letter
const NEAR = 8; // pixels

export function startCharts() {
  document.querySelectorAll(".plot").forEach((place) => start(place));
}

async function start(place) {
  const keys = place.dataset.keys.split(" ");
  const names = place.dataset.names.split("|");
  const found = await past(place.dataset.history, keys);
  const now = Date.now() / 1000;
  const columns = [found.ago.map((ago) => now + ago), ...keys.map((key) => found[key])];
  const shown = { marks: placed(found.marks) };
  let plot = draw(place, columns, names, shown);
  document.addEventListener("sample", (event) => {
    const { point, marks } = JSON.parse(event.detail.data);
    const now = Date.now() / 1000;
    if (marks) shown.marks = placed(marks);
    if (!point || now - (columns[0].at(-1) ?? 0) < 1) return; // the first sample arrives immediately and is in the history already
    columns[0].push(now);
    keys.forEach((key, number) => columns[number + 1].push(point[key] ?? null));
    while (columns[0][0] < columns[0].at(-1) - HOUR) columns.forEach((column) => column.shift());
    plot.setData(columns);
  });
  const again = () => { plot.destroy(); plot = draw(place, columns, names, shown); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
}

// Marks come with seconds relative to now, because the clocks of server and browser may differ.
function placed(marks) {
  const now = Date.now() / 1000;
  return (marks ?? []).map((mark) => ({ ...mark, at: now + mark.ago }));
}

// Returns the history. If the server does not respond, the chart starts now.
async function past(where, keys) {
  try {
    const answer = await fetch(where);
    if (answer.ok) return await answer.json();
  } catch (error) {
    console.warn(`no history from ${where}: ${error}`);
  }
  return Object.fromEntries(["ago", ...keys].map((name) => [name, []]));
}

function draw(place, columns, names, shown) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: colour("--quiet"), font, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const series = names.map((label, number) => ({
    label,
    stroke: colour(COLOURS[number]),
    width: 2,
    points: { show: false },
    fill: number ? undefined : `${colour(COLOURS[0])}1a`,
    dash: number ? [8 / number, 4] : undefined, // distinguishable without colour
    value: (_, value) => (value == null ? "–" : value.toLocaleString("en", { maximumFractionDigits: 1 })),
  }));
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    series: [{ label: "at", value: (_, moment) => (moment == null ? "–" : clock(moment, true)) }, ...series],
    axes: [
      { ...axis, space: 96, size: 30, values: (plot, moments) => moments.map((moment) => clock(moment, plot.scales.x.max - plot.scales.x.min < 900)) },
      { ...axis, size: 56 },
    ],
    scales: { y: { range: (_, low, high) => [0, Math.max(1, (high || 0) * 1.15)] } },
    hooks: {
      draw: [(plot) => drawMarks(plot, shown.marks, colour)],
      setCursor: [(plot) => sayMark(place, plot, shown.marks)],
    },
  };
  return new uPlot(options, columns, place);
}

function drawMarks(plot, marks, colour) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `bold ${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  let last = -Infinity;
  let row = 0; // letters that would overlap are below each other
  for (const mark of marks) {
    const x = plot.valToPos(mark.at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    row = x - last < LETTER * ratio ? row + 1 : 0;
    last = x;
    const top = bbox.top + (10 + LETTER * row) * ratio;
    ctx.strokeStyle = ctx.fillStyle = colour(MARKS[mark.kind]);
    ctx.lineWidth = ratio;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, top + 4 * ratio);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(mark.letter, x, top);
  }
  ctx.restore();
}

function sayMark(place, plot, marks) {
  const says = place.parentElement.querySelector(".mark-says");
  if (!says) return;
  const left = plot.cursor.left ?? -1;
  const near = left < 0 ? [] : marks.filter((mark) => Math.abs(plot.valToPos(mark.at, "x") - left) < NEAR);
  says.textContent = near.map((mark) => `${mark.clock} ${mark.said}`).join("; ");
}

function clock(moment, seconds) {
  return new Date(moment * 1000).toTimeString().slice(0, seconds ? 8 : 5);
}
