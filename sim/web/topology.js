/* topology.js: the machine: parts in rows, links as lines whose colour is how busy they were.
 * SPDX-License-Identifier: MIT */

const ROWS = [["CPU"], ["PCIe switch"], ["GPU", "NIC"], ["NVSwitch"]];

function busyColor (part) {
  const light = [[200, 206, 214], [217, 115, 13]], night = [[70, 78, 90], [240, 149, 59]];
  const [idle, full] = dark && !printing ? night : light;
  return `rgb(${idle.map ((c, i) => Math.round (c + (full[i] - c) * Math.sqrt (Math.min (1, part)))).join ()})`;
}

function drawTopology (scenario) {
  const topology = scenario.topology, result = scenario.result, places = [], width = 640;
  const uses = new Map (result.links.map ((use) => [use.link.replace (/^node 0: /, ""), use]));
  const rows = ROWS.map ((kinds) => topology.parts.map ((part, i) => ({ part, i })).filter ((p) => kinds.includes (p.part.kind)))
    .filter ((row) => row.length > 0);
  rows.forEach ((row, r) => {
    /* below what they hang on, as far as possible: in the order of their parents */
    row.forEach ((p) => {
      const up = topology.links.find ((link) => link.from === p.i && link.to !== link.from && places[link.to] !== undefined);
      p.order = up === undefined ? p.i : places[up.to].x * 1000 + p.i;
    });
    row.sort ((a, b) => a.order - b.order);
    row.forEach ((p, k) => { places[p.i] = { x: (k + 0.5) / row.length * width, y: 30 + r * 92, w: Math.min (96, width / row.length - 6) }; });
  });
  const low = topology.links.some ((l) => places[l.from] !== undefined && places[l.to] !== undefined && l.from !== l.to
    && places[l.from].y === places[l.to].y && rows[rows.length - 1].some ((p) => p.i === l.from));
  const height = 30 + rows.length * 92 - (low ? 0 : 50), lines = [], boxes = [];
  topology.links.forEach ((link) => {
    const a = places[link.from], b = places[link.to];
    if (link.from === link.to || a === undefined || b === undefined)
      return;
    const back = topology.links.find ((other) => other.from === link.to && other.to === link.from && other.kind === link.kind);
    if (back !== undefined && link.from > link.to)
      return;
    const both = [link, back].filter ((l) => l !== undefined).map ((l) => [l, uses.get (l.name)]);
    const busy = both.reduce ((most, [, use]) => Math.max (most, use === undefined ? 0 : use.busy_ps / Math.max (1, result.step_time_ps)), 0);
    const text = both.map (([l, use]) => `${l.name}: ${rateText (l.rate)}` + (l.count > 1 ? ` (${l.kind}, ${l.count})` : ` (${l.kind})`)
      + (use === undefined ? ", not used" : `, ${bytesText (use.bytes)} a step, busy ${percentText (use.busy_ps / Math.max (1, result.step_time_ps))}`)).join ("\n");
    const bend = a.y === b.y ? 26 + Math.abs (a.x - b.x) / 12 : 0;
    lines.push (element ("path", {
      d: `M${a.x},${a.y} Q${(a.x + b.x) / 2},${(a.y + b.y) / 2 + bend * 2} ${b.x},${b.y}`, fill: "none",
      stroke: busyColor (busy), "stroke-width": Math.max (1.5, Math.min (12, Math.sqrt (link.rate / 4e9))), "class": "link" },
      element ("title", {}, text)));
  });
  topology.parts.forEach ((part, i) => {
    const at = places[i];
    if (at === undefined)
      return;
    boxes.push (element ("g", {},
      element ("rect", { x: at.x - at.w / 2, y: at.y - 14, width: at.w, height: 28, rx: 5, "class": "part " + part.kind.replace (/ .*/, "") }),
      element ("text", { x: at.x, y: at.y + 4, "text-anchor": "middle" }, at.w < 52 ? part.name.replace (/GPU|switch |mlx5_/, "") : part.name),
      element ("title", {}, `${part.kind} ${part.name}`)));
  });
  const table = result.links.filter ((use) => topology.nodes === 1 || use.link.startsWith ("node 0")).slice ()
    .sort ((a, b) => b.busy_ps - a.busy_ps || b.bytes - a.bytes).slice (0, 12);
  return element ("section", { "class": "topology" },
    element ("h3", {}, `${topology.name}` + (topology.nodes > 1 ? `: one of ${topology.nodes} nodes, joined by ${topology.network}` : "")),
    element ("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "parts of the machine and links between them" }, lines, boxes),
    element ("p", { "class": "faint" }, "Width: rate of a link. Colour: how long it was in use during the step."),
    element ("div", { "class": "scroll" }, element ("table", {},
      element ("tr", {}, ["link", "rate", "bytes a step", "in use"].map ((name) => element ("th", {}, name))),
      table.map ((use) => element ("tr", {}, element ("td", {}, use.link), element ("td", {}, rateText (use.rate_bytes_per_s)),
        element ("td", {}, bytesText (use.bytes)), element ("td", {}, percentText (use.busy_ps / Math.max (1, result.step_time_ps))))))));
}
