/* page.js: puts the panels together.  SPDX-License-Identifier: MIT */

const page = { scenarios: [], view: new View (), timelines: [], memories: [], step: -1 };

function byId (id) {
  return document.getElementById (id);
}

function fillCards () {
  const scales = {
    time: Math.max (1, ...page.scenarios.map ((s) => s.result.step_time_ps)),
    memory: Math.max (1, ...page.scenarios.map ((s) => Math.max (s.result.gpu_memory_bytes, s.result.peak_allocated_bytes))),
  };
  byId ("cards").replaceChildren (...page.scenarios.map ((s) => card (s, scales)));
  byId ("machines").replaceChildren (...page.scenarios.map (drawTopology));
  byId ("time-legend").replaceChildren (element ("ul", { "class": "legend" },
    CAUSES.map ((cause) => element ("li", {}, element ("span", { "class": "chip", style: `background:${tone (cause.color)}` }), cause.name)),
    ["all-gather", "reduce-scatter"].map ((name) => element ("li", {}, element ("span", { "class": "chip", style: `background:${tone (MOVES[name])}` }), name)),
    element ("li", {}, element ("span", { "class": "chip", style: `background:${tone (INK.mark)};height:3px;vertical-align:4px` }), "critical path")));
}
function fillStory () {
  const choice = { level: byId ("level").value, language: byId ("language").value };
  byId ("stories").replaceChildren (...page.scenarios.map ((s) => storyPanel (s, choice)));
}

/* Steps that all scenarios show; the steady one is chosen. */
function fillSteps () {
  const most = Math.max (...page.scenarios.map ((s) => s.shown.length)), select = byId ("step");
  select.replaceChildren (...Array.from ({ length: most }, (_, i) => {
    const shown = page.scenarios.map ((s) => s.shown[Math.min (i, s.shown.length - 1)]).filter ((step) => step !== undefined);
    const peak = shown.some ((step) => step.peak_ns !== undefined) ? ", with the peak" : "";
    return element ("option", { value: i }, (shown[0].step === 0 ? "loading" : String (shown[0].step)) + (i === most - 1 ? " (steady)" : "") + peak);
  }));
  select.value = String (page.step >= 0 && page.step < most ? page.step : most - 1);
}

async function showStep (index, keepView) {
  page.step = index;
  await Promise.all (page.scenarios.map ((s) => unpackStep (s, s.shown[Math.min (index, s.shown.length - 1)])));
  const shown = page.scenarios.map ((s) => s.shown[Math.min (index, s.shown.length - 1)]).filter ((step) => step !== undefined);
  const all = Math.max (1, ...shown.map ((step) => step.time));
  page.view.memory = Math.max (1, ...shown.map ((step) => step.events === null ? 0 : step.events.reserved.reduce ((a, b) => Math.max (a, b), 0)));
  page.view.all = all;
  if (!keepView || page.view.to > all) {
    page.view.from = 0;
    page.view.to = all;
  }
  page.scenarios.forEach ((scenario, i) => {
    const own = Math.min (index, scenario.shown.length - 1);
    page.timelines[i].setStep (own);
    page.memories[i].setStep (own);
  });
}

function build () {
  page.view.drawn = [];
  page.timelines = [];
  page.memories = [];
  const boxes = [];
  page.scenarios.forEach ((scenario, i) => {
    const canvas = element ("canvas", { tabindex: 0, role: "application",
      "aria-label": `timeline of ${scenario.name}: arrows move, plus and minus zoom, up and down choose a row, n and p its spans` });
    const memory = new MemoryPanel (scenario, (when) => {
      timeline.moment = when;
      timeline.draw ();
    });
    const timeline = new Timeline (canvas, scenario, page.view, (when) => {
      if (memory.events !== null)
        memory.showMoment (when);
    });
    page.timelines[i] = timeline;
    page.memories[i] = memory;
    page.view.drawn.push (timeline);
    boxes.push (element ("div", { "class": "timeline-name" }, page.scenarios.length > 1 ? scenario.name : ""), canvas);
  });
  byId ("timelines").replaceChildren (...boxes);
  byId ("memories").replaceChildren (...page.memories.map ((m) => m.box));
}

function redraw () {
  fillCards ();
  page.timelines.forEach ((timeline) => timeline.draw ());
  page.memories.forEach ((memory) => memory.events && memory.showRow (memory.k, false));
}

async function show (data, keepView) {
  page.scenarios = data.scenarios;
  if (page.timelines.length !== page.scenarios.length)
    build ();
  else
    page.scenarios.forEach ((scenario, i) => {
      page.timelines[i].scenario = page.memories[i].scenario = scenario;
    });
  const moment = page.timelines.map ((timeline) => timeline.moment);
  fillCards ();
  fillStory ();
  fillSteps ();
  await showStep (Number (byId ("step").value), keepView);
  if (keepView)
    page.timelines.forEach ((timeline, i) => moment[i] !== null && page.memories[i].events && page.memories[i].showMoment (moment[i]));
  byId ("settings-table").replaceChildren (settingsPanel (page.scenarios));
  byId ("notes-list").replaceChildren (...page.scenarios.map (notesPanel));
  document.body.dataset.ready = "yes";
}

function setTheme (now) {
  dark = now;
  document.documentElement.classList.toggle ("dark", dark);
  if (page.scenarios.length > 0)
    redraw ();
}

function fail (error) {
  byId ("failure").hidden = false;
  byId ("failure").textContent = "This page could not be drawn: " + (error.message || error);
  document.body.dataset.failure = String (error.stack || error);
}

function main () {
  const data = JSON.parse (byId ("data").textContent);
  const scheme = matchMedia ("(prefers-color-scheme: dark)");
  setTheme (scheme.matches);
  scheme.addEventListener ("change", () => setTheme (scheme.matches));
  byId ("theme").addEventListener ("click", () => setTheme (!dark));
  byId ("print").addEventListener ("click", () => print ());
  for (const [event, value] of [["beforeprint", true], ["afterprint", false]])
    addEventListener (event, () => {
      printing = value;
      document.documentElement.classList.toggle ("dark", dark && !printing);
      redraw ();
    });
  byId ("step").addEventListener ("change", () => showStep (Number (byId ("step").value), false));
  for (const id of ["level", "language"])
    byId (id).addEventListener ("change", fillStory);
  byId ("timeline-buttons").addEventListener ("click", (event) => {
    if (event.target.dataset.zoom !== undefined)
      page.view.zoom (Number (event.target.dataset.zoom));
    if (event.target.dataset.pan !== undefined)
      page.view.pan (Number (event.target.dataset.pan));
  });
  byId ("whole").addEventListener ("click", () => page.view.reset ());
  byId ("to-peak").addEventListener ("click", async () => {
    const index = page.scenarios[0].shown.findIndex ((step) => step.peak_ns !== undefined);
    if (index >= 0 && index !== page.step) {
      byId ("step").value = String (index);
      await showStep (index, false);
    }
    page.memories.forEach ((memory) => memory.events && memory.showPeak ());
  });
  new ResizeObserver (() => {
    page.view.changed ();
    page.memories.forEach ((memory) => memory.draw ());
  }).observe (byId ("timelines"));
  show (data, false).then (() => {
    if (data.controls !== undefined) {
      page.live = new Controls (byId ("controls"), data.controls, (body) => show (body, true));
      if (page.live.query () !== "" && data.query !== page.live.query ())
        page.live.changed ();
    }
  }).catch (fail);
}

addEventListener ("error", (event) => fail (event.error || event.message));
addEventListener ("unhandledrejection", (event) => fail (event.reason));
main ();
