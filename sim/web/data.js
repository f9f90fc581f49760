"use strict";
/* data.js: unpacks the columns that sim/report/page-*.c packed.  SPDX-License-Identifier: MIT */

const ALLOC = 0, FREE_REQUESTED = 1, FREE_COMPLETED = 2, SEGMENT_ALLOC = 3, SEGMENT_FREE = 4,
      SEGMENT_MAP = 5, SEGMENT_UNMAP = 6;
const UNIT = 512;                       /* bytes of the columns' sizes and addresses */
const TRACK_HOST = 0, TRACK_STREAM = 1, TRACK_COLLECTIVE = 6, TRACK_COPY_IN = 10,
      TRACK_COPY_OUT = 11, TRACK_CPU = 12, TRACK_NVME = 13, TRACK_WAIT = 14;

async function inflate (text) {
  const raw = atob (text), bytes = new Uint8Array (raw.length);
  for (let i = 0; i < raw.length; i++)
    bytes[i] = raw.charCodeAt (i);
  const stream = new Blob ([bytes]).stream ().pipeThrough (new DecompressionStream ("deflate"));
  return new Uint8Array (await new Response (stream).arrayBuffer ());
}

/* Integers of seven bits a byte, least significant first. */
class Column {
  constructor (bytes, at, end) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }
  unsigned () {
    let value = 0, scale = 1, byte;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    return value;
  }
  signed () {
    const value = this.unsigned ();
    return value % 2 === 1 ? -(value + 1) / 2 : value / 2;
  }
}

async function unpackColumns (text, count) {
  const bytes = await inflate (text), columns = [];
  for (let c = 0, at = 0; c < count; c++) {
    const head = new Column (bytes, at, bytes.length), length = head.unsigned ();
    columns.push (new Column (bytes, head.at, head.at + length));
    at = head.at + length;
  }
  return columns;
}

async function unpackSpans (step) {
  const [start, time, name, layer, size] = await unpackColumns (step.spans, 5);
  return step.tracks.map ((track) => {
    const n = track.spans;
    const out = { track: track.track, label: track.name, n: n,
                  start: new Float64Array (n), end: new Float64Array (n),
                  name: new Uint32Array (n), critical: new Uint8Array (n),
                  layer: new Int32Array (n), bytes: new Float64Array (n) };
    for (let i = 0, at = 0; i < n; i++) {
      const code = name.unsigned ();
      out.start[i] = at + start.signed ();
      at = out.end[i] = out.start[i] + time.unsigned ();
      out.name[i] = code >> 1;
      out.critical[i] = code & 1;
      out.layer[i] = layer.unsigned () - 1;
      out.bytes[i] = step.sizes[size.unsigned ()];
    }
    return out;
  });
}

/* Rows of the allocator's history; `of` is the row whose block a free frees. */
async function unpackMemory (memory) {
  if (memory === undefined)
    return null;
  const [action, when, address, size, spare, category, layer, what, stream]
    = await unpackColumns (memory.columns, 9);
  const n = memory.rows;
  const out = { n: n, before: memory.before, whats: memory.whats,
                action: new Uint8Array (n), when: new Float64Array (n),
                address: new Float64Array (n), bytes: new Float64Array (n),
                spare: new Float64Array (n), category: new Uint8Array (n),
                layer: new Int32Array (n), what: new Uint32Array (n), stream: new Uint8Array (n),
                of: new Int32Array (n).fill (-1),
                allocated: new Float64Array (n), reserved: new Float64Array (n) };
  const blocks = new Map ();
  let now = 0, at = 0, allocated = 0, reserved = 0;
  for (let i = 0; i < n; i++) {
    const a = out.action[i] = action.unsigned ();
    out.when[i] = now += when.unsigned ();
    out.address[i] = at += address.signed ();
    if (a === FREE_REQUESTED || a === FREE_COMPLETED) {
      const of = blocks.has (at) ? blocks.get (at) : -1;
      out.of[i] = of;
      if (of >= 0 && a === FREE_REQUESTED)
        allocated -= out.bytes[of];
    } else {
      out.bytes[i] = size.unsigned () * UNIT;
      out.spare[i] = spare.unsigned ();
      out.category[i] = category.unsigned ();
      out.layer[i] = layer.unsigned () - 1;
      out.what[i] = what.unsigned ();
      out.stream[i] = stream.unsigned ();
      if (a === ALLOC) {
        blocks.set (at, i);
        allocated += out.bytes[i];
      } else if (a === SEGMENT_ALLOC || a === SEGMENT_MAP) {
        reserved += out.bytes[i];
      } else {
        reserved -= out.bytes[i];
      }
    }
    out.allocated[i] = allocated;
    out.reserved[i] = reserved;
  }
  return out;
}

/* What crosses each group of links, in bytes a second. */
async function unpackLinks (groups, uses) {
  const out = [];
  for (const group of groups || []) {
    const [when, rate] = await unpackColumns (group.columns, 2);
    const first = uses[group.links[0]], n = group.points;
    const row = { names: group.links.map ((l) => uses[l].link), rate: first.rate_bytes_per_s,
                  bytes: first.bytes, busy: first.busy_ps, n: n,
                  when: new Float64Array (n), rates: new Float64Array (n) };
    for (let i = 0, at = 0; i < n; i++) {
      row.when[i] = at += when.unsigned ();
      row.rates[i] = rate.unsigned () * 1e6;
    }
    out.push (row);
  }
  out.sort ((a, b) => b.busy - a.busy || b.bytes - a.bytes);
  return out;
}

/* A step is unpacked when it is shown. */
async function unpackStep (scenario, step) {
  if (step === undefined || step.rows !== undefined)
    return;
  step.time = step.time_ps / 1000;
  step.events = await unpackMemory (step.memory);
  step.flows = await unpackLinks (step.links, scenario.result.links);
  step.rows = await unpackSpans (step);
}

/* Last index whose value is not above WHEN; -1 if there is none. */
function lastAt (sorted, when) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= when)
      low = middle + 1;
    else
      high = middle;
  }
  return low - 1;
}

/* ---- numbers as the program prints them ---- */

function trim (value, digits) {
  return parseFloat (value.toFixed (digits)).toString ();
}
function bytesText (bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0;
  while (Math.abs (bytes) >= 1024 && u < 4) {
    bytes /= 1024;
    u++;
  }
  return trim (bytes, 2) + " " + units[u];
}
function rateText (rate) {
  const units = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];
  let u = 0;
  while (rate >= 1000 && u < 4) {
    rate /= 1000;
    u++;
  }
  return trim (rate, 2) + " " + units[u];
}
function timeText (ns) {
  const sign = ns < 0 ? "-" : "";
  let value = Math.abs (ns), unit = "ns";
  for (const [size, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]])
    if (value >= size) {
      value /= size;
      unit = name;
      break;
    }
  return sign + trim (value, Math.max (0, 3 - Math.floor (Math.log10 (Math.max (value, 1))))) + " " + unit;
}
function percentText (part) {
  return (part < 0.1 ? trim (100 * part, 1) : (100 * part).toFixed (0)) + " %";
}
