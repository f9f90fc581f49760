/* panels.js: verdict, time and memory in bars, the story, settings, notes.  SPDX-License-Identifier: MIT */

function verdict (result) {
  if (result.outcome === "oom")
    return element ("span", { "class": "badge bad" }, "OUT OF MEMORY");
  if (result.outcome === "host-oom")
    return element ("span", { "class": "badge bad" }, "OUT OF HOST MEMORY");
  return element ("span", { "class": "badge good" }, "FITS");
}

function bar (parts, whole) {
  return element ("div", { "class": "bar" }, parts.filter ((part) => part.value > 0).map ((part) => {
    const box = element ("div", { style: `width:${100 * part.value / whole}%;background:${tone (part.color)}`, tabindex: 0,
                                  "aria-label": `${part.name} ${part.text}` });
    box.addEventListener ("mousemove", (event) => showTip ([element ("strong", {}, part.name), element ("div", {}, part.text)], event.clientX, event.clientY));
    box.addEventListener ("mouseleave", hideTip);
    return box;
  }));
}
function legend (parts, whole) {
  return element ("ul", { "class": "legend" }, parts.filter ((part) => part.value > whole * 0.002).map ((part) =>
    element ("li", {}, element ("span", { "class": "chip", style: `background:${tone (part.color)}` }), `${part.name} `,
             element ("b", {}, part.text), ` ${percentText (part.value / whole)}`)));
}

function timeParts (result) {
  return CAUSES.map ((cause) => ({ name: cause.name, value: result.time[cause.key], color: cause.color,
                                   text: timeText (result.time[cause.key] / 1000) }));
}
function memoryParts (scenario) {
  return scenario.result.peak_holders.map ((holder) => ({
    name: holder.category, value: holder.bytes, color: CATEGORIES[scenario.categories.indexOf (holder.category)],
    text: bytesText (holder.bytes) }));
}

/* SCALES: the most time and memory of all scenarios, so that bars can be compared. */
function card (scenario, scales) {
  const result = scenario.result, fits = result.outcome === "ok";
  const box = element ("section", { "class": "card" }, element ("h2", {}, scenario.name),
    element ("p", { "class": "faint" }, scenario.title), element ("p", { "class": "faint" }, scenario.lines.join ("; ")),
    element ("p", { "class": "verdict" }, verdict (result), " ",
      element ("b", { "data-number": "peak_device_bytes" }, bytesText (result.peak_device_bytes)), ` of ${bytesText (result.gpu_memory_bytes)} per GPU`,
      fits ? [", step ", element ("b", { "data-number": "step_time_ps" }, timeText (result.step_time_ps / 1000)), ", ",
              element ("b", { "data-number": "tokens" }, result.tokens_per_second_per_gpu.toFixed (0)), " tokens/s per GPU, MFU ",
              percentText (result.mfu)] : ""));
  if (result.oom)
    box.append (element ("p", { "class": "message" }, result.oom.message));
  if (result.step_time_ps > 0)
    box.append (element ("h3", {}, "Time of a step"), bar (timeParts (result), scales.time), legend (timeParts (result), result.step_time_ps));
  box.append (element ("h3", {}, `GPU memory ${result.oom ? "when it ran out" : "at the peak"}: ` + bytesText (result.oom ? result.oom.allocated_bytes : result.peak_allocated_bytes)
      + ` allocated, ${bytesText (result.peak_reserved_bytes)} reserved`),
    bar (memoryParts (scenario), scales.memory), legend (memoryParts (scenario), result.oom ? result.oom.allocated_bytes : result.peak_allocated_bytes));
  const host = result.host_pinned_peak_bytes + result.host_pageable_peak_bytes;
  if (host > 64 << 20)
    box.append (element ("p", {}, `Host memory per node ${bytesText (host)}, ${bytesText (result.host_pinned_peak_bytes)} of it pinned`
      + (result.nvme_bytes > 0 ? `; NVMe ${bytesText (result.nvme_bytes)}` : "")));
  return box;
}

function storyPanel (scenario, choice) {
  const story = scenario.stories.find ((s) => s.language === choice.language && s.level === choice.level);
  return element ("section", { "class": "story", lang: choice.language }, element ("h3", {}, scenario.name),
    story.sections.map ((section) => [element ("h4", {}, section.title),
      element ("ul", {}, section.sentences.map ((sentence) => element ("li", {}, sentence)))]));
}

function settingsPanel (scenarios) {
  const paths = [...new Set (scenarios.flatMap ((s) => s.settings.map (([path]) => path)))];
  const maps = scenarios.map ((s) => new Map (s.settings.map (([path, value, origin]) => [path, { value, origin }])));
  const filter = element ("input", { type: "search", placeholder: "filter", "aria-label": "filter settings" });
  const only = element ("input", { type: "checkbox", id: "only-given" });
  const body = element ("tbody", {});
  const fill = () => {
    const text = filter.value.toLowerCase ();
    body.replaceChildren (...paths.filter ((path) => path.toLowerCase ().includes (text)
        && (!only.checked || maps.some ((map) => map.has (path) && map.get (path).origin.startsWith ("given"))))
      .map ((path) => {
        const values = maps.map ((map) => map.get (path));
        const differ = new Set (values.map ((v) => v && v.value)).size > 1;
        return element ("tr", { "class": differ ? "differ" : undefined }, element ("td", {}, path),
          values.map ((v) => [element ("td", {}, v ? v.value : "–"), element ("td", { "class": "faint" }, v ? v.origin : "")]));
      }));
  };
  filter.addEventListener ("input", fill);
  only.addEventListener ("change", fill);
  fill ();
  return element ("section", {}, element ("div", { "class": "buttons" }, filter, only, element ("label", { "for": "only-given" }, "only given ones")),
    element ("div", { "class": "scroll" }, element ("table", { "class": "settings" },
      element ("thead", {}, element ("tr", {}, element ("th", {}, "setting"),
        scenarios.map ((s) => [element ("th", {}, scenarios.length > 1 ? s.name : "value"), element ("th", {}, "from")]))), body)));
}

function notesPanel (scenario) {
  return element ("section", {}, element ("h3", {}, scenario.name), element ("ul", {}, scenario.assumed.map ((line) => element ("li", {}, line))));
}
