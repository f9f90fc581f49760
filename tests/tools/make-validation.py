#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write docs/validation.md from `zerosim validate tests/published --json`.

    make validation-page            # from a build folder

Worst cases first; per kind (folder of tests/published) and quantity the errors in summary."""
import csv
import json
import os
import sys

UNITS = {"phase_time": (1e9, "ms"), "step_time": (1e9, "ms"), "tokens_per_second_per_gpu": (1, "tokens/s"),
         "samples_per_second": (1, "samples/s"), "outcome": (1, ""), "collective_time": (1e6, "us"),
         "copy_time": (1e6, "us"), "collective_slowdown": (1, "x"), "beside_slowdown": (1, "x")}
CLAIMS = (
    ("outcome", "does it fit"),
    ("peak_allocated", "peak of allocated bytes in training"),
    ("peak_reserved", "peak of reserved bytes in training"),
    ("peak_device", "peak on the GPU with CUDA and NCCL"),
    ("phase_peak_allocated", "the same of each phase of the last step"),
    ("phase_peak_reserved", "the same, reserved"),
    ("resident", "allocated after the last step"),
    ("host_pinned_per_rank", "pinned host memory of a rank"),
    ("oom_tried", "\"Tried to allocate\" of the message"),
    ("oom_allocated", "allocated when it failed"),
    ("oom_reserved", "reserved when it failed"),
    ("phase_time", "time of a phase"),
    ("step_time", "time of a step"),
    ("tokens_per_second_per_gpu", "throughput"),
    ("samples_per_second", "throughput"),
    ("collective_time", "time of a collective alone"),
    ("collective_slowdown", "a collective beside other work, against alone"),
    ("beside_slowdown", "that work beside the collective, against alone"),
    ("copy_time", "copies between host and GPUs, several at once"),
)
BEFORE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "published", "h200-multi",
                      "predicted-before.csv")


def show(quantity, value):
    if quantity == "outcome":
        return ("fits", "oom", "host-oom")[int(value)]
    scale, unit = UNITS.get(quantity, (1048576.0, "MiB"))
    return "%.2f %s" % (value / scale, unit)


def quantile(errors, q):
    return errors[min(len(errors) - 1, int(q * len(errors)))]


def before_and_now(cases):
    """Cases that were predicted before anyone could look at a measurement: the errors of then and of now."""
    with open(BEFORE, newline="") as file:
        then = {(row["kind"], row["case"], row["quantity"], row["detail"]): float(row["predicted"])
                for row in csv.DictReader(file)}
    errors = {}
    for case in cases:
        predicted = then.get((case["kind"], case["name"], case["quantity"], case.get("detail", "")))
        if predicted is None or case["quantity"] == "outcome" or not case["measured"]:
            continue
        errors.setdefault((case["kind"], case["quantity"]), []).append(
            (abs(predicted / case["measured"] - 1), abs(case["error"])))
    if not errors:
        return []
    out = ["", "## Predicted before it was measured", "",
           "Several H200: rows that nothing was calibrated to. *Before* is what `predicted-before.csv` says, written down before the",
           "first measurement; *now* is this version.", "",
           "| kind | quantity | n | median before | 90 % before | median now | 90 % now |",
           "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for (kind, quantity), pairs in sorted(errors.items()):
        columns = [sorted(pair[k] for pair in pairs) for k in (0, 1)]
        out.append("| %s | `%s` | %d | %s |" % (kind, quantity, len(pairs), " | ".join(
            "%.2f %%" % (100 * quantile(column, q)) for column in columns for q in (0.5, 0.9))))
    return out


def main():
    data = json.load(sys.stdin)
    cases = data["cases"]
    out = ["# Validation", "",
           "Made by `make validation-page` from every case of `tests/published` (`make validate` prints the same). A case is a",
           "scenario with measured numbers; where they come from stands in its last line. Errors are predicted / measured - 1;",
           "no constant was fitted to a case; mechanisms were found with these runs in view, so they are no blind test.", "", "## Summary", ""]
    kinds = sorted({c["kind"] for c in cases})
    out += ["| kind | quantity | n | median | 90 % | worst | within 0.5 % | within 2 % | within 12 % | within 25 % |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for kind in kinds:
        for quantity, words in CLAIMS:
            errors = sorted(abs(c["error"]) for c in cases
                            if c["kind"] == kind and c["quantity"] == quantity)
            if not errors:
                continue
            shares = ["%.1f %%" % (100.0 * sum(e <= limit for e in errors) / len(errors))
                      for limit in (0.005, 0.02, 0.12, 0.25)]
            out.append("| %s | %s (`%s`) | %d | %.2f %% | %.2f %% | %.2f %% | %s |" % (
                kind, words, quantity, len(errors), 100 * quantile(errors, 0.5),
                100 * quantile(errors, 0.9), 100 * errors[-1], " | ".join(shares)))
    out += before_and_now(cases)
    out += ["", "Collectives alone, every published system with its error, worst first: [links-measured.md](links-measured.md).",
            "", "## Worst cases", ""]
    for kind in kinds:
        rows = sorted((c for c in cases if c["kind"] == kind and c["error"] != 0),
                      key=lambda c: (-abs(c["error"]), c["name"], c["quantity"], c.get("detail", "")))
        if not rows:
            continue
        exact = [r for r in rows if not any(word in r["quantity"] for word in ("time", "per_second", "slowdown"))]
        timed = [r for r in rows if r not in exact]
        out += ["### %s" % kind, ""]
        for title, some in (("bytes and verdicts", exact[:15]), ("times", timed[:15])):
            if not some:
                continue
            out += ["| %s: case | quantity | measured | predicted | error |" % title,
                    "| --- | --- | ---: | ---: | ---: |"]
            for row in some:
                out.append("| %s | %s %s | %s | %s | %+.2f %% |" % (
                    row["name"], row["quantity"], row.get("detail", ""),
                    show(row["quantity"], row["measured"]), show(row["quantity"], row["predicted"]),
                    100 * row["error"]))
            out.append("")
    if data["failures"]:
        out += ["## Could not be run", ""] + ["- %s" % f.strip() for f in data["failures"]]
    print("\n".join(line.rstrip() for line in out).rstrip())


if __name__ == "__main__":
    sys.exit(main())
