# SPDX-License-Identifier: MIT
"""Rows of measurements: one JSON object a line, appended as they come, so that a run that is cut off
leaves what was done.  Which half a row belongs to follows from its key alone."""
import csv
import hashlib
import json
import os

# what names a row of a part; everything else in it is a result
KEYS = {
    "collective": ("ranks", "op", "bytes", "in_place", "algorithm", "protocol", "ctas"),
    "contention": ("ranks", "op", "bytes", "ctas", "priority", "beside", "beside_bytes"),
    "copy": ("gpus", "kind", "memory", "bytes"),
    "launch": ("op", "asynchronous"),
    "occupied": ("kernel", "blocks", "mode"),
    "delay": ("kernel", "blocks", "priority"),
    "share": ("kernel", "beside", "priority"),
    "entrance": ("kernel", "blocks", "priority", "phase"),
    "footprint": ("ranks", "moment"),
    "step": ("ranks", "case", "step", "phase"),
}
UNITS = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30}


class Writer:
    """Appends rows to a file; each is one write, so that several processes may share it."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def row(self, part, **values):
        line = json.dumps(dict(part=part, **values), separators=(",", ":")) + "\n"
        os.write(self.fd, line.encode())


def key(row):
    """The words that name a row: `collective ranks=4 op=all_gather ...`."""
    return " ".join([row["part"]] + ["%s=%s" % (name, row.get(name, "")) for name in KEYS[row["part"]]])


def half(row):
    """0: for calibration; 1: only for validation.  A step's rows stay together (one run, one key)."""
    words = key(row)
    if row["part"] == "step":
        words = "step ranks=%s case=%s" % (row["ranks"], row["case"])
    return hashlib.sha256(words.encode()).digest()[0] & 1


def read(paths):
    """Rows of several files in order; of two with one key the later is kept.  A torn last line is left out."""
    found = {}
    for path in paths:
        with open(path) as file:
            for line in file:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if row.get("part") in KEYS:
                    found[key(row)] = row
    return list(found.values())


def write_csv(path, rows):
    """One part's rows as CSV: the half, the key, then the results in the order in which they first occur."""
    columns = ["half"] + list(KEYS[rows[0]["part"]])
    for row in rows:
        columns += [name for name in row if name not in columns and name != "part"]
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            writer.writerow(dict(row, half=("calibrate", "validate")[half(row)]))


def size(text):
    """`64K`, `1G`, `8`: binary units."""
    text = text.strip().upper().removesuffix("IB")
    unit = text[-1] if text and text[-1] in UNITS else ""
    return int(float(text[:len(text) - len(unit)]) * UNITS[unit])


def sizes(text):
    """`8,1K,4M` or `64K:4G:2` (from:to:factor), several of them separated by commas."""
    values = []
    for word in text.split(","):
        if ":" not in word:
            values.append(size(word))
            continue
        first, last, factor = word.split(":")
        value, last = size(first), size(last)
        if int(factor) < 2:
            raise ValueError("%s: the factor must be 2 or more" % word)
        while value <= last:
            values.append(value)
            value *= int(factor)
    return sorted(set(values))
