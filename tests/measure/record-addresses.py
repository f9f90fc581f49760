#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where the driver places device memory: random cuMemAlloc and cuMemFree, with the addresses.

    python3 tests/measure/record-addresses.py OUT.csv [SEED...]

A line per call: seed, call (alloc or free), bytes, address. Each seed runs in a process of its own."""
import ctypes
import random
import subprocess
import sys

MIB = 1 << 20


def main():
    out, seeds = sys.argv[1], [int(seed) for seed in sys.argv[2:]] or list(range(12))
    if len(seeds) > 1:
        for seed in seeds:
            subprocess.run([sys.executable, __file__, out, str(seed)], check=True)
        return
    import torch
    torch.zeros(1, device="cuda")
    cuda = ctypes.CDLL("libcuda.so.1")
    dice = random.Random(seeds[0])
    sizes = [[2, 20], [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 30, 32, 34, 40, 62, 64, 66],
             [20, 32, 64, 86, 128, 250, 500, 1000], [2, 20, 22, 44, 86, 172, 344, 948, 1954]][seeds[0] % 4]
    live = []
    with open(out, "a") as file:
        def alloc(mib):
            address = ctypes.c_uint64()
            if cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib * MIB)) != 0:
                return
            live.append((address.value, mib * MIB))
            file.write("%d,alloc,%d,%d\n" % (seeds[0], mib * MIB, address.value))

        def free(index):
            address, size = live.pop(index)
            cuda.cuMemFree_v2(ctypes.c_uint64(address))
            file.write("%d,free,%d,%d\n" % (seeds[0], size, address))

        for mib in sizes:      # first of all, a few of each in order
            for _ in range(3):
                alloc(mib)
        for _ in range(400):
            total = sum(size for _, size in live)
            if live and (dice.random() < 0.4 or total > 12 << 30):
                free(dice.randrange(len(live)))
            else:
                alloc(dice.choice(sizes))
        while len(live) > 3:   # a flush of all but three, in random order, and again
            free(dice.randrange(len(live)))
        for _ in range(100):
            alloc(dice.choice(sizes))


if __name__ == "__main__":
    main()
