#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copies that change the dtype between GPU and host, and the host's passes over flat buffers.

    python3 tests/measure/offload-copies.py OUTDIR PART SECONDS

Needs torch and one GPU.  Parts, each a fresh process: `ops` (every operation alone, by size), `steps` (an offloaded
step of ZeRO-3 and of ZeRO-2 in the shapes of real models: copies of gradient shards in autograd's thread, then the
passes of the optimizer in the main thread), `gradients` (Adam by the magnitude of what it gets), `share` (one of
several processes that run the passes at once; started by `shares`).  Writes OUTDIR/PART-THREADS.jsonl: microseconds
and minor page faults of each repetition."""
import json, os, resource, subprocess, sys, time
OUT, PART, LIMIT = sys.argv[1], sys.argv[2], float(sys.argv[3])
T0 = time.perf_counter()
left = lambda: LIMIT - (time.perf_counter() - T0)

if PART == "shares":
    for n, threads in ((1, 16), (2, 8), (8, 1), (8, 2), (8, 16), (2, 16), (2, 1)):
        if left() < 6:
            break
        start = time.time() + 4.0 + 0.25 * n
        ps = [subprocess.Popen([sys.executable, __file__, OUT, "share", "20", str(n), str(i), str(start)],
                               env=dict(os.environ, OMP_NUM_THREADS=str(threads), CUDA_VISIBLE_DEVICES="")) for i in range(n)]
        for p in ps:
            p.wait()
        print("shares", n, threads, round(time.perf_counter() - T0, 1), flush=True)
    sys.exit()

import torch
clock = time.perf_counter
THREADS = torch.get_num_threads()
name = f"{PART}-{os.environ.get('OMP_NUM_THREADS', 'default')}"
if PART == "share":
    name += "-" + "-".join(sys.argv[4:6])
log = open(f"{OUT}/{name}.jsonl", "w")

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def put(**row):
    log.write(json.dumps(row) + "\n")
    log.flush()

def measure(what, n, f, seconds=0.3, most=20, least=3, prepare=None, **more):
    us, fl = [], []
    start = clock()
    while len(us) < least or (len(us) < most and clock() - start < seconds):
        if prepare:
            prepare()
        a, t = faults(), clock()
        keep = f()
        t = clock() - t
        us.append(round(t * 1e6, 1)); fl.append(faults() - a)
        del keep
    put(what=what, elements=n, threads=THREADS, us=us, faults=fl, **more)

def run_ops():
    dev = torch.device("cuda")
    sizes = [2048, 8192, 32768, 131072, 524288, 2097152, 5636096, 16777216, 33554432, 154480640, 268435456]
    if THREADS == 1:
        sizes = [8192, 131072, 2097152, 16777216, 154480640]
    most = max(sizes)
    g16 = torch.zeros(most, dtype=torch.bfloat16, device=dev)
    pin = torch.zeros(most, dtype=torch.float32, pin_memory=True)
    half_pin = torch.zeros(most, dtype=torch.bfloat16, pin_memory=True)
    page = torch.zeros(most, dtype=torch.float32)
    half = torch.zeros(most, dtype=torch.bfloat16)
    sync = torch.cuda.synchronize
    sync()
    # alternating sizes: does the temporary keep its pages?
    for pair in ((2097152, 524288), (2097152, 5636096), (16777216, 2097152), (33554432, 2097152)):
        for i in range(6):
            for n in pair:
                measure("d2h bf16->fp32 pinned, blocking, alternating", n, lambda: pin[:n].copy_(g16[:n]), least=1, most=1, pair=pair)
    def synced(f):
        def g():
            x = f(); sync(); return x
        return g
    for n in sizes:
        if left() < 4:
            print("ops: out of time at", n); break
        g, p, hp, w, h = g16[:n], pin[:n], half_pin[:n], page[:n], half[:n]
        sync()
        k = dict(seconds=0.06 if n < 1 << 26 else 0.2, most=12)
        measure("d2h bf16->fp32 pinned, blocking", n, lambda: p.copy_(g), **k)
        measure("d2h bf16->fp32 pinned, non_blocking, synchronised", n, synced(lambda: p.copy_(g, non_blocking=True)), **k)
        measure("d2h bf16->fp32 pageable, blocking", n, lambda: w.copy_(g), **k)
        measure("d2h bf16->bf16 pageable, touched", n, lambda: h.copy_(g), **k)
        measure("d2h bf16->bf16 pageable, fresh", n, lambda: g.cpu(), **k)
        measure("d2h bf16->bf16 pinned", n, synced(lambda: hp.copy_(g, non_blocking=True)), **k)
        measure("h2d fp32 pageable->bf16, blocking", n, lambda: g.copy_(w), **k)
        measure("h2d fp32 pinned->bf16, blocking", n, lambda: g.copy_(p), **k)
        measure("h2d bf16 pageable, touched", n, synced(lambda: g.copy_(h)), **k)
        measure("h2d bf16 pinned", n, synced(lambda: g.copy_(hp, non_blocking=True)), **k)
        measure("h2d fp32 pinned, then cast on the GPU", n, synced(lambda: g.copy_(p.to(dev))), **k)
        measure("cast bf16->fp32 pinned", n, lambda: p.copy_(h), **k)
        measure("cast bf16->fp32 pageable", n, lambda: w.copy_(h), **k)
        measure("cast fp32->bf16 touched", n, lambda: h.copy_(w), **k)
        measure("cast fp32 pageable->bf16 pinned", n, lambda: hp.copy_(w), **k)
        measure("cast fp32->bf16 fresh", n, lambda: w.to(torch.bfloat16), **k)
        measure("cast fp32 pinned->bf16 fresh", n, lambda: p.to(torch.bfloat16), **k)
        measure("mul_ fp32 pinned", n, lambda: p.mul_(1.0), **k)
        measure("mul_ fp32 pageable", n, lambda: w.mul_(1.0), **k)
        measure("mul_ bf16 pageable", n, lambda: h.mul_(1.0), **k)
        measure("add_ fp32 pinned += pageable", n, lambda: p.add_(w), **k)
        measure("fill fp32 fresh", n, lambda: torch.zeros(n), **k)
        measure("copy fp32 pageable->pinned", n, lambda: p.copy_(w), **k)
        measure("copy fp32 pinned->pageable", n, lambda: w.copy_(p), **k)
        if n <= 154480640:
            measure("norm fp32 pinned", n, lambda: p.norm(2), **k)
            measure("isinf and isnan fp32 pageable", n, lambda: (w.isinf().any(), w.isnan().any()), seconds=0.1)
    print("ops", THREADS, round(clock() - T0, 1), flush=True)

def llama(h, f, layers, kv, vocab, tied, world):
    s = lambda n: -(-n // world)
    layer = [s(h * h), s(kv * h), s(kv * h), s(h * h), s(f * h), s(f * h), s(f * h), s(h), s(h)]
    return [s(vocab * h)] * (1 if tied else 2) + layer * layers + [s(h)]

SHAPES = {   # the order does not matter much: in backward the big ones come first and last
    "llama-1b w8": llama(2048, 8192, 16, 512, 128256, True, 8),
    "tinyllama w4": llama(2048, 5632, 22, 256, 32000, False, 4),
    "tiny4 w2": llama(2048, 5632, 4, 2048, 32000, False, 2),
    "llama-7b w8": llama(4096, 11008, 32, 4096, 32000, False, 8),
}

class Hook(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, call):
        ctx.call = call
        return x * 1
    @staticmethod
    def backward(ctx, g):
        ctx.call()
        return g, None

def run_steps():
    dev = torch.device("cuda")
    side = torch.cuda.Stream()
    for name, shards in SHAPES.items():
        total = sum(shards)
        if left() < (19 if total > 4e8 else 8):
            print("steps: no time for", name); continue
        g16 = torch.zeros(total, dtype=torch.bfloat16, device=dev)
        grad = torch.zeros(total, pin_memory=True)
        half_pin = torch.zeros(total, dtype=torch.bfloat16, pin_memory=True)
        master, pinned_master = torch.zeros(total), torch.zeros(total, pin_memory=True)
        cuts, at = [], 0
        for n in reversed(shards):
            cuts.append((at, n)); at += n
        optimizers = []
        for p in (master, pinned_master):
            q = torch.nn.Parameter(p); q.grad = grad
            optimizers.append(torch.optim.AdamW([q], lr=1e-5, fused=True))
        def backward(blocking):
            x = torch.zeros(4, device=dev, requires_grad=True)
            rows = []
            def call():
                with torch.cuda.stream(side):
                    for at, n in cuts:
                        a, t = faults(), clock()
                        grad[at:at + n].copy_(g16[at:at + n], non_blocking=not blocking)
                        rows.append((n, round((clock() - t) * 1e6, 1), faults() - a))
            y = Hook.apply(x, call).sum()
            torch.cuda.synchronize(); t = clock()
            y.backward()
            torch.cuda.synchronize()
            return clock() - t, rows
        def passes(what, list_of):
            ms = {}
            for label, f in list_of:
                torch.cuda.synchronize(); a, t = faults(), clock()
                f()
                torch.cuda.synchronize()
                ms[label] = [round((clock() - t) * 1e3, 2), faults() - a]
            return ms
        scale = ("mul", lambda: grad.mul_(0.999))
        for turn in range(2 if total > 4e8 else 4):
            for kind in ("z3 blocking", "z3 non_blocking", "z2", "z2 staged", "z3 all on the host"):
                s, rows = backward(kind == "z3 blocking")
                if kind.startswith("z3 "):
                    adam = ("adam", optimizers[0].step)
                    if kind == "z3 all on the host":
                        end = [("cast", lambda: half_pin.copy_(master))]
                    else:
                        end = [("cast and h2d", lambda: g16.copy_(master))]
                else:
                    adam = ("adam, pinned master", optimizers[1].step)
                    if kind == "z2":
                        end = [("h2d fp32, cast on the GPU", lambda: g16.copy_(pinned_master.to(dev)))]
                    else:
                        end = [("cast to pinned", lambda: half_pin.copy_(pinned_master)),
                               ("h2d bf16", lambda: g16.copy_(half_pin, non_blocking=True))]
                ms = passes(kind, [scale, adam] + end)
                row = dict(shape=name, elements=total, threads=THREADS, kind=kind, turn=turn, backward_ms=round(s * 1e3, 2), passes=ms)
                if kind == "z3 blocking":
                    by = {}
                    for n, us, f in rows:
                        by.setdefault(n, []).append((us, f))
                    row["by_size"] = {n: [len(v), sorted(x[0] for x in v)[len(v) // 2], round(sum(x[0] for x in v), 1), sum(x[1] for x in v)]
                                      for n, v in by.items()}
                put(**row)
        adam = end = scale = None
        del optimizers, q, p, grad, half_pin, master, pinned_master, g16
        torch.cuda.empty_cache()
        print("steps", name, THREADS, round(clock() - T0, 1), flush=True)

def run_share():
    n_processes, rank, start = int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
    n = 160000000 // n_processes
    p = torch.nn.Parameter(torch.zeros(n)); p.grad = torch.zeros(n)
    half = torch.zeros(n, dtype=torch.bfloat16)
    adam = torch.optim.AdamW([p], lr=1e-5, fused=True)
    adam.step(); p.grad.mul_(1.0); half.copy_(p.data)
    while time.time() < start:
        time.sleep(0.0005)
    t = clock()
    for i in range(6):
        a = clock(); p.grad.mul_(0.999)
        b = clock(); adam.step()
        c = clock(); half.copy_(p.data)
        d = clock()
        put(processes=n_processes, rank=rank, threads=THREADS, elements=n, turn=i, at_ms=round((a - t) * 1e3, 2),
            late_ms=round((time.time() - start) * 1e3, 1), mul_ms=round((b - a) * 1e3, 2), adam_ms=round((c - b) * 1e3, 2),
            cast_ms=round((d - c) * 1e3, 2))

def run_gradients():
    """Of a tied embedding: the larger the logits, the smaller most probabilities, and with them the gradients."""
    dev, vocab, hidden, tokens, n = "cuda", 128256, 2048, 4096, 154476800
    def gradient(sigma):
        torch.manual_seed(0)
        h = torch.randn(tokens, hidden, device=dev, dtype=torch.bfloat16)
        w = (torch.randn(vocab, hidden, device=dev) * (sigma / hidden ** 0.5)).bfloat16()
        logits, y = h @ w.T, torch.randint(vocab, (tokens,), device=dev)
        loss, d = 0.0, torch.empty(tokens, vocab, device=dev, dtype=torch.bfloat16)
        for i in range(0, tokens, 512):
            p = torch.log_softmax(logits[i:i + 512].float(), -1)
            loss -= p.gather(1, y[i:i + 512, None]).sum().item() / tokens
            p = p.exp()
            p[torch.arange(512, device=dev), y[i:i + 512]] -= 1
            d[i:i + 512] = (p / tokens).bfloat16()
        return loss, (d.T @ h).view(-1)[:n].float()
    p = torch.nn.Parameter(torch.randn(n) * 0.02)
    p.grad = torch.zeros(n, pin_memory=True)
    for sigma in (0, 0.9, 48.0, 400.0):
        loss, source = gradient(sigma) if sigma else (None, torch.zeros(n, device=dev))
        a = source.abs()
        share = [round(((a >= low) & (a < high)).float().mean().item(), 4)
                 for low, high in ((0, 1e-45), (1e-45, 1.18e-38), (1.18e-38, 2.6e-23), (2.6e-23, 4.8e-19), (4.8e-19, 1e30))]
        adam = torch.optim.AdamW([p], lr=1e-5, betas=(0.9, 0.95), weight_decay=0.01, fused=True)
        for turn in range(6):
            p.grad.copy_(source, non_blocking=True)
            torch.cuda.synchronize()
            t = clock(); p.grad.mul_(0.3)
            m = clock(); adam.step()
            put(sigma=sigma, loss=loss, share=share, turn=turn, mul_ms=round((m - t) * 1e3, 2), adam_ms=round((clock() - m) * 1e3, 2))

{"ops": run_ops, "steps": run_steps, "gradients": run_gradients, "share": run_share}[PART]()
