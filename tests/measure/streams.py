# SPDX-License-Identifier: MIT
"""Kernels of two streams on one GPU, as frameworks issue them: something on another stream waits for an
event of the compute stream, whose next kernels are queued already.  How much longer the compute stream
takes for it, and how long a collective's blocks wait for their SMs after the event.

Needs CuPy for the second; without it the first is measured alone."""

MAIN = ("mm-1024-8192-28672", "mm-1024-8192-8192", "mm-2048-4096-4096", "mm-2048-4096-11008",
        "mm-2048-11008-4096", "mm-8192-4096-4096", "mm-8192-8192-8192", "sdpa-32x4096x128",
        "sdpa-backward-32x4096x128", "add-512MiB", "add-32MiB")
SIDE = ("copy-512MiB", "copy-128MiB", "copy-32MiB", "copy-8MiB", "cast-64Mi", "scale-256MiB")
SPAN_US = 6000.0


def kernels(torch):
    half = torch.bfloat16
    some = {}
    for name in MAIN:
        if name.startswith("mm"):
            rows, inner, columns = (int(word) for word in name.split("-")[1:])
            a = torch.randn(rows, inner, dtype=half, device="cuda")
            b = torch.randn(columns, inner, dtype=half, device="cuda")
            out = torch.empty(rows, columns, dtype=half, device="cuda")
            some[name] = lambda a=a, b=b, out=out: torch.mm(a, b.t(), out=out)
    x = torch.randn(256 << 20, dtype=half, device="cuda")
    y, wide = torch.empty_like(x), torch.empty(64 << 20, dtype=torch.float32, device="cuda")
    some["add-512MiB"] = lambda: torch.add(x, 1.0, out=y)
    some["add-32MiB"] = lambda: torch.add(x[:16 << 20], 1.0, out=y[:16 << 20])
    q, k, v = (torch.randn(1, 32, 4096, 128, dtype=half, device="cuda", requires_grad=True) for _ in range(3))
    some["sdpa-32x4096x128"] = lambda: torch.nn.functional.scaled_dot_product_attention(
        q.detach(), k.detach(), v.detach(), is_causal=True)
    result = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    grad = torch.randn_like(result)
    some["sdpa-backward-32x4096x128"] = lambda: torch.autograd.grad(result, (q, k, v), grad, retain_graph=True)
    u, w = torch.randn(256 << 20, dtype=half, device="cuda"), torch.empty(256 << 20, dtype=half, device="cuda")
    for mib in (512, 128, 32, 8):
        n = mib << 19
        some["copy-%dMiB" % mib] = lambda n=n: w[:n].copy_(u[:n])
    some["cast-64Mi"] = lambda: w[:64 << 20].copy_(wide)
    some["scale-256MiB"] = lambda: w[:128 << 20].mul_(0.5)
    return some


def alone(torch, call):
    """Microseconds of one turn, back to back."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for turns in (5, 20, 20, 20):
        torch.cuda.synchronize()
        torch.cuda._sleep(int(2e9 * (0.0005 + 30e-6 * turns)))
        start.record()
        for _ in range(turns):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000 / turns)
    return sorted(times[1:])[1]


def together(torch, main, side, turns, every, priority):
    """The compute stream does `turns`, and from after each `every`-th one turn of SIDE runs on another."""
    ours, theirs = torch.cuda.Stream(), torch.cuda.Stream(priority=priority)
    start, end, late = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    torch.cuda.synchronize()
    with torch.cuda.stream(ours):
        torch.cuda._sleep(int(2e9 * (0.0005 + 60e-6 * turns)))
        start.record(ours)
    sides = 0
    for turn in range(turns):
        with torch.cuda.stream(ours):
            main()
        if side is not None and turn % every == every - 1 and turn + every < turns:
            event = torch.cuda.Event()
            event.record(ours)
            theirs.wait_event(event)
            with torch.cuda.stream(theirs):
                side()
            sides += 1
    with torch.cuda.stream(ours):
        end.record(ours)
    late.record(theirs)
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1000, sides


def share(context):
    """How much of a side kernel's own time the compute stream loses by it."""
    torch = context.torch
    some = kernels(torch)
    times = {name: alone(torch, call) for name, call in some.items()}
    for name in MAIN:
        turns = max(9, min(120, int(SPAN_US / times[name])))
        for other in SIDE:
            every = max(1, int(3 * times[other] / times[name]), turns // 12)
            if 2 * every >= turns:
                continue
            for priority in (0, -1):
                plain = sorted(together(torch, some[name], None, turns, every, priority)[0] for _ in range(3))[1]
                both = sorted(together(torch, some[name], some[other], turns, every, priority) for _ in range(3))[1]
                context.emit("share", kernel=name, beside=other, priority=priority, us_alone=round(times[name], 2),
                             beside_us_alone=round(times[other], 2), turns=turns, sides=both[1], us_plain=round(plain, 1),
                             us_with=round(both[0], 1),
                             lost=round((both[0] - plain) / (both[1] * times[other]), 3))
    return some, times


def entrance(context, some, times):
    """From an event on the compute stream to the first and the last of 24 blocks, the next kernels being
    queued already; and from somewhere within a kernel, for phases of a kernel's time."""
    from occupied import Occupier
    torch = context.torch
    try:
        occupier = Occupier(context)
    except ImportError as error:
        context.say("left out: %s" % error)
        return
    for name in MAIN:
        turns = max(8, min(100, int(4000 / times[name])))
        for priority in (0, -1):
            for phase in (0.0, 0.3, 0.6):
                delays = sorted(enter(torch, occupier, some[name], turns, priority, phase * times[name])
                                for _ in range(5))
                context.emit("entrance", kernel=name, blocks=24, priority=priority, phase=phase,
                             us_alone=round(times[name], 2), us_first=round(delays[2][0], 2),
                             us_last=round(delays[2][1], 2), us_most=round(delays[-1][1], 2))


def enter(torch, occupier, call, turns, priority, later_us):
    ours, theirs = torch.cuda.Stream(), torch.cuda.Stream(priority=priority)
    torch.cuda.synchronize()
    with torch.cuda.stream(ours):
        torch.cuda._sleep(int(2e9 * (0.0005 + 60e-6 * turns)))
        for _ in range(3):
            call()
    event = torch.cuda.Event()
    event.record(ours)
    theirs.wait_event(event)
    occupier.wait(theirs, later_us * 1e-6)      # one thread finds room anywhere; it notes when it is over
    occupier.launch(theirs, 24, 0.1, "spin")
    with torch.cuda.stream(ours):
        for _ in range(turns - 3):
            call()
    torch.cuda.synchronize()
    first, last, _, _ = occupier.read(24)
    ready = occupier.out.tolist()[-1]
    return (first - ready) / 1000.0, (last - ready) / 1000.0


def run(context):
    context.open(60)
    some, times = share(context)
    context.say("shares")
    entrance(context, some, times)
    context.say("entrances")
