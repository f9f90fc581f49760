/* timeline.js: streams, links, host and memory of one scenario on one axis.
 * SPDX-License-Identifier: MIT
 *
 * All timelines share one view (from, to in nanoseconds since the start of the step). */

const LABELS = 168, MAX_LINK_ROWS = 6;

class View {
  constructor () {
    this.from = 0;
    this.to = this.all = 1;
    this.drawn = [];
  }
  reset () {
    this.from = 0;
    this.to = this.all;
    this.changed ();
  }
  show (from, to) {
    const least = 200, length = Math.min (this.all, Math.max (least, to - from));
    this.from = Math.max (0, Math.min (from, this.all - length));
    this.to = this.from + length;
    this.changed ();
  }
  zoom (factor, around) {
    const at = around === undefined ? (this.from + this.to) / 2 : around;
    this.show (at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  pan (part) {
    const by = (this.to - this.from) * part;
    this.show (this.from + by, this.to + by);
  }
  changed () {
    if (this.asked)
      return;
    this.asked = true;
    requestAnimationFrame (() => {
      this.asked = false;
      for (const timeline of this.drawn)
        timeline.draw ();
    });
  }
}

class Timeline {
  constructor (canvas, scenario, view, onMoment) {
    this.canvas = canvas;
    this.view = view;
    this.scenario = scenario;
    this.onMoment = onMoment;
    this.moment = null;
    this.hover = null;
    this.row = 0;
    this.span = -1;
    canvas.addEventListener ("mousemove", (event) => this.moved (event));
    canvas.addEventListener ("mouseleave", () => {
      this.hover = null;
      hideTip ();
      this.drawMarks ();
    });
    canvas.addEventListener ("mousedown", (event) => this.pressed (event));
    canvas.addEventListener ("dblclick", () => view.reset ());
    canvas.addEventListener ("wheel", (event) => this.wheeled (event), { passive: false });
    canvas.addEventListener ("keydown", (event) => this.typed (event));
  }

  setStep (index) {
    const step = this.step = this.scenario.shown[index];
    this.rows = [{ kind: "phases", label: "phases", height: 18 }];
    if (step === undefined)
      return;
    for (const track of step.rows) {
      const wait = track.track === TRACK_WAIT;
      this.rows.push ({ kind: "spans", label: track.label, height: wait ? 14 : 24, track: track });
    }
    /* what the compute stream waits for belongs below it */
    const at = this.rows.findIndex ((row) => row.track && row.track.track === TRACK_WAIT);
    const compute = this.rows.findIndex ((row) => row.track && row.track.track === TRACK_STREAM);
    if (at >= 0 && compute >= 0)
      this.rows.splice (compute + 1, 0, this.rows.splice (at, 1)[0]);
    /* a few bytes (a loss that Python reads) are no row */
    const most = step.flows.reduce ((bytes, flow) => Math.max (bytes, flow.bytes), 0);
    for (const flow of step.flows.filter ((f) => f.bytes >= most / 1000).slice (0, MAX_LINK_ROWS)) {
      const more = flow.names.length > 1 ? ` (${flow.names.length} alike)` : "";
      this.rows.push ({ kind: "link", label: flow.names[0] + more, height: 22, flow: flow });
    }
    if (step.events !== null)
      this.rows.push ({ kind: "memory", label: "GPU memory (host time)", height: 120 });
    let top = 22;
    for (const row of this.rows) {
      row.top = top;
      top += row.height + 3;
    }
    this.height = top + 4;
    this.canvas.style.height = this.height + "px";
    this.draw ();
  }

  x (when) {
    return LABELS + (when - this.view.from) / (this.view.to - this.view.from) * (this.width - LABELS - 8);
  }
  when (x) {
    return this.view.from + (x - LABELS) / (this.width - LABELS - 8) * (this.view.to - this.view.from);
  }

  draw () {
    if (this.step === undefined)
      return;
    const ratio = printing ? 2 : devicePixelRatio || 1, width = this.canvas.clientWidth;
    if (width === 0)
      return;
    this.width = width;
    this.base = this.base || document.createElement ("canvas");
    this.base.width = Math.round (width * ratio);
    this.base.height = Math.round (this.height * ratio);
    const draw = this.context = this.base.getContext ("2d");
    draw.setTransform (ratio, 0, 0, ratio, 0, 0);
    draw.fillStyle = tone (INK.paper);
    draw.fillRect (0, 0, width, this.height);
    draw.font = "12px system-ui, sans-serif";
    draw.textBaseline = "middle";
    this.drawAxis ();
    this.rows.forEach ((row, index) => {
      draw.fillStyle = tone (INK.row);
      draw.fillRect (LABELS, row.top, width - LABELS - 8, row.height);
      draw.fillStyle = tone (index === this.row && document.activeElement === this.canvas ? INK.mark : INK.text);
      draw.fillText (row.label, 4, row.top + (row.kind === "memory" ? 10 : row.height / 2), LABELS - 10);
      draw.save ();
      draw.beginPath ();
      draw.rect (LABELS, row.top, width - LABELS - 8, row.height);
      draw.clip ();
      if (row.kind === "phases")
        this.drawPhases (row);
      else if (row.kind === "spans")
        this.drawSpans (row);
      else if (row.kind === "link")
        this.drawLink (row);
      else
        this.drawMemory (row);
      draw.restore ();
    });
    this.drawMarks ();
  }

  drawAxis () {
    const draw = this.context, length = this.view.to - this.view.from;
    const room = Math.max (2, (this.width - LABELS) / 110);
    let unit = Math.pow (10, Math.floor (Math.log10 (length / room)));
    unit *= length / unit / room > 5 ? 10 : length / unit / room > 2 ? 5 : length / unit / room > 1 ? 2 : 1;
    draw.fillStyle = tone (INK.faint);
    draw.strokeStyle = tone (INK.line);
    for (let t = Math.ceil (this.view.from / unit) * unit; t <= this.view.to; t += unit) {
      const x = this.x (t);
      draw.beginPath ();
      draw.moveTo (x, 16);
      draw.lineTo (x, this.height);
      draw.stroke ();
      draw.fillText (timeText (t), x + 3, 10);
    }
  }

  drawPhases (row) {
    const draw = this.context;
    for (const phase of this.step.phases) {
      const x = this.x (phase.start_ns), w = this.x (phase.start_ns + phase.time_ns) - x;
      if (x + w < LABELS || x > this.width)
        continue;
      draw.fillStyle = tone (PHASES[phase.phase]);
      draw.fillRect (x, row.top, w, row.height);
      draw.fillStyle = tone (INK.text);
      if (w > 70)
        draw.fillText (phase.phase + (phase.micro_step > 0 ? " " + (phase.micro_step + 1) : ""),
                       Math.max (x, LABELS) + 4, row.top + row.height / 2);
    }
  }

  color (track, i) {
    const [name, cause] = this.nameOf (track, i);
    if (track.track === TRACK_HOST)
      return tone (name === "wait" ? HOST_WAIT : HOST_COLOR);
    if (track.track === TRACK_WAIT || track.track < TRACK_COLLECTIVE)
      return tone (CAUSES[cause].color);
    if (track.track < TRACK_COPY_IN)
      return tone (MOVES[name] || MOVES["reduce"]);
    return tone (track.track === TRACK_CPU ? CPU_COLOR : COPIES);
  }
  nameOf (track, i) {
    const at = track.name[i] * 3, names = this.step.names;
    return [names[at], names[at + 1], names[at + 2]];
  }

  /* Spans of less than a pixel are drawn once a pixel, so 100,000 are as fast as 1,000. */
  drawSpans (row) {
    const draw = this.context, track = row.track, y = row.top + 1, h = row.height - 2;
    let last = -1, drawn = -1;     /* pixels, and the time until which they are taken */
    for (let i = Math.max (0, lastAt (track.start, this.view.from) - 1); i < track.n; i++) {
      if (track.start[i] > this.view.to)
        break;
      if (track.end[i] < this.view.from || track.end[i] < drawn)
        continue;
      let x = this.x (track.start[i]), w = this.x (track.end[i]) - x;
      if (w < 0.7) {
        if (x < last + 0.5)
          continue;
        w = 0.8;
      }
      last = x + w;
      drawn = this.when (last + 0.4);
      draw.globalAlpha = track.track >= TRACK_STREAM && track.track < TRACK_COPY_IN && track.layer[i] % 2 === 1 ? 0.72 : 1;
      draw.fillStyle = this.color (track, i);
      draw.fillRect (x, y, w > 3 ? w - 0.6 : w, h);
      if (track.critical[i] && w > 2) {
        draw.globalAlpha = 1;
        draw.fillStyle = tone (INK.mark);
        draw.fillRect (x, y + h - 2, w - 0.6, 2);
      }
      if (w > 46 && h > 12) {
        const visible = Math.max (x, LABELS);
        draw.globalAlpha = 1;
        draw.save ();
        draw.beginPath ();
        draw.rect (visible, y, x + w - visible - 4, h);
        draw.clip ();
        draw.fillStyle = track.track === TRACK_HOST || dark && !printing ? tone (INK.text) : "#fff";
        if (dark && !printing && track.track !== TRACK_HOST)
          draw.fillStyle = "#101418";
        draw.fillText (this.spanLabel (track, i), visible + 4, y + h / 2);
        draw.restore ();
      }
    }
    draw.globalAlpha = 1;
  }
  spanLabel (track, i) {
    const [name, cause] = this.nameOf (track, i);
    const text = track.track === TRACK_WAIT ? CAUSES[cause].name : name;
    return track.layer[i] >= 0 ? `${text} · layer ${track.layer[i]}` : text;
  }

  /* Per pixel what crossed on average, of what could. */
  drawLink (row) {
    const draw = this.context, flow = row.flow, bottom = row.top + row.height;
    const columns = Math.max (1, Math.floor (this.width - LABELS - 8)), sums = new Float64Array (columns + 1);
    const scale = columns / (this.view.to - this.view.from);
    for (let i = Math.max (0, lastAt (flow.when, this.view.from)); i < flow.n && flow.when[i] < this.view.to; i++) {
      if (flow.rates[i] === 0)
        continue;
      const end = i + 1 < flow.n ? flow.when[i + 1] : this.step.time, part = Math.min (1, flow.rates[i] / flow.rate);
      let from = Math.max (0, (flow.when[i] - this.view.from) * scale);
      const to = Math.min (columns, (end - this.view.from) * scale);
      while (from < to) {
        const next = Math.min (to, Math.floor (from) + 1);
        sums[Math.floor (from)] += part * (next - from);
        from = next;
      }
    }
    draw.fillStyle = tone (CAUSES[1].color);
    for (let c = 0, first = 0; c <= columns; c++)
      if (c === columns || Math.abs (sums[c] - sums[first]) > 0.02) {
        draw.fillRect (LABELS + first, bottom - sums[first] * row.height, c - first, sums[first] * row.height);
        first = c;
      }
  }

  /* Allocated bytes by holder, stacked; reserved as a line; per pixel the moment with the most. */
  drawMemory (row) {
    const draw = this.context, events = this.step.events, held = new Float64Array (CATEGORIES.length);
    const columns = Math.max (1, Math.floor (this.width - LABELS - 8)), scale = row.height / this.memoryMost ();
    const snapshots = [];
    let column = 0, reserved = 0, best = null;
    const take = (until) => {
      for (; column < until && column < columns; column++) {
        snapshots.push (best);
        best = { total: 0, held: held.slice (), reserved: reserved };
        best.total = held.reduce ((sum, bytes) => sum + bytes, 0);
      }
    };
    best = { total: 0, held: held.slice (), reserved: 0 };
    for (let i = 0; i < events.n; i++) {
      const at = (events.when[i] - this.view.from) / (this.view.to - this.view.from) * columns;
      if (at > columns)
        break;
      if (at >= column + 1)
        take (Math.floor (at));
      const a = events.action[i], of = events.of[i];
      if (a === ALLOC)
        held[events.category[i]] += events.bytes[i];
      else if (a === FREE_REQUESTED && of >= 0)
        held[events.category[of]] -= events.bytes[of];
      else if (a === FREE_COMPLETED || a === FREE_REQUESTED)
        continue;
      reserved = events.reserved[i];
      if (at < 0 || events.allocated[i] >= best.total) {
        best.total = events.allocated[i];
        best.held.set (held);
      }
      best.reserved = at < 0 ? reserved : Math.max (best.reserved, reserved);
    }
    take (columns);
    for (let c = 0; c < snapshots.length; c++) {
      let y = row.top + row.height;
      for (let k = 0; k < CATEGORIES.length; k++) {
        const h = snapshots[c].held[k] * scale;
        if (h <= 0)
          continue;
        draw.fillStyle = tone (CATEGORIES[k]);
        draw.fillRect (LABELS + c, y - h, 1.05, h);
        y -= h;
      }
    }
    draw.strokeStyle = tone (INK.text);
    draw.setLineDash ([3, 2]);
    draw.beginPath ();
    snapshots.forEach ((snapshot, c) => draw.lineTo (LABELS + c, row.top + row.height - snapshot.reserved * scale + 0.5));
    draw.stroke ();
    draw.setLineDash ([]);
    draw.fillStyle = tone (INK.faint);
    draw.fillText (bytesText (this.memoryMost ()), LABELS + 4, row.top + 8);
    if (this.step.peak_ns !== undefined) {
      const x = this.x (this.step.peak_ns);
      draw.fillStyle = tone (INK.mark);
      draw.beginPath ();
      draw.moveTo (x, row.top + 10);
      draw.lineTo (x - 5, row.top);
      draw.lineTo (x + 5, row.top);
      draw.fill ();
      draw.fillText ("peak", x + 7, row.top + 8);
    }
  }
  /* One scale for all scenarios. */
  memoryMost () {
    return this.view.memory || 1;
  }

  /* What is drawn stays in `base`; marks go on top, so that they may follow the mouse. */
  drawMarks () {
    const draw = this.canvas.getContext ("2d"), ratio = this.base.width / this.width;
    if (this.canvas.width !== this.base.width || this.canvas.height !== this.base.height) {
      this.canvas.width = this.base.width;
      this.canvas.height = this.base.height;
    }
    draw.setTransform (1, 0, 0, 1, 0, 0);
    draw.drawImage (this.base, 0, 0);
    draw.setTransform (ratio, 0, 0, ratio, 0, 0);
    if (this.moment !== null) {
      draw.fillStyle = tone (INK.mark);
      draw.fillRect (this.x (this.moment) - 0.75, 16, 1.5, this.height - 18);
    }
    if (this.hover !== null) {
      draw.fillStyle = tone (INK.faint);
      draw.fillRect (this.hover - 0.5, 16, 1, this.height - 18);
    }
    if (this.dragged !== undefined && this.hover !== null) {
      draw.fillStyle = tone (INK.mark);
      draw.globalAlpha = 0.2;
      draw.fillRect (Math.min (this.hover, this.dragged), 16, Math.abs (this.hover - this.dragged), this.height);
      draw.globalAlpha = 1;
    }
  }

  /* ---- mouse ---- */
  moved (event) {
    const box = this.canvas.getBoundingClientRect (), x = event.clientX - box.left, y = event.clientY - box.top;
    this.hover = x > LABELS ? x : null;
    this.drawMarks ();
    const row = this.rows.find ((candidate) => y >= candidate.top && y < candidate.top + candidate.height);
    const lines = row === undefined ? null : x <= LABELS ? [row.label] : this.tipLines (row, this.when (x), 2 / (this.width - LABELS) * (this.view.to - this.view.from));
    if (lines === null) {
      hideTip ();
      return;
    }
    showTip (lines.map ((line, i) => element (i === 0 ? "strong" : "div", {}, line)), event.clientX, event.clientY);
  }

  /* The span of ROW at WHEN, or within SLACK of it; -1. */
  spanAt (row, when, slack) {
    const track = row.track;
    let i = lastAt (track.start, when);
    for (let back = 0; back < 8 && i - back >= 0; back++)
      if (track.end[i - back] >= when)
        return i - back;
    if (i >= 0 && when - track.end[i] < slack)
      return i;
    return i + 1 < track.n && track.start[i + 1] - when < slack ? i + 1 : -1;
  }

  tipLines (row, when, slack) {
    if (row.kind === "phases") {
      const phase = this.step.phases.find ((p) => when >= p.start_ns && when < p.start_ns + p.time_ns);
      return phase === undefined ? null
        : [`${phase.phase} of micro-step ${phase.micro_step + 1}`, timeText (phase.time_ns)];
    }
    if (row.kind === "spans") {
      const i = this.spanAt (row, when, slack);
      return i < 0 ? null : this.spanLines (row.track, i);
    }
    if (row.kind === "link") {
      const rate = row.flow.rates[Math.max (0, lastAt (row.flow.when, when))];
      return [row.label, `${rateText (rate)} of ${rateText (row.flow.rate)} (${percentText (rate / row.flow.rate)})`,
              row.flow.names.length > 1 ? row.flow.names.slice (0, 6).join (", ") : ""];
    }
    const k = lastAt (this.step.events.when, when);
    return k < 0 ? null : [`allocated ${bytesText (this.step.events.allocated[k])}`,
                           `reserved ${bytesText (this.step.events.reserved[k])}`, "click: who is alive"];
  }
  spanLines (track, i) {
    const lines = [this.spanLabel (track, i), `${timeText (track.end[i] - track.start[i])}, from ${timeText (track.start[i])}`];
    if (track.bytes[i] > 0) {
      const seconds = (track.end[i] - track.start[i]) / 1e9;
      lines.push (track.track === TRACK_CPU ? `${track.bytes[i].toLocaleString ("en")} elements`
        : `${bytesText (track.bytes[i])} (${rateText (track.bytes[i] / seconds)})`);
    }
    if (track.track === TRACK_WAIT) {
      const middle = (track.start[i] + track.end[i]) / 2, busy = [];
      for (const other of this.step.rows) {
        if (other.track === TRACK_WAIT || other.track === TRACK_STREAM)
          continue;
        const j = this.spanAt ({ track: other }, middle, 0);
        if (j >= 0 && this.nameOf (other, j)[0] !== "wait")
          busy.push (`meanwhile ${other.label}: ${this.spanLabel (other, j)}`);
      }
      lines.push (...busy.slice (0, 4));
    }
    if (track.critical[i])
      lines.push ("on the critical path");
    return lines;
  }

  pressed (event) {
    if (event.button !== 0)
      return;
    this.canvas.focus ();
    const box = this.canvas.getBoundingClientRect (), start = event.clientX - box.left;
    if (start < LABELS)
      return;
    const from = this.view.from, to = this.view.to;
    this.dragged = event.shiftKey ? undefined : start;
    const move = (moved) => {
      const by = (moved.clientX - box.left - start) / (this.width - LABELS - 8) * (to - from);
      if (event.shiftKey)
        this.view.show (from - by, to - by);
    };
    const up = (released) => {
      removeEventListener ("mousemove", move);
      removeEventListener ("mouseup", up);
      const end = released.clientX - box.left;
      this.dragged = undefined;
      if (event.shiftKey)
        return;
      if (Math.abs (end - start) > 5)
        this.view.show (Math.min (this.when (start), this.when (end)), Math.max (this.when (start), this.when (end)));
      else
        this.choose (this.when (end));
    };
    addEventListener ("mousemove", move);
    addEventListener ("mouseup", up);
  }
  wheeled (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      event.preventDefault ();
      this.view.zoom (event.deltaY > 0 ? 1.25 : 0.8, this.when (event.clientX - this.canvas.getBoundingClientRect ().left));
    } else if (Math.abs (event.deltaX) > Math.abs (event.deltaY)) {
      event.preventDefault ();
      this.view.pan (event.deltaX / this.width);
    }
  }
  choose (when) {
    this.moment = Math.max (0, Math.min (when, this.step.time));
    this.draw ();
    this.onMoment (this.moment);
  }

  /* ---- keyboard ---- */
  typed (event) {
    const keys = {
      "ArrowLeft": () => this.view.pan (-0.1), "ArrowRight": () => this.view.pan (0.1),
      "+": () => this.view.zoom (0.6), "=": () => this.view.zoom (0.6), "-": () => this.view.zoom (1.6),
      "0": () => this.view.reset (), "Home": () => this.view.show (0, this.view.to - this.view.from),
      "End": () => this.view.show (this.view.all, this.view.all + this.view.to - this.view.from),
      "ArrowUp": () => this.pickRow (-1), "ArrowDown": () => this.pickRow (1),
      "n": () => this.pickSpan (1), "p": () => this.pickSpan (-1),
      "Enter": () => this.choose ((this.view.from + this.view.to) / 2),
    };
    if (keys[event.key] === undefined || event.ctrlKey || event.metaKey)
      return;
    event.preventDefault ();
    keys[event.key] ();
  }
  pickRow (by) {
    this.row = (this.row + by + this.rows.length) % this.rows.length;
    this.span = -1;
    say (this.rows[this.row].label);
    this.draw ();
  }
  pickSpan (by) {
    const row = this.rows[this.row];
    if (row.kind !== "spans")
      return;
    this.span = this.span < 0 ? Math.max (0, lastAt (row.track.start, this.view.from)) : this.span + by;
    this.span = Math.max (0, Math.min (this.span, row.track.n - 1));
    const start = row.track.start[this.span], end = row.track.end[this.span];
    if (end < this.view.from || start > this.view.to)
      this.view.show (start - (this.view.to - this.view.from) / 2, start + (this.view.to - this.view.from) / 2);
    this.moment = start;
    this.draw ();
    say (this.spanLines (row.track, this.span).join (", "));
    const box = this.canvas.getBoundingClientRect ();
    showTip (this.spanLines (row.track, this.span).map ((line, i) => element (i === 0 ? "strong" : "div", {}, line)),
             box.left + this.x (start), box.top + row.top + row.height);
  }
}
