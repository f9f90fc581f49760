/* live.js: controls whose every movement simulates again; the address bar holds their state.
 * SPDX-License-Identifier: MIT */

class Controls {
  /* CONTROLS: rows of the server: name, label, kind (menu, steps, flag), values, value. */
  constructor (box, controls, onResult) {
    this.box = box;
    this.onResult = onResult;
    this.controls = controls;
    this.inputs = new Map ();
    this.running = false;
    this.pending = false;
    this.message = element ("p", { "class": "faint", id: "live-status" }, "");
    box.hidden = false;
    const state = new URLSearchParams (location.search);
    box.append (element ("h2", {}, "Try"), this.message, ...controls.map ((control) => this.make (control, state)),
      element ("p", {}, this.link = element ("a", { href: "scenario.yaml", download: "scenario.yaml" }, "scenario"), " · ",
               this.config = element ("a", { href: "ds_config.json", download: "ds_config.json" }, "ds_config.json"), " · ",
               element ("a", { href: "/", onclick: () => history.replaceState (null, "", "/") }, "start again")));
    this.links ();
  }
  make (control, state) {
    const given = state.get (control.name), value = given !== null && control.values.includes (given) ? given : control.value;
    let input, output = null;
    if (control.kind === "slider") {
      input = element ("input", { type: "range", min: 0, max: control.values.length - 1, step: 1, name: control.name,
                                  value: Math.max (0, control.values.indexOf (value)) });
      output = element ("output", {}, this.text (control, value));
      input.read = () => control.values[Number (input.value)];
      input.addEventListener ("input", () => {
        output.textContent = this.text (control, input.read ());
        this.changed ();
      });
    } else {
      input = element ("select", { name: control.name }, control.values.map ((v) => element ("option", { value: v, selected: v === value }, v)));
      input.read = () => input.value;
      input.addEventListener ("change", () => this.changed ());
    }
    input.start = control.value;
    this.inputs.set (control.name, input);
    return element ("label", { title: control.help }, control.label, output, input);
  }
  text (control, value) {
    const number = Number (value);
    return Number.isFinite (number) && number >= 10000 ? number.toLocaleString ("en") : value;
  }
  query () {
    const query = new URLSearchParams ();
    for (const [name, input] of this.inputs)
      if (input.read () !== input.start)
        query.set (name, input.read ());
    return query.toString ();
  }
  links () {
    const query = this.query ();
    this.link.href = "scenario.yaml?" + query;
    this.config.href = "ds_config.json?" + query;
  }
  changed () {
    const query = this.query ();
    history.replaceState (null, "", query === "" ? location.pathname : "?" + query);
    this.links ();
    this.pending = true;
    this.run ();
  }
  /* One request at a time; the latest state wins. */
  async run () {
    if (this.running)
      return;
    this.running = true;
    while (this.pending) {
      this.pending = false;
      const started = performance.now ();
      try {
        const reply = await fetch ("run?" + this.query ()), body = await reply.json ();
        if (reply.status === 503) {          /* busy: later */
          this.pending = true;
          await new Promise ((done) => setTimeout (done, 300));
          continue;
        }
        if (body.error !== undefined)
          throw new Error (body.error);
        if (this.pending)
          continue;
        await this.onResult (body);
        this.message.textContent = `simulated and drawn in ${Math.round (performance.now () - started)} ms`;
        this.message.className = "faint";
      } catch (error) {
        this.message.textContent = error.message;
        this.message.className = "bad";
      }
    }
    this.running = false;
  }
}
