#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write what tests/measure measured on H200 as cases: tests/published/h200-multi, or h200-one.

    python3 tests/tools/make-published-h200-multi.py rows.jsonl...     # new measurements: the CSV files, then the cases
    python3 tests/tools/make-published-h200-multi.py --one rows.jsonl...   # those of one GPU alone
    python3 tests/tools/make-published-h200-multi.py                   # the cases from the CSV files
    python3 tests/tools/make-published-h200-multi.py --predict ./zerosim [--all] > predicted.csv

from the top of the source tree.  Half of the rows of several GPUs, by the hash of their keys, may be calibrated to;
`zerosim validate` sees the other half only (--predict --all: both)."""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "measure"))
import rows as measured   # noqa: E402

PUBLISHED = "tests/published"
OPS = {"sendrecv": "send_recv"}
STEP_PHASES = ("forward", "backward", "optimizer")


def cluster(ranks, environment):
    lines = ["cluster:", "  gpu: h200-sxm-141gb", "  gpu_memory: 150109880320 B", "  gpus_per_node: %d" % ranks,
             "  nodes: 1", "  fabric: nvswitch",
             "  host: {cpu: intel, cores: %d, speed: 1.0}" % (16 * ranks)]
    words = dict({"NCCL_NVLS_ENABLE": "0"}, **environment)
    return lines + ["  environment: {%s}" % ", ".join('%s: "%s"' % pair for pair in sorted(words.items()))]


def source(part, ranks):
    return "  source: %s, %s.csv" % ("one H200" if int(ranks) == 1 else "%s H200 of one host" % ranks, part)


def environment_of(row):
    environment = {}
    if row.get("algorithm"):
        environment["NCCL_ALGO"] = row["algorithm"]
        environment["NCCL_PROTO"] = row["protocol"]
    if int(row.get("ctas") or 0):
        environment["NCCL_MAX_CTAS"] = str(row["ctas"])
    return environment


def grouped(some, name):
    groups = {}
    for row in some:
        groups.setdefault(name(row), []).append(row)
    return sorted(groups.items())


def collectives(part):
    """One case for each number of GPUs and each way in which NCCL was bound."""
    def name(row):
        words = [row["op"], "x%s" % row["ranks"]]
        if row["algorithm"]:
            words += [row["algorithm"].lower(), row["protocol"].lower()]
        if int(row["ctas"]):
            words.append("ctas%s" % row["ctas"])
        return "-".join(words)
    for case, some in grouped([row for row in part if not int(row["in_place"])], name):
        lines = ["measured:", "  collectives:"]
        for row in sorted(some, key=lambda row: int(row["bytes"])):
            lines.append("    - {op: %s, bytes: %s B, time: %s us}"
                         % (OPS.get(row["op"], row["op"]), row["bytes"], row["us"]))
        bound = "forced" if some[0]["algorithm"] or int(some[0]["ctas"]) else "collectives"
        yield bound, case, cluster(int(some[0]["ranks"]), environment_of(some[0])) + lines \
            + [source("collective", some[0]["ranks"])]


def beside(row):
    kind, _, shape = row["beside"].partition("-")
    if kind == "mm":                                   # rows x inner x columns
        m, k, n = shape.split("-")
        return "beside: matmul, m: %s, n: %s, k: %s" % (m, n, k)
    if kind == "sdpa":                                 # heads x sequence x head_dim
        return "beside: attention, m: %s, n: %s, k: %s" % tuple(shape.split("x"))
    return "beside: %s, beside_bytes: %s B" % ("elementwise" if kind == "add" else kind, row["beside_bytes"])


def contention(part):
    def name(row):
        return "x%s%s-%s%s" % (row["ranks"], "-ctas%s" % row["ctas"] if int(row["ctas"]) else "", row["op"],
                               "-high" if int(row["priority"]) else "")
    for case, some in grouped([row for row in part if row["op"] not in ("h2d", "d2h")], name):
        lines = ["measured:", "  collectives:"]
        for row in some:
            lines.append("    - {op: %s, bytes: %s B, %s, slowdown: %.4f, beside_slowdown: %.4f}"
                         % (row["op"], row["bytes"], beside(row), float(row["us_with"]) / float(row["us_alone"]),
                            float(row["beside_us_with"]) / float(row["beside_us_alone"])))
        yield "contention", case, cluster(int(some[0]["ranks"]), environment_of(some[0])) + lines \
            + [source("contention", some[0]["ranks"])]


def copies(part):
    some = [row for row in part if row["kind"] in ("h2d", "d2h", "both")]
    most = 1 + max((int(gpu) for row in some for gpu in row["gpus"].split("+")), default=0)
    for case, few in grouped(some, lambda row: "%s-gpus%s" % (row["memory"], row["gpus"].replace("+", ""))):
        lines = ["measured:", "  copies:"]
        for row in few:
            lines.append("    - {kind: %s, bytes: %s B, gpus: [%s], pinned: %s, time: %s us}"
                         % (row["kind"], row["bytes"], row["gpus"].replace("+", ", "),
                            "true" if row["memory"] == "pinned" else "false", row["us"]))
        yield "copies", case, cluster(most, {}) + lines + [source("copy", most)]


def steps(part):
    """Memory of the synchronised steps, times of the synchronised ones; and the free ones as a step's time."""
    for case, some in grouped(part, lambda row: "%s-x%s" % (row["case"], row["ranks"])):
        first = some[0]
        numbered = {}
        for row in some:
            if row["step"].isdigit() and row["phase"] in STEP_PHASES:
                numbered.setdefault(int(row["step"]), []).append(row)
        if not numbered:
            continue
        last = max(numbered)
        timed = {(row["step"], row["phase"]): row["ms"] for row in some if row["ms"]}
        for free in (False, True):
            lines = ["model: %s" % first["model"]] + cluster(int(first["ranks"]), {}) + [
                "training:", "  framework: fsdp2", '  torch_version: "2.11"', '  transformers_version: "5.17"',
                "  micro_batch: %s" % first["micro_batch"], "  sequence_length: %s" % first["sequence"],
                "  dtype: bf16", "  attention: sdpa",
                "  checkpointing: %s" % ("full" if int(first["checkpointing"]) else "none"), "  reentrant: false",
                "  optimizer: {name: adamw, implementation: fused}", "  gradient_clipping: %s" % first["clip"],
                "  fsdp: {reshard_after_forward: %s, param_dtype: bf16, reduce_dtype: fp32, cpu_offload: false}"
                % ("true" if int(first["reshard"]) else "false"), "  zero_init: true", "  omp_threads: 1",
                "  synchronize_phases: %s" % ("false" if free else "true"),
                "  steps: %d" % (3 if free else last), "measured:", "  outcome: fits", "  rank: 0"]
            if free:
                if ("free", "all") in timed:
                    yield "steps", case + "-free", lines + ["  step_time: %s ms" % timed["free", "all"],
                                                               source("step", first["ranks"])]
                continue
            whole = [row for step in numbered.values() for row in step]
            lines += ["  peak_allocated: %d B" % max(int(row["peak_allocated"]) for row in whole),
                      "  peak_reserved: %d B" % max(int(row["peak_reserved"]) for row in whole), "  phases:"]
            for step, phases in sorted(numbered.items()):
                for row in phases:
                    lines.append("    - {step: %d, phase: %s, peak_allocated: %s B, peak_reserved: %s B, "
                                 "end_allocated: %s B}" % (step, row["phase"], row["peak_allocated"],
                                                           row["peak_reserved"], row["end_allocated"]))
            for phase in STEP_PHASES:
                if ("synchronised", phase) in timed:
                    lines.append("    - {step: %d, phase: %s, %stime: %s ms}"
                                 % (last, phase, "" if phase == "optimizer" else "micro_step: 0, ",
                                    timed["synchronised", phase]))
            yield "steps", case, lines + [source("step", first["ranks"])]


