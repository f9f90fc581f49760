# SPDX-License-Identifier: MIT
"""Collectives over NCCL: sizes as nccl-tests counts them (all_gather and reduce_scatter: the whole, all
ranks together; the others: what one rank holds), bf16, summed."""
import os
import time

from rows import sizes
from timing import mean_time
from workers import median_of_worst

FULL = "8,64,512,4K,16K,32K,64K:4G:2"
COARSE = "1K,16K,128K,1M,4M,16M,64M,256M,1G"
OPS = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all", "sendrecv")
FORCED = (("Ring", "Simple"), ("Ring", "LL128"), ("Ring", "LL"), ("Tree", "Simple"), ("Tree", "LL128"),
          ("Tree", "LL"))


class Buffers:
    """Two buffers of the largest size, of which every call takes the beginning."""

    def __init__(self, context, largest):
        torch = context.torch
        self.a = torch.empty(largest // 2, dtype=torch.bfloat16, device="cuda")
        self.b = torch.empty(largest // 2, dtype=torch.bfloat16, device="cuda")
        self.a.uniform_(-1, 1)
        self.b.uniform_(-1, 1)


def caller(context, op, nbytes, group, ranks, buffers, in_place=False):
    """A function that does the collective once on the current stream, and the bytes it counts."""
    dist = context.dist
    me = context.rank
    each = max(1, nbytes // 2 // ranks)
    whole = each * ranks if op not in ("all_reduce", "broadcast", "sendrecv") else max(1, nbytes // 2)
    a, b = buffers.a, buffers.b
    if op == "all_gather":
        source = b[me * each:(me + 1) * each] if in_place else a[:each]
        return lambda: dist.all_gather_into_tensor(b[:whole], source, group=group), whole * 2
    if op == "reduce_scatter":
        target = a[me * each:(me + 1) * each] if in_place else b[:each]
        return lambda: dist.reduce_scatter_tensor(target, a[:whole], group=group), whole * 2
    if op == "all_reduce":
        return lambda: dist.all_reduce(a[:whole], group=group), whole * 2
    if op == "broadcast":
        return lambda: dist.broadcast(a[:whole], 0, group=group), whole * 2
    if op == "all_to_all":
        return lambda: dist.all_to_all_single(b[:whole], a[:whole], group=group), whole * 2
    if op == "sendrecv":                       # to the next, from the one before, as nccl-tests does
        def exchange():
            works = dist.batch_isend_irecv([
                dist.P2POp(dist.isend, a[:whole], (me + 1) % ranks, group),
                dist.P2POp(dist.irecv, b[:whole], (me - 1) % ranks, group)])
            for work in works:
                work.wait()
        return exchange, whole * 2
    raise ValueError(op)


def repeats_of(nbytes):
    """Iterations of a repeat, and repeats."""
    if nbytes <= 64 << 20:
        return 20, 3
    return (8, 3) if nbytes <= 512 << 20 else (3, 3)


def measure(context, group, ranks, buffers, ops, all_sizes, in_place=False, **setting):
    member = context.rank < ranks
    for op in ops:
        if ranks == 1 and op == "sendrecv":
            continue
        for nbytes in all_sizes:
            iterations, repeats = repeats_of(nbytes)
            call, counted = caller(context, op, nbytes, group, ranks, buffers, in_place) if member \
                else (None, 0)
            times = mean_time(context, call, iterations, repeats, member=member)
            by_rank = context.gather(times)[:ranks]
            worst = [max(repeat) for repeat in zip(*by_rank)]
            context.emit("collective", ranks=ranks, op=op, bytes=counted, in_place=int(in_place),
                         algorithm=setting.get("algorithm", ""), protocol=setting.get("protocol", ""),
                         ctas=setting.get("ctas", 0), us=round(median_of_worst(by_rank), 3),
                         us_least=round(min(worst), 3), us_most=round(max(worst), 3), iterations=iterations)
        context.say("%s on %d %s" % (op, ranks, setting or ""))


def host_time(context, group, ranks, buffers):
    """What a call costs the host thread, behind a sleeping kernel so that nothing else holds it up."""
    dist, torch, calls = context.dist, context.torch, 100
    each = 4096 // ranks
    for op, call in (
            ("all_gather", lambda later: dist.all_gather_into_tensor(
                buffers.b[:each * ranks], buffers.a[:each], group=group, async_op=later)),
            ("reduce_scatter", lambda later: dist.reduce_scatter_tensor(
                buffers.b[:each], buffers.a[:each * ranks], group=group, async_op=later)),
            ("all_reduce", lambda later: dist.all_reduce(buffers.a[:4096], group=group, async_op=later))):
        for later in (False, True):
            context.meet()
            torch.cuda._sleep(int(2e9 * 0.01))
            before = time.perf_counter()
            for _ in range(calls):
                work = call(later)
                if later:
                    work.wait()
            mine = 1e6 * (time.perf_counter() - before) / calls
            torch.cuda.synchronize()
            by_rank = sorted(row[0] for row in context.gather([mine]))
            context.emit("launch", op=op, asynchronous=int(later), ranks=ranks, us=round(by_rank[0], 2),
                         us_most=round(by_rank[-1], 2))


def group_of(context, ranks, ctas=0):
    """A communicator of its own; it is made by the first collective, under the environment of then."""
    dist = context.dist
    options = None
    if ctas:
        options = dist.ProcessGroupNCCL.Options()
        options.config.max_ctas = ctas
    return dist.new_group(list(range(ranks)), backend="nccl", pg_options=options)


def worlds(context):
    return [n for n in context.options.worlds if n <= context.world] or [context.world]


def chosen(context):
    """What NCCL chooses by itself."""
    context.open(60)
    largest = context.options.largest
    buffers = Buffers(context, largest)
    all_sizes = [n for n in sizes(context.options.sizes) if n <= largest]
    coarse = [n for n in sizes(COARSE) if n <= largest]
    groups = [(ranks, group_of(context, ranks)) for ranks in worlds(context)]
    for ranks, group in groups:
        measure(context, group, ranks, buffers, OPS[:3], all_sizes)
    if groups[0][0] == context.world:
        host_time(context, groups[0][1], context.world, buffers)
    for ranks, group in groups:
        measure(context, group, ranks, buffers, OPS[3:], all_sizes[1::2])
        measure(context, group, ranks, buffers, ("all_gather", "reduce_scatter"), coarse, in_place=True)
    for ranks in range(3, context.world):
        if ranks not in [n for n, _ in groups]:
            measure(context, group_of(context, ranks), ranks, buffers, OPS[:3], coarse)


def forced(context):
    """Each algorithm and protocol by itself, and fewer channels.  NCCL reads NCCL_ALGO and NCCL_PROTO
    when a communicator is made, so one process can hold them all."""
    context.open(60)
    largest = min(context.options.largest, 1 << 30)
    buffers = Buffers(context, largest)
    coarse = [n for n in sizes(COARSE) if n <= largest]
    context.meet()
    for ranks in worlds(context):
        for algorithm, protocol in FORCED:
            os.environ["NCCL_ALGO"], os.environ["NCCL_PROTO"] = algorithm, protocol
            ops = ("all_gather", "reduce_scatter", "all_reduce", "broadcast") if algorithm == "Ring" \
                else ("all_reduce",)
            measure(context, group_of(context, ranks), ranks, buffers, ops, coarse,
                    algorithm=algorithm, protocol=protocol)
        for name in ("NCCL_ALGO", "NCCL_PROTO"):
            os.environ.pop(name, None)
        for ctas in (4, 8, 16):
            measure(context, group_of(context, ranks, ctas), ranks, buffers,
                    ("all_gather", "reduce_scatter", "all_reduce"), coarse[3:], ctas=ctas)
