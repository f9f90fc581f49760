/* memory.js: one moment of GPU memory: who is alive, and the allocator's map.
 * SPDX-License-Identifier: MIT */

/* Segments, and blocks in them (by address; free ones too), after row K of the history. */
function memoryAt (events, k) {
  const blocks = new Map (), segments = new Map ();
  for (let i = 0; i <= k; i++) {
    const at = events.address[i];
    switch (events.action[i]) {
    case ALLOC:
      blocks.set (at, { at: at, bytes: events.bytes[i], row: i, waiting: false });
      break;
    case FREE_REQUESTED:
      if (blocks.has (at))
        blocks.get (at).waiting = true;
      break;
    case FREE_COMPLETED:
      blocks.delete (at);
      break;
    case SEGMENT_ALLOC:
    case SEGMENT_MAP:
      segments.set (at, { at: at, bytes: events.bytes[i], stream: events.stream[i], blocks: [] });
      break;
    default:
      segments.delete (at);
    }
  }
  return joinSegments ([...segments.values ()].sort ((a, b) => a.at - b.at),
                       [...blocks.values ()].sort ((a, b) => a.at - b.at));
}

/* Mapped pages that touch are one segment; each block goes into its own, with what is free between. */
function joinSegments (pieces, blocks) {
  const segments = [];
  for (const piece of pieces) {
    const last = segments[segments.length - 1];
    if (last !== undefined && last.stream === piece.stream && last.at + last.bytes / UNIT === piece.at && piece.bytes !== 2097152 && last.bytes !== 2097152)
      last.bytes += piece.bytes;
    else
      segments.push (piece);
  }
  let b = 0;
  for (const segment of segments) {
    const end = segment.at + segment.bytes / UNIT;
    let at = segment.at;
    for (; b < blocks.length && blocks[b].at < end; b++) {
      if (blocks[b].at > at)
        segment.blocks.push ({ at: at, bytes: (blocks[b].at - at) * UNIT, row: -1 });
      segment.blocks.push (blocks[b]);
      at = blocks[b].at + blocks[b].bytes / UNIT;
    }
    if (at < end)
      segment.blocks.push ({ at: at, bytes: (end - at) * UNIT, row: -1 });
  }
  return segments;
}

class MemoryPanel {
  constructor (scenario, onMoment) {
    this.scenario = scenario;
    this.onMoment = onMoment;
    this.title = element ("h3", {});
    this.numbers = element ("p", { "class": "numbers" });
    this.table = element ("table", { "class": "live" });
    this.canvas = element ("canvas", { "class": "map", "role": "img", "aria-label": "segments and blocks of the allocator" });
    this.slider = element ("input", { type: "range", min: 0, max: 1, value: 0, "aria-label": "moment",
                                      oninput: () => this.showRow (Number (this.slider.value), true) });
    const move = (by) => () => this.showRow (Math.max (this.events.before - 1, Math.min (this.events.n - 1, this.k + by)), true);
    this.box = element ("section", { "class": "memory" }, this.title,
      element ("div", { "class": "buttons" },
        element ("button", { onclick: () => this.showPeak () }, "peak"),
        element ("button", { onclick: move (-1), "aria-label": "one allocation back" }, "‹"),
        element ("button", { onclick: move (1), "aria-label": "one allocation on" }, "›"), this.slider),
      this.numbers, this.canvas, element ("div", { "class": "scroll" }, this.table));
    this.canvas.addEventListener ("mousemove", (event) => this.hover (event));
    this.canvas.addEventListener ("mouseleave", hideTip);
  }

  setStep (index) {
    this.step = this.scenario.shown[index];
    this.events = this.step === undefined ? null : this.step.events;
    this.box.hidden = this.events === null || this.events.n === 0;
    if (this.box.hidden)
      return;
    this.slider.min = Math.max (0, this.events.before - 1);
    this.slider.max = this.events.n - 1;
    this.showPeak ();
  }
  showPeak () {
    let best = 0;
    for (let i = Math.max (0, this.events.before - 1); i < this.events.n; i++)
      if (this.events.allocated[i] > this.events.allocated[best] || best < this.events.before - 1)
        best = i;
    this.showRow (best, true);
  }
  showMoment (when) {
    this.showRow (Math.max (0, this.events.before - 1, lastAt (this.events.when, when)), false);
  }

  showRow (k, tell) {
    this.k = k;
    this.slider.value = k;
    this.segments = memoryAt (this.events, k);
    const free = [], live = new Map ();
    let waiting = 0, spare = 0;
    for (const segment of this.segments)
      for (const block of segment.blocks) {
        if (block.row < 0) {
          free.push (block.bytes);
          continue;
        }
        if (block.waiting) {
          waiting += block.bytes;
          continue;
        }
        spare += this.events.spare[block.row];
        const key = [this.events.category[block.row], this.events.layer[block.row], this.events.what[block.row], block.bytes].join ();
        const row = live.get (key) || { block: block, count: 0 };
        row.count++;
        live.set (key, row);
      }
    const allocated = this.events.allocated[k], reserved = this.events.reserved[k];
    const largest = free.reduce ((most, bytes) => Math.max (most, bytes), 0);
    this.title.textContent = `Memory at ${timeText (this.events.when[k])} (host time)`;
    this.numbers.textContent
      = `allocated ${bytesText (allocated)}, reserved ${bytesText (reserved)} in ${this.segments.length} segments; free inside them `
        + `${bytesText (reserved - allocated - waiting)} in ${free.length} pieces, the largest ${bytesText (largest)}`
        + (waiting > 0 ? `; ${bytesText (waiting)} freed but still used by another stream` : "")
        + (spare > 0 ? `; rounding ${bytesText (spare)}` : "");
    this.fillTable (live, allocated);
    this.draw ();
    if (tell)
      this.onMoment (this.events.when[k]);
  }

