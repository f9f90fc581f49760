# SPDX-License-Identifier: MIT
"""Copies between host and GPU, pinned and pageable, of one GPU and of several at once; copies between
GPUs by the copy engines."""
from timing import Work, count_for, together

SIZES = (64 << 10, 1 << 20, 16 << 20, 256 << 20)


def sets_of(world):
    """Which GPUs copy at once: each alone, the first with each other one, halves, all."""
    sets = [(rank,) for rank in range(world)] + [(0, rank) for rank in range(1, world)]
    if world > 2:
        sets += [tuple(range(world // 2)), tuple(range(world))]
    seen = []
    for gpus in sets:
        if gpus not in seen:
            seen.append(gpus)
    return seen


def host_copies(context):
    context.open(60)
    torch = context.torch
    largest = min(SIZES[-1], context.options.largest)
    device = torch.zeros(largest, dtype=torch.uint8, device="cuda")
    source = torch.zeros(largest, dtype=torch.uint8, device="cuda")
    pools = {"pinned": [torch.zeros(largest, dtype=torch.uint8).pin_memory() for _ in range(2)],
             "pageable": [torch.ones(largest, dtype=torch.uint8) for _ in range(2)]}   # touched
    up, down = torch.cuda.Stream(), torch.cuda.Stream()
    context.say("host buffers")
    for gpus in sets_of(context.world):
        member = context.rank in gpus
        for memory, (host, back) in pools.items():
            for nbytes in SIZES:
                if nbytes > largest or skipped(gpus, memory, nbytes, largest, context.world):
                    continue
                to_gpu = Work("h2d", lambda: device[:nbytes].copy_(host[:nbytes], non_blocking=True), up)
                to_host = Work("d2h", lambda: back[:nbytes].copy_(source[:nbytes], non_blocking=True), down)
                kinds = [("h2d", [to_gpu]), ("d2h", [to_host])]
                if memory == "pinned":
                    kinds.append(("both", [to_gpu, to_host]))
                for kind, works in kinds:
                    one(context, gpus, member, kind, memory, nbytes, works)
        context.say("GPUs %s" % "+".join(str(gpu) for gpu in gpus))


def skipped(gpus, memory, nbytes, largest, world):
    """Pageable copies are slow: one GPU and all; several GPUs at once: large copies only."""
    if memory == "pageable":
        return nbytes != largest or (gpus != (0,) and len(gpus) < world)
    return len(gpus) > 1 and nbytes < 16 << 20 and len(gpus) < world


def one(context, gpus, member, kind, memory, nbytes, works):
    counts = [count_for(nbytes, 20e9 if memory == "pinned" else 4e9)] * len(works)
    times = []
    for _ in range(3):
        mine = together(context, works, counts, member)
        by_rank = context.gather(mine)
        times.append([by_rank[gpu] for gpu in gpus])
    middle = sorted(times, key=lambda rows: max(max(row) for row in rows))[len(times) // 2]
    context.emit("copy", gpus="+".join(str(gpu) for gpu in gpus), kind=kind, memory=memory, bytes=nbytes,
                 us=round(max(max(row) for row in middle), 3),
                 us_by_gpu=" ".join("/".join("%.2f" % value for value in row) for row in middle))


def peer_copies(context):
    """One process, every GPU: what cudaMemcpyPeer moves, one way and both."""
    import torch
    context.torch = torch
    context.meet = lambda: [torch.cuda.synchronize(gpu) for gpu in range(n)]
    n = torch.cuda.device_count()
    largest = min(1 << 30, context.options.largest)
    buffers = [torch.zeros(largest, dtype=torch.uint8, device="cuda:%d" % gpu) for gpu in range(n)]
    more = [torch.zeros(largest, dtype=torch.uint8, device="cuda:%d" % gpu) for gpu in range(n)]
    for other in range(1, n):
        for nbytes in (64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30):
            if nbytes > largest:
                continue
            for kind in ("write", "both"):
                times = []
                for _ in range(4):            # the first opens the way
                    times.append(peer(torch, kind, 0, other, nbytes, buffers, more))
                context.emit("copy", gpus="0+%d" % other, kind="peer-" + kind, memory="gpu", bytes=nbytes,
                             us=round(sorted(times[1:])[1], 3))


def peer(torch, kind, a, b, nbytes, buffers, more):
    """Each way on a stream of its source; both begin behind one sleeping kernel."""
    iterations = count_for(nbytes, 300e9)
    streams = [torch.cuda.Stream(device=a), torch.cuda.Stream(device=b)]
    for gpu in (a, b):
        torch.cuda.synchronize(gpu)
    marks = []
    with torch.cuda.device(a), torch.cuda.stream(streams[0]):
        torch.cuda._sleep(int(2e9 * 0.004))
        gate = torch.cuda.Event()
        gate.record()
    ways = [(a, b, streams[0], buffers)] + ([(b, a, streams[1], more)] if kind == "both" else [])
    for source, target, stream, pool in ways:
        with torch.cuda.device(source), torch.cuda.stream(stream):
            stream.wait_event(gate)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(iterations):
                pool[target][:nbytes].copy_(pool[source][:nbytes], non_blocking=True)
            end.record()
            marks.append((start, end))
    for gpu in (a, b):
        torch.cuda.synchronize(gpu)
    return max(start.elapsed_time(end) for start, end in marks) * 1000 / iterations
