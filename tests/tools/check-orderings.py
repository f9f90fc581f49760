#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Are runs of one table in the right order?  Reads the JSON of `zerosim validate`.

    zerosim validate tests/published/e2e-* --json | python3 tests/tools/check-orderings.py [--list] [--least 0.9]

Pairs of one table (kind) whose measured throughputs differ by more than 5 %: is the faster one predicted to be
faster?  Fails if fewer than --least of all pairs are."""
import argparse
import collections
import itertools
import json
import sys

QUANTITIES = ("tokens_per_second_per_gpu", "samples_per_second", "step_time")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--least", type=float, default=0.9)
    parser.add_argument("--list", action="store_true", help="name the pairs in the wrong order")
    arguments = parser.parse_args()
    tables = collections.defaultdict(list)
    for case in json.load(sys.stdin)["cases"]:
        if case["quantity"] in QUANTITIES:
            tables[case["kind"], case["quantity"]].append(case)
    right = pairs = 0
    for (kind, _), cases in sorted(tables.items()):
        good = n = 0
        for a, b in itertools.combinations(cases, 2):
            low, high = sorted((a, b), key=lambda case: case["measured"])
            if high["measured"] <= 1.05 * low["measured"]:
                continue
            n += 1
            if high["predicted"] > low["predicted"]:
                good += 1
            elif arguments.list:
                print("  %s < %s, predicted %.4g >= %.4g"
                      % (low["name"], high["name"], low["predicted"], high["predicted"]))
        if n > 0:
            print("%-24s %5d of %5d pairs in order (%.1f %%)" % (kind, good, n, 100 * good / n))
        right, pairs = right + good, pairs + n
    share = right / pairs if pairs else 1.0
    print("%-24s %5d of %5d pairs in order (%.1f %%)" % ("all", right, pairs, 100 * share))
    return 0 if share >= arguments.least else 1


if __name__ == "__main__":
    sys.exit(main())
