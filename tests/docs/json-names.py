# json-names.py: docs/json.md names what the commands print, no more and no less; prints TAP.  SPDX-License-Identifier: MIT
import json
import os
import re
import subprocess

TOP = os.environ["top_srcdir"]
SMALL = ["--set", "model.layers=2"]
TOPO = os.path.join(TOP, "tests/data/network/topo/06-3x-a6000-one-bridge.txt")
# what is printed, by command; names of a person's own (settings, files to paste) are not looked into
COMMANDS = {
    "run": [["zero3", *SMALL], ["zero3", "--gpus", "8xA100-80G"], ["zero3"]],
    "compare": [["zero2", "zero3", *SMALL]],
    "advise": [["lora", *SMALL, "--seq", "256"]],
    "sweep": [["zero3", *SMALL, "--vary", "stage=2,3"]],
    "check": [[os.path.join(TOP, "scenarios/zero3.yaml"), "--world", "2"], ["-"]],
    "collective": [["all_gather", "--gpus", "8xA100-80G", "--sizes", "1M"]],
    "topology": [[TOPO]],
    "validate": [[os.path.join(TOP, "tests/published/h200/c1b_plain.yaml")]],
    "explain": [["zero3", *SMALL]],
    "list": [[]],
}
CLOSED = {"set", "settings", "ds_config", "accelerate", "training_arguments", "environment", "summary", "result", "front",
          "faster_but_thin", "hardware", "axes", "gpus", "models", "instances", "fabrics", "networks", "scenarios"}


def walk(value, path, names):
    if isinstance(value, list):
        for item in value:
            walk(item, path, names)
    elif isinstance(value, dict):
        for key, item in value.items():
            here = path + "." + key if path else key
            names.add(here)
            if key not in CLOSED:
                walk(item, here, names)


def printed(command, runs):
    names = set()
    for arguments in runs:
        answer = subprocess.run([os.environ["ZEROSIM"], command, *arguments, "--json"], capture_output=True, text=True,
                                input='{"zero_optimization": {"stage": 3}, "x": 1}')
        walk(json.loads(answer.stdout), "", names)
    return names


def described():
    names, command = {}, None
    for line in open(os.path.join(TOP, "docs/json.md"), encoding="utf-8"):
        if line.startswith("## "):
            command = line[3:].strip()
            names[command] = set()
        elif line.startswith("| `"):
            names[command] |= set(re.findall(r"`([^`]+)`", line.split("|")[1]))
    return names


os.environ["ZEROSIM_DATADIR"] = TOP
pages = described()
print("1..%d" % len(COMMANDS))
for number, (command, runs) in enumerate(COMMANDS.items(), 1):
    there, said = printed(command, runs), pages[command]
    if command == "advise":     # the names inside the three answers are said once, with a dot before them
        there = {re.sub(r"^(smallest_change|fastest|nearly_as_fast)\.", ".", name) for name in there}
    if command == "sweep":      # the columns of the CSV have a page
        there = {name for name in there if not name.startswith("rows.") or name == "rows.configuration"}
    # what holds others is said by them
    whole = {name.rpartition(".")[0] for name in said} | {name.split(".")[0] for name in said}
    missing, silent = said - there, there - said - whole
    print("%s %d - the JSON of %s is as docs/json.md says" % ("not ok" if missing or silent else "ok", number, command))
    for what, names in (("not printed", missing), ("not described", silent)):
        if names:
            print("# %s: %s" % (what, ", ".join(sorted(names))))
