#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fill the validation tables of docs/memory.md from `zerosim validate DIR... --json`.

    zerosim validate tests/published/h200 tests/published/h200-more tests/published/h200-wide --json --quiet \\
      | python3 tests/tools/make-memory-page.py docs/memory.md

The lines between the two markers are replaced: per quantity a summary, then the worst of the cases, worst
first."""
import json
import sys

BEGIN, END = "<!-- made by tests/tools/make-memory-page.py -->", "<!-- end -->"
QUANTITIES = (("outcome", "fits or not"), ("peak_allocated", "peak of allocated bytes"),
              ("peak_reserved", "peak of reserved bytes"),
              ("phase_peak_allocated", "peak of a phase, allocated"),
              ("phase_peak_reserved", "peak of a phase, reserved"),
              ("resident", "allocated after the last step"),
              ("host_pinned_per_rank", "pinned host memory of a rank"))
WORST = 25


def summary(cases):
    rows = ["| quantity | cases | exact | within 0.1 % | within 0.5 % | within 5 % | worst |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for quantity, words in QUANTITIES:
        errors = sorted(abs(c["error"]) for c in cases if c["quantity"] == quantity)
        if errors:
            shares = ["%.1f %%" % (100.0 * sum(e <= limit for e in errors) / len(errors))
                      for limit in (0, 0.001, 0.005, 0.05)]
            rows.append("| %s | %d | %s | %.2f %% |" % (words, len(errors), " | ".join(shares),
                                                     100 * errors[-1]))
    return rows


def worst(cases):
    rows = ["| case | quantity | measured, MiB | predicted, MiB | error |", "| --- | --- | ---: | ---: | ---: |"]
    seen = set()
    bytes_of = [c for c in cases if c["quantity"] in dict(QUANTITIES) and c["quantity"] != "outcome"]
    for case in sorted(bytes_of, key=lambda c: (-abs(c["error"]), c["name"])):
        if (case["name"], case["quantity"]) in seen:
            continue
        seen.add((case["name"], case["quantity"]))
        rows.append("| %s | %s | %.0f | %.0f | %+.2f %% |" % (case["name"], case["quantity"],
                                                           case["measured"] / 1048576.0,
                                                           case["predicted"] / 1048576.0,
                                                           100 * case["error"]))
        if len(seen) == WORST:
            break
    return rows


def main():
    cases = json.load(sys.stdin)["cases"]
    lines = summary(cases) + [""] + worst(cases)
    text = open(sys.argv[1]).read()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    with open(sys.argv[1], "w") as page:
        page.write(head + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + tail)


if __name__ == "__main__":
    main()
