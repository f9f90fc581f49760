/* words.js: colours and words that several panels use.  SPDX-License-Identifier: MIT */

/* Pairs of colours: on light and on dark. */
const CAUSES = [
  { key: "compute_ps", name: "computing", color: ["#3b78c3", "#5b9be6"] },
  { key: "exposed_communication_ps", name: "waiting for other GPUs", color: ["#d9730d", "#f0953b"] },
  { key: "exposed_offload_ps", name: "waiting for offload", color: ["#2f8f6b", "#4cc495"] },
  { key: "optimizer_ps", name: "optimizer", color: ["#8a4fbf", "#b184e0"] },
  { key: "host_bound_ps", name: "waiting for Python", color: ["#8a8f98", "#9aa0aa"] },
];
const CATEGORIES = [
  ["#3b78c3", "#5b9be6"], ["#d9730d", "#f0953b"], ["#7a4aa8", "#a57dd6"], ["#b0479b", "#dc7cc8"],
  ["#c23b3b", "#ec6e6e"], ["#2f8f6b", "#4cc495"], ["#8fa928", "#b6d04a"], ["#c9a21b", "#ecc94b"],
  ["#5f7d8c", "#8fb0c0"], ["#9a7b5c", "#c7a584"], ["#777777", "#a0a0a0"], ["#c27ba0", "#e0a6c4"],
  ["#1c8ea6", "#4fc3da"], ["#4a4a9c", "#8181d6"],
];
const PHASES = { load: ["#dddddd", "#3a3a3a"], init: ["#dddddd", "#3a3a3a"],
                 forward: ["#d7e6f7", "#24405f"], backward: ["#fbe3cc", "#5c3a17"],
                 optimizer: ["#e8dbf5", "#46305e"], save: ["#d9efe3", "#214a39"] };
const MOVES = { "all-gather": ["#e08a2e", "#f0a558"], "reduce-scatter": ["#c0503c", "#e07b67"],
                "all-reduce": ["#c0503c", "#e07b67"], "reduce": ["#c0503c", "#e07b67"],
                "broadcast": ["#e0b12e", "#ecc85a"] };
const COPIES = ["#2f8f6b", "#4cc495"], CPU_COLOR = ["#8a4fbf", "#b184e0"],
      HOST_COLOR = ["#aab1bb", "#5d6673"], HOST_WAIT = ["#eceff3", "#262b33"];
const INK = { text: ["#1c2128", "#e6e9ee"], faint: ["#5b6470", "#9aa3af"], line: ["#d5dae1", "#343a44"],
              paper: ["#ffffff", "#14181d"], row: ["#f6f8fa", "#191e24"], mark: ["#c2185b", "#ff6fa5"] };

let dark = false, printing = false;
function tone (pair) {
  return pair[dark && !printing ? 1 : 0];
}

function element (name, attributes, ...children) {
  const svg = ["svg", "line", "rect", "text", "path", "g", "title", "circle"].includes (name);
  const made = svg ? document.createElementNS ("http://www.w3.org/2000/svg", name)
                   : document.createElement (name);
  for (const [key, value] of Object.entries (attributes || {}))
    if (key.startsWith ("on"))
      made.addEventListener (key.slice (2), value);
    else if (value !== false && value !== undefined)
      made.setAttribute (key, value === true ? "" : value);
  for (const child of children.flat (Infinity))
    if (child !== null && child !== undefined)
      made.append (child);
  return made;
}

function showTip (html, x, y) {
  const tip = document.getElementById ("tip");
  tip.replaceChildren (...html);
  tip.hidden = false;
  const box = tip.getBoundingClientRect ();
  tip.style.left = Math.max (4, Math.min (x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max (4, y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
}
function hideTip () {
  document.getElementById ("tip").hidden = true;
}
function say (text) {
  document.getElementById ("status").textContent = text;
}
