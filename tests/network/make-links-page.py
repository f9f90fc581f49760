#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write docs/links-measured.md: every published system, its error, worst first.

    make links-page                     # from a build folder
    make-links-page.py PROGRAM --check  # is the page current?

PROGRAM is tests/network/collectives-measured.  Reasons of what is missed come from measured-reasons.tsv."""
import importlib.util
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PAGE = os.path.join(TOP, "docs", "links-measured.md")
LARGE = 1 << 20

spec = importlib.util.spec_from_file_location("fit", os.path.join(HERE, "fit-collectives.py"))
fit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fit)


def run(program, *options):
    environment = dict(os.environ, top_srcdir=TOP)
    return subprocess.run([program, *options], env=environment, check=True, stdout=subprocess.PIPE,
                          text=True).stdout.splitlines()


def reasons():
    found = {}
    with open(os.path.join(TOP, "tests", "data", "network", "measured-reasons.tsv")) as file:
        for line in file:
            if line[0] not in "#\n" and not line.startswith("system\t"):
                fields = line.rstrip("\n").split("\t")
                found[tuple(fields[:4])] = fields[4]
    return found


def percent(value):
    return "-" if math.isnan(value) else "%.1f %%" % (100 * value)


def median_of(errors, large):
    return fit.median([abs(e) for size, e in errors if (size >= LARGE) == large])


def summary(values):
    values = [v for v in values if not math.isnan(v)]
    return len(values), fit.median(values), sum(v <= 0.30 for v in values)


def page(program):
    lines = run(program, "--rows")
    data = fit.read(lines)
    why = reasons()
    systems, machines = {}, {}
    for line, d in zip(lines, data):
        f = line.split("\t")
        one = systems.setdefault(d[0], {"key": (f[2], f[3], f[4], f[5]), "errors": [], "data": []})
        one["errors"].append((d[5], float(f[14])))
        one["data"].append(d)
        machines.setdefault(f[2], {"errors": [], "data": []})
        machines[f[2]]["errors"].append((d[5], float(f[14])))
        machines[f[2]]["data"].append(d)
    without = {name: fit.fit(fit.rows_of(data, name)) for name in machines}
    for name, one in list(machines.items()) + [(s["key"][0], s) for s in systems.values()]:
        one["large"], one["small"] = median_of(one["errors"], True), median_of(one["errors"], False)
        one["left"] = fit.median([fit.error(d, without[name]) for d in one["data"] if d[5] >= LARGE])
    n, all_large, within = summary([s["large"] for s in systems.values()])
    _, all_left, _ = summary([s["left"] for s in systems.values()])
    n_small, all_small, within_small = summary([s["small"] for s in systems.values()])
    m, machine_large, machine_within = summary([s["large"] for s in machines.values()])
    _, machine_left, _ = summary([s["left"] for s in machines.values()])

    out = ["# Links: published collectives", "",
           "Made by `make links-page` from every system of `tests/data/network/measured-systems.tsv`: results of nccl-tests that",
           "others published, predicted without a constant of their own. A row is a configuration, its errors the medians over its",
           "rows, worst first. *Left out*: with the factors by class made without any row of that machine (mechanisms and networks",
           "were chosen with all in view, so the truth lies somewhat above). How it works: [links.md](links.md).", "",
           "* From 1 MiB: median %s (left out %s) over %d configurations, %d within 30 %%; %s (%s) over %d machines, %d within 30 %%."
           % (percent(all_large), percent(all_left), n, within, percent(machine_large), percent(machine_left), m, machine_within),
           "* Below 1 MiB: median %s over the %d configurations that have such rows, %d within 30 %%."
           % (percent(all_small), n_small, within_small), "",
           "| system | GPUs | nodes | | from 1 MiB | left out | below 1 MiB | reason, above 30 % |",
           "| --- | ---: | ---: | --- | ---: | ---: | ---: | --- |"]
    for one in sorted(systems.values(), key=lambda s: (-(s["large"] if s["large"] == s["large"] else -1), s["key"])):
        reason = why.get(one["key"], "") if one["large"] > 0.30 else ""
        if one["large"] > 0.30 and not reason:
            sys.exit("measured-reasons.tsv has no reason for %s" % " ".join(one["key"]))
        out.append("| %s | %s | %s | %s | %s | %s | %s | %s |" % (*one["key"], percent(one["large"]), percent(one["left"]),
                                                             percent(one["small"]), reason))

    pairs = {}
    for line in run(program, "--pairs", "--rows"):
        f = line.split("\t")
        pairs.setdefault((f[0], f[1], f[2], f[3], f[4]), []).append((int(f[5]), float(f[8])))
    results = [(key, median_of(errors, True), median_of(errors, False)) for key, errors in pairs.items()]
    n, all_large, within = summary([r[1] for r in results])
    n_small, all_small, _ = summary([r[2] for r in results])
    out += ["", "## All-to-all and send/recv", "",
            "NCCL has no model of these; the schedule is in [links.md](links.md). From 1 MiB: median %s over %d configurations, %d"
            % (percent(all_large), n, within),
            "within 30 %%; below: %s over %d." % (percent(all_small), n_small), "",
            "| system | GPUs | nodes | | collective | from 1 MiB | below 1 MiB | reason, above 30 % |",
            "| --- | ---: | ---: | --- | --- | ---: | ---: | --- |"]
    for key, large, small in sorted(results, key=lambda r: (-r[1], r[0])):
        out.append("| %s | %s | %s | %s | %s | %s | %s | %s |" % (*key, percent(large), percent(small),
                                                             why.get(key[:4], "") if large > 0.30 else ""))
    return "\n".join(line.rstrip() for line in out) + "\n"


def main():
    text = page(sys.argv[1])
    if "--check" not in sys.argv:
        with open(PAGE, "w") as file:
            file.write(text)
        return 0
    with open(PAGE) as file:
        current = file.read()
    if current == text:
        return 0
    for old, new in zip(current.splitlines(), text.splitlines()):
        if old != new:
            print("# docs/links-measured.md is stale (make links-page):\n# - %s\n# + %s" % (old, new))
            break
    return 1


if __name__ == "__main__":
    sys.exit(main())
