#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure what zerosim predicts, on the GPUs of this machine: collectives, contention, copies, memory of
communicators, steps of FSDP2.  See README.md beside this file.

    python3 tests/measure/measure.py --output results                  # everything, all GPUs
    python3 tests/measure/measure.py --output results --parts steps --cases 1b-z3 --worlds 2"""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rows        # noqa: E402: beside this file
import workers     # noqa: E402

# part: seconds that it may take at most
PARTS = {"machine": 60, "collectives": 90, "contention": 70, "footprint": 40, "forced": 60, "copies": 50,
         "peers": 25, "occupied": 60, "streams": 45, "steps": 45}
# NVLink multicast stays off; torch asks NVML whether there is CUDA, which leaves a fork possible
SAFE = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", required=True, metavar="DIR", help="where rows.jsonl and logs go")
    parser.add_argument("--parts", default="machine,collectives,contention,footprint,forced,copies,peers,occupied,streams,steps",
                        help="in this order: %(default)s")
    parser.add_argument("--worlds", default="", help="numbers of GPUs, as 4,2 (default: all, half of them ... 2)")
    parser.add_argument("--sizes", default="", help="of collectives, as 8,64K:4G:2 (default: 8 B to 4 GiB)")
    parser.add_argument("--largest", default="4G", type=rows.size, help="largest buffer (default: 4G)")
    parser.add_argument("--cases", default="", help="of steps, as 7b-z3,1b-z2 (default: all)")
    parser.add_argument("--models", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                                                         "models", "llms"), help="folder of the shapes of steps")
    parser.add_argument("--budget", default=0.0, type=float, metavar="SECONDS", help="of everything together")
    parser.add_argument("--gpus", default=0, type=int, help="how many there are (default: ask nvidia-smi)")
    parser.add_argument("--as-rank", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    options.parts = [word for word in options.parts.split(",") if word]
    for part in options.parts:
        if part not in PARTS:
            parser.error("%s is no part: %s" % (part, ", ".join(PARTS)))
    try:
        options.worlds = [int(word) for word in options.worlds.split(",") if word]
        rows.sizes(options.sizes or "8")
    except ValueError as error:
        parser.error(str(error))
    return options


def halvings(gpus):
    """8 -> 8, 4, 2; one GPU measures itself."""
    worlds = []
    while gpus >= 2:
        worlds.append(gpus)
        gpus //= 2
    return worlds or [1]


def jobs(options, folder):
    """One job a set of processes: name, function, ranks, limit, environment."""
    import collectives
    import contention
    import copies
    import footprint
    import occupied
    import steps
    import streams
    most = max(options.worlds)
    for part in options.parts:
        limit = PARTS[part]
        if part in ("collectives", "contention", "forced", "copies"):
            function = {"collectives": collectives.chosen, "contention": contention.run,
                        "forced": collectives.forced, "copies": copies.host_copies}[part]
            yield part, function, most, limit, {}
        elif part in ("occupied", "streams"):
            yield part, (occupied.run if part == "occupied" else streams.run), 1, limit, {}
        elif part == "peers" and most > 1:
            yield part, copies.peer_copies, 1, limit, {}
        elif part == "footprint":
            for world in options.worlds:
                yield "footprint-%d" % world, footprint.run, world, limit, footprint.logged(folder, world)
        elif part == "steps":
            for case in [word for word in options.cases.split(",") if word] or list(steps.CASES):
                for world in options.worlds:   # by value: if time ends, the first cases are whole
                    yield ("%s on %d" % (case, world), lambda context, case=case: steps.run_case(context, case),
                           world, limit, {})


def main(words=None):
    options = arguments(words)
    begin = time.monotonic()
    os.makedirs(options.output, exist_ok=True)
    os.environ.update(SAFE)
    import collectives
    options.sizes = options.sizes or collectives.FULL
    gpus = options.gpus or machine_count()
    options.worlds = [world for world in options.worlds if world <= gpus] or halvings(gpus)
    writer = rows.Writer(os.path.join(options.output, "rows.jsonl"))
    if options.as_rank:
        return one_rank(options, writer)
    text = os.path.join(options.output, "machine.txt")
    import machine
    if "machine" in options.parts:
        machine.describe(text)
    if "steps" in options.parts:
        import transformers.models.llama.modeling_llama   # noqa: F401: before the fork: it takes seconds
        import torch.distributed.fsdp                     # noqa: F401
    import torch                                          # noqa: F401
    if "machine" in options.parts:
        machine.versions(text)
    options.fork = workers.can_fork()
    print("%d GPUs, worlds %s, ready after %.1f s" % (gpus, options.worlds, time.monotonic() - begin)
          + ("" if options.fork else "; new programs instead of forks"), flush=True)
    failures = 0
    for name, function, world, limit, environment in jobs(options, options.output):
        left = options.budget - (time.monotonic() - begin) if options.budget else limit
        if left < 8:
            print("%s: no time left" % name, flush=True)
            failures += 1
            continue
        print("%s on %d, at most %.0f s" % (name, world, min(limit, left)), flush=True)
        before = time.monotonic()
        failed = workers.launch(name, function, world, min(limit, left), writer, options, environment)
        failures += failed is not None
        print("%s: %s, %.1f s" % (name, failed or "done", time.monotonic() - before), flush=True)
    return 1 if failures else 0


def one_rank(options, writer):
    rank, world, store, name = options.as_rank.split(" ", 3)
    for job, function, ranks, _, environment in jobs(options, options.output):
        if job == name and ranks == int(world):
            workers.child(function, workers.Context(int(rank), ranks, store, writer, options), environment)
    return 2


def machine_count():
    import machine
    found = machine.count()
    if not found:
        raise SystemExit("no GPU found; --gpus N says how many there are")
    return found


if __name__ == "__main__":
    sys.exit(main())