PARTS = {"collective": collectives, "contention": contention, "copy": copies, "step": steps}


def write_cases(name, out, both):
    """Of PUBLISHED/NAME: each kind in a folder of its own in OUT, which is what `validate` calls a kind."""
    n = 0
    for part, cases in PARTS.items():
        path = os.path.join(PUBLISHED, name, part + ".csv")
        if not os.path.exists(path):
            continue
        with open(path, newline="") as file:
            some = [row for row in csv.DictReader(file) if both or row["half"] == "validate"]
        for kind, case, lines in cases(some):
            folder = os.path.join(out, "%s-%s" % (name, kind))
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, re.sub(r"[^A-Za-z0-9_.-]", "_", case) + ".yaml"), "w") as file:
                file.write("\n".join(["# Written by tests/tools/make-published-h200-multi.py from %s.csv." % part,
                                      "name: %s" % json.dumps(case)] + lines) + "\n")
            n += 1
    return n


def renew(name):
    """All cases of PUBLISHED/NAME anew; of one GPU there is nothing that is calibrated to."""
    out = os.path.join(PUBLISHED, name)
    for folder in os.listdir(out):
        if folder.startswith(name + "-"):
            shutil.rmtree(os.path.join(out, folder))
    print("%s: %d cases" % (name, write_cases(name, out, name == "h200-one")))


def predict(zerosim, both):
    """What ZEROSIM says of every row, as CSV."""
    with tempfile.TemporaryDirectory() as folder:
        write_cases("h200-multi", folder, both)
        done = subprocess.run([zerosim, "validate", folder, "--json", "--quiet", "--jobs", "2"],
                              stdout=subprocess.PIPE, check=False)
    data = json.loads(done.stdout)
    for failure in data["failures"]:
        sys.stderr.write(failure + "\n")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["kind", "case", "quantity", "detail", "predicted"])
    for case in data["cases"]:
        writer.writerow([case["kind"], case["name"], case["quantity"], case.get("detail", ""),
                         "%.6g" % case["predicted"]])


def main():
    words = sys.argv[1:]
    if words and words[0] == "--predict":
        return predict(words[1], "--all" in words)
    one = words[:1] == ["--one"]
    if words[one:]:
        out = os.path.join(PUBLISHED, "h200-one" if one else "h200-multi")
        parts = {}
        for row in measured.read(words[one:]):
            parts.setdefault(row["part"], []).append(row)
        for part, some in parts.items():
            if one and part in ("collective", "contention"):   # of one rank: copies
                some = [row for row in some if row["op"] in ("h2d", "d2h")]
            if some:
                measured.write_csv(os.path.join(out, part + ".csv"), some)
    for name in ("h200-one", "h200-multi"):
        renew(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
