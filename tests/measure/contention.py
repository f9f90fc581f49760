# SPDX-License-Identifier: MIT
"""A collective on one stream while copies to the host, or kernels, run on another: how much each slows
the other.  All ranks do the same at the same time."""
from collectives import Buffers, caller, group_of, worlds
from timing import Work, together

COPY_BYTES = 64 << 20
SPAN = 12e3              # microseconds that both should last


def beside_kinds(context):
    """What runs beside the collective: name, bytes, call.  Shapes are those of LLaMA, bf16."""
    torch = context.torch
    half = torch.bfloat16

    def product(rows, inner, columns):
        a = torch.randn(rows, inner, dtype=half, device="cuda")
        b = torch.randn(inner, columns, dtype=half, device="cuda")
        c = torch.empty(rows, columns, dtype=half, device="cuda")
        return lambda: torch.mm(a, b, out=c)

    host = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
    back = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    source = torch.zeros(COPY_BYTES, dtype=torch.uint8, device="cuda")
    x = torch.randn(256 << 20, dtype=half, device="cuda")
    y = torch.empty_like(x)
    q, k, v = (torch.randn(1, 32, 4096, 128, dtype=half, device="cuda") for _ in range(3))
    return [
        ("mm-8192-8192-8192", 0, product(8192, 8192, 8192)),
        ("mm-2048-4096-11008", 0, product(2048, 4096, 11008)),
        ("mm-4096-2048-8192", 0, product(4096, 2048, 8192)),
        ("add-512MiB", 2 * x.nbytes, lambda: torch.add(x, 1.0, out=y)),
        ("sdpa-32x4096x128", 0, lambda: torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True)),
        ("h2d", COPY_BYTES, lambda: device.copy_(host, non_blocking=True)),
        ("d2h", COPY_BYTES, lambda: back.copy_(source, non_blocking=True)),
    ]


def count(span, each):
    return max(4, min(300, int(span / max(each, 1.0)) + 1))


def alone(context, work, ranks, member):
    """Microseconds of one turn by itself, of the slowest rank: first roughly, then over the span.  Ranks
    agree on the number of turns, or their collectives would not pair."""
    times = 0.0
    for span in (0.0, SPAN):
        mine = together(context, [work], [count(span, times)], member)
        times = max(row[0] for row in context.gather(mine)[:ranks])
    return times


def pair(context, group, ranks, buffers, op, nbytes, beside, ctas, priority, seen):
    torch = context.torch
    member = context.rank < ranks
    name, beside_bytes, call = beside
    stream = torch.cuda.Stream(priority=priority)
    other = torch.cuda.Stream()
    collect, counted = caller(context, op, nbytes, group, ranks, buffers) if member else (None, 0)
    a, b = Work(op, collect, stream), Work(name, call, other)
    for work, label in ((a, (ranks, op, nbytes, ctas)), (b, (ranks, name))):
        if label not in seen:                 # the same for all ranks: they walk the same list
            if member:
                for _ in range(2):
                    with torch.cuda.stream(work.stream):
                        work.call()
            seen[label] = alone(context, work, ranks, member)
    alone_a, alone_b = seen[(ranks, op, nbytes, ctas)], seen[(ranks, name)]
    span = max(SPAN, 6 * alone_a, 6 * alone_b)
    mine = together(context, [a, b], [count(span, alone_a), count(span, alone_b)], member)
    by_rank = context.gather(mine)[:ranks]
    context.emit("contention", ranks=ranks, op=op, bytes=counted, ctas=ctas, priority=priority,
                 beside=name, beside_bytes=beside_bytes, us_alone=round(alone_a, 2),
                 us_with=round(max(row[0] for row in by_rank), 2), beside_us_alone=round(alone_b, 2),
                 beside_us_with=round(max(row[1] for row in by_rank), 2),
                 beside_us_with_least=round(min(row[1] for row in by_rank), 2))


def run(context):
    context.open(60)
    largest = min(context.options.largest, 512 << 20)
    small = min(64 << 20, largest)
    buffers = Buffers(context, largest)
    kinds = beside_kinds(context)
    groups = {ranks: group_of(context, ranks) for ranks in worlds(context)}
    seen = {}
    most = max(groups)
    for ranks in sorted(groups, reverse=True):
        for op in ("all_gather", "reduce_scatter", "all_reduce"):
            for nbytes in (largest, small) if ranks == most else (largest,):
                for beside in kinds:
                    pair(context, groups[ranks], ranks, buffers, op, nbytes, beside, 0, 0, seen)
            context.say("%s on %d" % (op, ranks))
    for op in ("all_gather", "reduce_scatter"):
        for beside in kinds[:5]:
            pair(context, groups[most], most, buffers, op, largest, beside, 0, -1, seen)
    for ctas in (4, 8, 16):
        group = group_of(context, most, ctas)
        for op in ("all_gather", "reduce_scatter"):
            for beside in kinds[:6]:
                pair(context, group, most, buffers, op, largest, beside, ctas, 0, seen)
        context.say("%d channels" % ctas)