  fillTable (live, allocated) {
    const rows = [...live.values ()].sort ((a, b) => b.count * b.block.bytes - a.count * a.block.bytes).slice (0, 40);
    this.table.replaceChildren (
      element ("tr", {}, ["", "holder", "what", "layer", "each", "count", "sum"].map ((name) => element ("th", {}, name))),
      ...rows.map ((row) => {
        const i = row.block.row, category = this.events.category[i];
        return element ("tr", {},
          element ("td", {}, element ("span", { "class": "chip", style: `background:${tone (CATEGORIES[category])}` })),
          element ("td", {}, this.scenario.categories[category]), element ("td", {}, this.events.whats[this.events.what[i]]),
          element ("td", {}, this.events.layer[i] >= 0 ? String (this.events.layer[i]) : ""),
          element ("td", {}, bytesText (row.block.bytes)), element ("td", {}, String (row.count)),
          element ("td", {}, `${bytesText (row.count * row.block.bytes)} (${percentText (row.count * row.block.bytes / allocated)})`));
      }),
      live.size > 40 ? element ("tr", {}, element ("td", { colspan: 7 }, `and ${live.size - 40} more rows`)) : "");
  }

  /* Segments in lines of one width, large ones first in their order of address; small ones together. */
  layout () {
    const width = this.canvas.clientWidth || 600, total = this.segments.reduce ((sum, s) => sum + s.bytes, 0);
    const lines = Math.max (4, Math.min (24, Math.ceil (Math.sqrt (total / (1 << 27)))));
    const perPixel = total / lines / width * 1.02;
    let line = 0, x = 0;
    this.placed = [];
    const height = 13;
    for (const segment of this.segments) {
      let at = 0;
      for (const block of segment.blocks) {
        let left = block.bytes;
        while (left > 0) {
          const room = (width - x) * perPixel, take = Math.min (left, Math.max (room, 1));
          this.placed.push ({ x: x, y: line * (height + 3), w: take / perPixel, h: height, block: block,
                              segment: segment, first: at === 0 && left === block.bytes });
          x += take / perPixel;
          left -= take;
          if (x >= width - 0.5) {
            x = 0;
            line++;
          }
        }
        at += block.bytes;
      }
    }
    return (line + 1) * (height + 3);
  }
  draw () {
    if (this.segments === undefined || this.canvas.clientWidth === 0)
      return;
    const ratio = printing ? 2 : devicePixelRatio || 1, height = this.layout ();
    this.canvas.style.height = height + "px";
    this.canvas.width = Math.round (this.canvas.clientWidth * ratio);
    this.canvas.height = Math.round (height * ratio);
    const draw = this.canvas.getContext ("2d");
    draw.setTransform (ratio, 0, 0, ratio, 0, 0);
    for (const place of this.placed) {
      const block = place.block;
      draw.fillStyle = block.row < 0 ? tone (INK.row) : tone (CATEGORIES[this.events.category[block.row]]);
      draw.globalAlpha = block.waiting ? 0.35 : 1;
      draw.fillRect (place.x, place.y, Math.max (0.4, place.w - (place.w > 2 ? 0.6 : 0)), place.h);
      draw.globalAlpha = 1;
      if (block.row < 0) {
        draw.strokeStyle = tone (INK.line);
        draw.strokeRect (place.x + 0.25, place.y + 0.25, Math.max (0.2, place.w - 0.8), place.h - 0.5);
      }
      if (place.first) {
        draw.fillStyle = tone (INK.text);
        draw.fillRect (place.x, place.y - 1, 1, place.h + 2);
      }
    }
  }
  hover (event) {
    const box = this.canvas.getBoundingClientRect (), x = event.clientX - box.left, y = event.clientY - box.top;
    const place = this.placed.find ((p) => x >= p.x && x < p.x + Math.max (p.w, 1) && y >= p.y && y < p.y + p.h);
    if (place === undefined) {
      hideTip ();
      return;
    }
    const i = place.block.row;
    const lines = i < 0 ? ["free", bytesText (place.block.bytes)]
      : [this.events.whats[this.events.what[i]] + (this.events.layer[i] >= 0 ? ` · layer ${this.events.layer[i]}` : ""),
         `${bytesText (place.block.bytes)} ${this.scenario.categories[this.events.category[i]]}`,
         place.block.waiting ? "freed, but another stream still uses it" : ""];
    lines.push (`in a segment of ${bytesText (place.segment.bytes)}`);
    showTip (lines.map ((line, n) => element (n === 0 ? "strong" : "div", {}, line)), event.clientX, event.clientY);
  }
}
