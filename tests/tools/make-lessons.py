#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/lessons from docs/lessons/source and the scenarios of scenarios/lessons.

    tests/tools/make-lessons.py            from anywhere; needs ZEROSIM (the program) and ZEROSIM_DATADIR
    tests/tools/make-lessons.py --check    says which pages are not current: other words, or numbers that are
                                           off by more than 30 % (a change of a machine's rates moves them all;
                                           `make lessons` writes them again)

A source names variants (label, words, settings) and has prose in which {{label.number}} is what that run
said, and {{a.step/b.step}} a quotient. @table and @figure are made of all variants.
"""
import glob
import html
import json
import os
import re
import shlex
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("ZEROSIM", "zerosim")
CAUSES = [("compute_ps", "computing", "#3b78c3"), ("exposed_communication_ps", "waiting for other GPUs", "#d9730d"),
          ("exposed_offload_ps", "waiting for offload", "#2f8f6b"), ("optimizer_ps", "optimizer", "#8a4fbf"),
          ("host_bound_ps", "waiting for Python", "#8a8f98")]
COLORS = {"parameters": "#3b78c3", "gathered parameters": "#d9730d", "master weights": "#7a4aa8", "optimizer states": "#b0479b",
          "gradients": "#c23b3b", "activations": "#2f8f6b", "activation checkpoints": "#8fa928", "logits and loss": "#c9a21b",
          "communication buckets": "#5f7d8c", "operator temporaries": "#9a7b5c", "workspaces": "#777777",
          "optimizer step temporaries": "#c27ba0", "offload staging": "#1c8ea6", "inputs": "#4a4a9c"}


def bytes_text(value):
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return "%.4g %s" % (value, unit)
        value /= 1024
    return "%.2f GiB" % value


def time_text(ps):
    if ps == 0:
        return "0"
    for size, unit in ((10 ** 12, "s"), (10 ** 9, "ms"), (10 ** 6, "us")):
        if ps >= size:
            return "%.4g %s" % (ps / size, unit)
    return "%d ns" % (ps // 1000)


def number(result, name):
    """The raw number or text, and how it is written."""
    steps = {step["step"]: step.get("time_ps", 0) for step in result["steps"]}
    times = {"communication": "exposed_communication_ps", "offload": "exposed_offload_ps", "compute": "compute_ps",
             "optimizer": "optimizer_ps", "host": "host_bound_ps"}
    if name.startswith("holder:"):
        value = sum(h["bytes"] for h in result["peak_holders"] if h["category"] == name[7:])
        return value, bytes_text(value)
    if name in times:
        value = result["time"][times[name]]
        return value, time_text(value)
    if re.fullmatch(r"step[0-9]", name):
        value = steps.get(int(name[4:]), 0)
        return value, time_text(value)
    if name in ("forward_peak", "backward_peak"):
        value = max(p["peak_allocated_bytes"] for p in result["steps"][-1]["phases"] if p["phase"] == name[:-5])
        return value, bytes_text(value)
    if name == "link_bytes":
        value = max(link["bytes"] for link in result["links"] if " > " in link["link"])
        return value, bytes_text(value)
    if name == "outcome":
        words = {"ok": "fits", "oom": "out of memory", "host-oom": "out of host memory"}
        return words[result["outcome"]], words[result["outcome"]]
    table = {"step": ("step_time_ps", time_text), "tokens": ("tokens_per_second_per_gpu", lambda v: "{:,.0f}".format(v)),
             "allocated": ("peak_allocated_bytes", bytes_text), "reserved": ("peak_reserved_bytes", bytes_text),
             "device": ("peak_device_bytes", bytes_text), "host_pinned": ("host_pinned_peak_bytes", bytes_text),
             "nvme": ("nvme_bytes", bytes_text)}
    if name == "host_memory":
        value = result["host_pinned_peak_bytes"] + result["host_pageable_peak_bytes"]
        return value, bytes_text(value)
    if name in ("peak_step", "peak_phase"):
        return result["peak"][name[5:]], str(result["peak"][name[5:]])
    key, write = table[name]
    return result[key], write(result[key])


def fill(text, results, scenario):
    def replace(match):
        words = match.group(1).split("/")
        if words == ["scenario"]:
            return scenario
        values = [number(results[word.split(".", 1)[0]], word.split(".", 1)[1]) for word in words]
        return values[0][1] if len(values) == 1 else "%.2f" % (values[0][0] / values[1][0])

    return re.sub(r"\{\{([^}]*)\}\}", replace, text)


def table(variants, results):
    rows = ["| | | memory of a GPU | tensors at the peak | reserved | step | tokens/s per GPU | waiting for GPUs | for offload |",
            "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for label, words, _ in variants:
        result = results[label]
        done = result["outcome"] == "ok"
        cells = [words, number(result, "outcome")[1]]
        cells += [number(result, name)[1] if done else "" for name in ("device", "allocated", "reserved")]
        cells += [number(result, name)[1] if done else "" for name in ("step", "tokens", "communication", "offload")]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def bars(title, rows, top, unit):
    """Stacked bars, one a row: [(words, [(name, value, color)])]; lines of SVG and the height."""
    most = max([sum(value for _, value, _ in parts) for _, parts in rows] + [1])
    lines = ['<text x="10" y="%d" class="t">%s</text>' % (top + 14, title)]
    y = top + 24
    seen = {}
    for words, parts in rows:
        x = 190.0
        lines.append('<text x="184" y="%d" text-anchor="end">%s</text>' % (y + 13, html.escape(words)))
        for name, value, color in parts:
            width = 460.0 * value / most
            if width >= 0.3:
                seen[name] = color
                lines.append('<rect x="%.1f" y="%d" width="%.1f" height="18" fill="%s"><title>%s: %s</title></rect>'
                             % (x, y, width, color, name, unit(value)))
            x += width
        lines.append('<text x="%.1f" y="%d">%s</text>' % (x + 5, y + 13, unit(sum(value for _, value, _ in parts)) if parts else ""))
        y += 24
    x = 190
    for name, color in seen.items():
        if x + 8 * len(name) > 740:
            x, y = 190, y + 17
        lines.append('<rect x="%d" y="%d" width="9" height="9" fill="%s"/><text x="%d" y="%d" class="l">%s</text>' % (x, y + 4, color, x + 13, y + 13, name))
        x += 30 + int(6.4 * len(name))
    return lines, y + 28


def figure(title, variants, results):
    memory = [(words, [(h["category"], h["bytes"], COLORS[h["category"]]) for h in results[label]["peak_holders"]]) for label, words, _ in variants]
    time = [(words, [(name, results[label]["time"][key], color) for key, name, color in CAUSES] if results[label]["outcome"] == "ok" else [])
            for label, words, _ in variants]
    first, y = bars("GPU memory at the peak", memory, 6, bytes_text)
    second, y = bars("Time of a step", time, y, time_text)
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 %d" font-family="sans-serif" font-size="12" role="img">\n<title>%s</title>\n'
            '<style>text { fill: #1c2128 } .t { font-weight: bold } .l { font-size: 11px }</style>\n<rect width="760" height="%d" fill="#fff"/>\n%s\n</svg>\n'
            % (y, html.escape(title), y, "\n".join(first + second)))


def run(scenario, sets):
    command = [PROGRAM, "run", os.path.join(TOP, scenario), "--json", "--no-advice"]
    for setting in sets:
        command += ["--set", setting]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit("%s\n%s" % (" ".join(command), answer.stderr))
    return json.loads(answer.stdout)


def lesson(path):
    """{file: text} of the lesson whose source is PATH, and its title."""
    name = os.path.splitext(os.path.basename(path))[0]
    with open(path, encoding="utf-8") as file:
        head, prose = file.read().split("\n---\n", 1)
    title, variants = "", []
    for line in head.splitlines():
        key, value = line.split(":", 1)
        if key == "title":
            title = value.strip()
        else:
            label, words, sets = [part.strip() for part in value.split("|")]
            variants.append((label, words, shlex.split(sets)))
    scenario = "scenarios/lessons/%s.yaml" % name
    results = {label: run(scenario, sets) for label, _, sets in variants}
    commands = "\n".join("    zerosim run %s%s" % (scenario, "".join(" --set " + shlex.quote(s) for s in sets)) for _, _, sets in variants)
    text = "# Lesson %d: %s\n\n<!-- made by tests/tools/make-lessons.py from source/%s.md -->\n\n" % (int(name[:2]), title, name)
    prose = prose.replace("@table", table(variants, results)).replace("@figure", "![memory and time](%s.svg)" % name)
    text += fill(prose, results, scenario).rstrip() + "\n\n**Do it.**\n\n" + commands + "\n    zerosim report %s -o page.html\n    zerosim serve %s\n" % (scenario, scenario)
    return {name + ".md": text, name + ".svg": figure(title, variants, results)}, title


UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "B": 1.0, "KiB": 2.0 ** 10, "MiB": 2.0 ** 20, "GiB": 2.0 ** 30}
NUMBER = re.compile(r"(?<![\w.=])([0-9][0-9,]*(?:\.[0-9]+)?)( (?:ns|us|ms|s|B|KiB|MiB|GiB)\b)?")
SHORT = 0.02     # waits below 20 ms say "hardly any", whatever they are


def agree(old, new):
    """Are these the same page, up to numbers that have moved a little?"""
    if NUMBER.sub("#", old) != NUMBER.sub("#", new):
        return False
    for one, other in zip(NUMBER.finditer(old), NUMBER.finditer(new)):
        values = []
        for match in (one, other):
            unit = (match.group(2) or "").strip()
            values.append((float(match.group(1).replace(",", "")) * UNITS.get(unit, 1.0), unit.endswith("s")))
        (a, time), (b, _) = values
        if abs(a - b) > 0.3 * max(a, b) and not (time and max(a, b) < SHORT):
            print("# %s is now %s" % (one.group(0), other.group(0)))
            return False
    return True


def main():
    check = "--check" in sys.argv[1:]
    folder = os.path.join(TOP, "docs", "lessons")
    files, index = {}, ["# Lessons", "", "A scenario each, in `scenarios/lessons`; every number and figure comes from runs of it.", ""]
    for path in sorted(glob.glob(os.path.join(folder, "source", "*.md"))):
        made, title = lesson(path)
        files.update(made)
        name = os.path.basename(path)
        index.append("%d. [%s](%s)" % (int(name[:2]), title, name))
    files["README.md"] = "\n".join(index) + "\n"
    stale = []
    for name, text in files.items():
        path = os.path.join(folder, name)
        if check:
            try:
                with open(path, encoding="utf-8") as file:
                    if name.endswith(".md") and not agree(file.read(), text):
                        stale.append(name)
            except OSError:
                stale.append(name)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    if stale:
        sys.exit("not current: %s; run tests/tools/make-lessons.py" % ", ".join(stale))


main()
