// Charts of the last hour, drawn by uPlot. The server has the history, and each sample adds a point. A table on the page has the
// same data.
const COLOURS = ["--first", "--second", "--third"];
const HOUR = 3600;

export function startCharts() {
  document.querySelectorAll(".plot").forEach((place) => start(place));
}

async function start(place) {
  const keys = place.dataset.keys.split(" ");
  const names = place.dataset.names.split("|");
  const found = await past(place.dataset.history, keys);
  const now = Date.now() / 1000;
  const columns = [found.ago.map((ago) => now + ago), ...keys.map((key) => found[key])];
  let plot = draw(place, columns, names);
  document.addEventListener("sample", (event) => {
    const point = JSON.parse(event.detail.data).point;
    const now = Date.now() / 1000;
    if (!point || now - (columns[0].at(-1) ?? 0) < 1) return; // the first sample arrives immediately and is in the history already
    columns[0].push(now);
    keys.forEach((key, number) => columns[number + 1].push(point[key] ?? null));
    while (columns[0][0] < columns[0].at(-1) - HOUR) columns.forEach((column) => column.shift());
    plot.setData(columns);
  });
  const again = () => { plot.destroy(); plot = draw(place, columns, names); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: 180 })).observe(place);
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

function draw(place, columns, names) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  const series = names.map((label, number) => ({
    label,
    stroke: colour(COLOURS[number]),
    width: 2,
    points: { show: false },
    dash: number ? [8 / number, 4] : undefined, // distinguishable without colour
    value: (_, value) => (value == null ? "–" : value.toLocaleString("en", { maximumFractionDigits: 1 })),
  }));
  const options = {
    width: place.clientWidth,
    height: 180,
    series: [{ label: "at", value: (_, moment) => (moment == null ? "–" : clock(moment)) }, ...series],
    axes: [{ ...axis, values: (_, moments) => moments.map(clock) }, { ...axis, size: 70 }],
    scales: { y: { range: (_, low, high) => [0, Math.max(1, high || 0)] } },
  };
  return new uPlot(options, columns, place);
}

function clock(moment) {
  return new Date(moment * 1000).toTimeString().slice(0, 8);
}
