#!/usr/bin/env python3
# fit-collectives.py: makes sim/network/nccl-factors.h from measured collectives.
# SPDX-License-Identifier: MIT
#
#   collectives-measured --rows | fit-collectives.py [--write sim/network/nccl-factors.h]
#
# For each class of link, protocol group and size from 1 MiB: the median over systems of log (measured / base time),
# drawn towards 0 as if one more system had met the base exactly.  Below 1 MiB the base time alone is better than
# any factor made from other systems, so there are none.  Prints the error of every system twice: with the factors
# made from all systems, and with those made without it (leave one out).  A name such as GH200-Alps is one system,
# whatever the number of its configurations.  Leaving out redoes the factors alone: the class rates of nccl-calibrate.c,
# the networks' numbers, PRIOR and WIDTH were chosen with all systems in view, so the true error is somewhat larger.
import math
import sys

CLASSES = ["NVSwitch", "NVLink mesh", "NVLink bridge", "PCIe peer access", "host memory", "InfiniBand, RoCE",
           "Slingshot", "EFA", "TCP", "InfiniBand, RoCE by the host"]
GROUPS = ["LL", "Simple", "NVLS"]
FIRST, STEP, SIZES = 12, 2, 10
LOW, HIGH = 1 / 6.0, 6.0
PRIOR = 2.0          # weight of the base time, in systems
WIDTH = 1.0          # of the window over sizes, in steps
FIRST_FITTED = 4     # 1 MiB
LARGE = 1 << 28      # systems marked "large" are fitted from here on


def place(size):
    return min(max((math.log2(size) - FIRST) / STEP, 0.0), SIZES - 1.0)


