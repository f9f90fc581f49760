#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write docs/cases.md: public reports, and what zerosim says of them.

    ZEROSIM=./zerosim ZEROSIM_DATADIR=. python3 tests/tools/make-cases.py [--check]

The texts are in tests/docs/cases.json, the scenarios in scenarios/cases; those with numbers that may be compared are in
tests/published/cases once more, with a `measured:` block.  With --check nothing is written: exit status 1 if the page is
not current (but for times and reserved bytes) or a published case is not its scenario."""
import importlib.util
import json
import os
import re
import subprocess
import sys

TOP = os.environ.get("top_srcdir", ".")
PROGRAM = os.environ.get("ZEROSIM", "./zerosim")
FOLDER, PUBLISHED, TEXTS, PAGE = "scenarios/cases", "tests/published/cases", "tests/docs/cases.json", "docs/cases.md"

spec = importlib.util.spec_from_file_location("folklore", os.path.join(TOP, "tests/tools/make-folklore.py"))
folklore = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(folklore)


def call(*arguments):
    return subprocess.run([PROGRAM] + list(arguments), cwd=TOP, capture_output=True, text=True)


def gib(count):
    return "%.2f GiB" % (count / 2 ** 30)


def row(name):
    path = "%s/%s.yaml" % (FOLDER, name)
    link = "[%s](../%s)" % (name, path)
    done = call("run", "--json", path)
    if done.returncode == 1:
        return [link, "does not start", "", "", "", ""]
    result = json.loads(done.stdout)
    peak, device = result["peak_allocated_bytes"], "%.1f GB" % (result["peak_device_bytes"] / 1e9)
    host = "%.0f GB" % ((result["host_pinned_peak_bytes"] + result["host_pageable_peak_bytes"]) / 1e9)
    if result["outcome"] == "oom":
        oom = result["oom"]
        outcome = "out of memory in `%s`: tried %s, %s allocated" % (oom["phase"], gib(oom["tried_bytes"]),
                                                                    gib(oom["allocated_bytes"]))
        return [link, outcome, "", "", "", ""]
    outcome = {"ok": "fits", "host-oom": "the host's memory does not suffice"}[result["outcome"]]
    return [link, outcome, "%.2f GB" % (peak / 1e9), device, host, "%.2f s" % (result["step_time_ps"] / 1e12)]


def findings(name):
    """What check says of the scenario, but for notes."""
    done = call("check", "--json", "%s/%s.yaml" % (FOLDER, name))
    seen = []
    for found in json.loads(done.stdout)["findings"]:
        text = "%s `%s`" % (found["severity"], found["code"])
        if found["severity"] != "info" and text not in seen:
            seen.append(text)
    return seen


def page(texts):
    out = ["# Public reports", "",
           "Fifteen reports from issues, pull requests and documentation, with their files as they were (mistakes kept), and",
           "what `zerosim run` and `zerosim check` say. Written by `tests/tools/make-cases.py`; `make check` holds it against",
           "the program. Where a report leaves something open the scenario says what is taken instead. Try one:", "",
           "```sh", "zerosim run scenarios/cases/04-llama-7b-zero2-v100.yaml",
           "zerosim check scenarios/cases/13-misplaced-offload.yaml", "```", ""]
    for case in texts["cases"]:
        out += ["## %s: %s" % (case["case"], case["title"]), "", "Source: <%s>" % case["source"], "",
                "**Reported.** %s" % case["reported"], "", "**zerosim.** %s" % case["says"], "",
                "| scenario | outcome | allocated at the peak | with cache, CUDA, NCCL | host memory | step |",
                "| --- | --- | --- | --- | --- | --- |"]
        said = []
        for name in case["runs"]:
            out.append("| %s |" % " | ".join(row(name)))
            said += [text for text in findings(name) if text not in said]
        out += ["", "`zerosim check`: %s." % (", ".join(said) if said else "nothing but notes"), ""]
    out += ["## What is not met, and why", "", "| case | reported | reason |", "| --- | --- | --- |"]
    out += ["| %s |" % " | ".join(line) for line in texts["not_met"]]
    return "\n".join(out) + "\n"


def published_differ():
    """A published case is its scenario and a block."""
    bad = []
    for name in sorted(os.listdir(os.path.join(TOP, PUBLISHED))):
        if not name.endswith(".yaml"):
            continue
        with open(os.path.join(TOP, PUBLISHED, name), encoding="utf-8") as file:
            text = file.read().split("\nmeasured:")[0] + "\n"
        with open(os.path.join(TOP, FOLDER, name), encoding="utf-8") as file:
            if re.sub(r"\.\./\.\./\.\./%s/" % FOLDER, "", text) != file.read():
                bad.append(name)
    return bad


def main():
    with open(os.path.join(TOP, TEXTS), encoding="utf-8") as file:
        texts = json.load(file)
    text, path, bad = page(texts), os.path.join(TOP, PAGE), 0
    for name in published_differ():
        print("# %s/%s is not its scenario" % (PUBLISHED, name))
        bad += 1
    if "--check" not in sys.argv[1:]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return 1 if bad else 0
    with open(path, encoding="utf-8") as file:
        old = file.read()
    differ = [(a, b) for a, b in zip(old.split("\n"), text.split("\n")) if not folklore.agree(a, b)]
    if differ or old.count("\n") != text.count("\n"):
        print("# %s is not current; write it again: python3 tests/tools/make-cases.py" % path)
        for a, b in differ[:5]:
            print("#   is:        %s\n#   should be: %s" % (a, b))
        bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