def median(values):
    values = sorted(values)
    n = len(values)
    return (values[(n - 1) // 2] + values[n // 2]) / 2 if n else float("nan")


def fit(rows):
    """row of factors -> list of SIZES; from rows (system, factor row, bytes, log ratio)."""
    table = []
    for row in range(len(CLASSES) * len(GROUPS)):
        means = []
        for k in range(SIZES):
            sums = {}
            for system, r, size, ratio in rows:
                weight = max(0.0, 1 - abs(place(size) - k) / WIDTH)
                if r == row and weight > 0:
                    s = sums.setdefault(system, [0.0, 0.0])
                    s[0] += weight * ratio
                    s[1] += weight
            total = sum(min(1.0, s[1]) for s in sums.values())
            means.append(median([s[0] / s[1] for s in sums.values()]) * total / (total + PRIOR) if sums else None)
        known = [k for k in range(SIZES) if means[k] is not None]
        line = []
        for k in range(SIZES):
            if not known:
                line.append(None)
            elif k < FIRST_FITTED:
                line.append(1.0)
            else:
                nearest = min(known, key=lambda q: (abs(q - k), -q))
                line.append(min(max(math.exp(means[nearest]), LOW), HIGH))
        table.append(line)
    # a group without rows takes the class's other groups, a class without rows 1
    for c in range(len(CLASSES)):
        lines = table[c * 3:c * 3 + 3]
        for g in range(3):
            if lines[g][0] is None:
                for other in ((1, 0), (0, 2), (1, 0))[g]:
                    if lines[other][0] is not None:
                        table[c * 3 + g] = list(lines[other])
                        break
                else:
                    table[c * 3 + g] = [1.0] * SIZES
    return table


def factor(table, row, size):
    if row < 0:
        return 1.0
    line = table[row]
    low = int(place(size))
    high = min(low + 1, SIZES - 1)
    part = place(size) - low
    return math.exp(math.log(line[low]) * (1 - part) + math.log(line[high]) * part)


def read(lines):
    """Rows of `collectives-measured --rows` as tuples: number, use, system, GPUs, nodes, bytes, us, base us, row, launches."""
    data = []
    for line in lines:
        f = line.rstrip("\n").split("\t")
        data.append((int(f[0]), f[1], f[2], f[3], f[4], int(f[7]), float(f[8]), float(f[9]) + float(f[10]), int(f[11]),
                     float(f[16])))
    return data


def rows_of(data, skip):
    """What the factors are made from, without the system SKIP."""
    return [(d[2], d[8], d[5], math.log(d[6] / d[7])) for d in data
            if d[2] != skip and d[6] > 0 and (d[1] == "yes" or (d[1] == "large" and d[5] >= LARGE))]


def error(d, factors):
    return abs((d[7] * factor(factors, d[8], d[5]) + d[9]) / (d[6] + d[9]) - 1)


def main():
    data = read(sys.stdin)
    table = fit(rows_of(data, None))
    names = []
    for d in data:
        if d[2] not in names:
            names.append(d[2])
    without = {name: fit(rows_of(data, name)) for name in names}
    large, small, left_large, left_small, by_class = [], [], [], [], {}
    print("%-30s %4s %5s  %9s %9s  %9s %9s" % ("system", "GPUs", "nodes", ">= 1 MiB", "left out", "< 1 MiB", "left out"))
    for number in sorted({d[0] for d in data}):
        mine = [d for d in data if d[0] == number]
        cells = []
        for big in (True, False):
            some = [d for d in mine if (d[5] >= 1 << 20) == big]
            one = median([error(d, table) for d in some])
            two = median([error(d, without[d[2]]) for d in some])
            cells += [one, two]
            if some:
                (large if big else small).append(one)
                (left_large if big else left_small).append(two)
                if big and mine[0][8] >= 0 and mine[0][1] != "test":
                    by_class.setdefault(mine[0][8] // 3, []).append(two)
        print("%-30s %4s %5s " % (mine[0][2], mine[0][3], mine[0][4])
              + " ".join("%9s" % ("-" if math.isnan(c) else "%.1f%%" % (100 * c)) for c in cells))
    for what, one, two in (("from 1 MiB", large, left_large), ("below 1 MiB", small, left_small)):
        print("%s: median %.1f%% (left out %.1f%%), within 30%%: %d (left out %d) of %d"
              % (what, 100 * median(one), 100 * median(two), sum(e <= .3 for e in one), sum(e <= .3 for e in two), len(one)))
    for what, big in (("machines from 1 MiB", True), ("machines below 1 MiB", False)):
        one, two = [], []
        for name in names:
            some = [d for d in data if d[2] == name and (d[5] >= 1 << 20) == big]
            if some:
                one.append(median([error(d, table) for d in some]))
                two.append(median([error(d, without[name]) for d in some]))
        print("%s: median %.1f%% (left out %.1f%%), within 30%%: %d (left out %d) of %d"
              % (what, 100 * median(one), 100 * median(two), sum(e <= .3 for e in one), sum(e <= .3 for e in two), len(one)))
    if len(sys.argv) == 3 and sys.argv[1] == "--write":
        write(sys.argv[2], table, [median(by_class.get(c, [0.3])) for c in range(len(CLASSES))])


def write(path, table, errors):
    out = """/* nccl-factors.h: measured time / base time, by class of link and size.
 * SPDX-License-Identifier: MIT
 *
 * Written by tests/network/fit-collectives.py from tests/data/network/nccl-measured.csv: results of
 * nccl-tests that others published.  Medians over the systems of a class, each counted once, drawn towards
 * 1; a size that no system has takes the nearest.  Three rows a class: LL and LL128, Simple, NVLS. */
#pragma once

#define FACTOR_FIRST_SIZE %d   /* 4 KiB */
#define FACTOR_STEP       %d    /* four times as large */
#define FACTOR_SIZES      %d

static const double FACTORS[][FACTOR_SIZES] = {
  /*4 KiB 16 KiB 64 KiB 256 KiB 1 MiB 4 MiB 16 MiB 64 MiB 256 MiB 1 GiB */
""" % (FIRST, STEP, SIZES)
    for c, name in enumerate(CLASSES):
        for g, group in enumerate(GROUPS):
            out += "  { " + ", ".join("%.2f" % x for x in table[c * 3 + g]) + " },   /* %s: %s */\n" % (name, group)
    out += "};\n\n/* Median error from 1 MiB of systems that the factors were made without, by class. */\n"
    out += "static const double EXPECTED_ERRORS[] = { " + ", ".join("%.2f" % max(e, 0.05) for e in errors) + " };\n"
    with open(path, "w") as file:
        file.write(out)


if __name__ == "__main__":
    main()
