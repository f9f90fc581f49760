# SPDX-License-Identifier: MIT
"""Clock and power of one GPU: of classes of kernels, over time, and in steady training steps.

    python3 tests/measure/power.py OUTDIR [SECONDS [PART...]]

Needs torch and transformers on a machine with a GPU; some two and a half minutes.  The clock is read off
torch.cuda._sleep (), a kernel that spins a given number of cycles; the power off the driver's energy counter.

`kinds`: each kernel in a loop of half a second (time, clock, watts), and a few turns of it after idling and after
a tenth of a second of products: does its time follow the clock?  `ramp`: the clock after a start of products and
after they end.  `steps`: 2.5 s of training steps without a pause, two of them under the profiler (CUDA only), with
a spinning kernel before each layer, forward and backward.  Writes OUTDIR/kinds.jsonl, ramp.jsonl, steps.jsonl,
NAME.kernels.json.gz, samples.csv."""
import ctypes, gc, gzip, json, os, subprocess, sys, threading, time
T0 = time.perf_counter()
OUT = sys.argv[1]
LIMIT = float(sys.argv[2]) if len(sys.argv) > 2 else 145.0
PARTS = sys.argv[3:] or ["ramp", "kinds", "steps"]

class Nvml:
    def __init__(self):
        self.lib = ctypes.CDLL("libnvidia-ml.so.1")
        self.lib.nvmlInit_v2()
        self.gpu = ctypes.c_void_p()
        self.lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.gpu))
    def number(self, name, kind, *args):
        x = kind()
        try: return x.value if getattr(self.lib, name)(self.gpu, *args, ctypes.byref(x)) == 0 else -1
        except AttributeError: return -1
    def energy(self): return self.number("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)
    def sample(self):
        return (self.number("nvmlDeviceGetClockInfo", ctypes.c_uint, 1), self.number("nvmlDeviceGetPowerUsage", ctypes.c_uint),
                self.number("nvmlDeviceGetTemperature", ctypes.c_uint, 0), self.energy(),
                self.number("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong))

if OUT == "sampler":   # a process of its own: power.py sampler FILE T0
    nvml = Nvml()
    with open(sys.argv[2], "w") as f:
        f.write("s,mhz,mw,celsius,mj,reasons\n")
        while os.getppid() > 1:
            f.write("%.3f,%d,%d,%d,%d,%d\n" % ((time.time(),) + nvml.sample())); f.flush()
            time.sleep(0.02)
    sys.exit()

os.makedirs(OUT, exist_ok=True)
sampler = subprocess.Popen([sys.executable, os.path.abspath(__file__), "sampler", OUT + "/samples.csv"])
import torch
from torch.profiler import ProfilerActivity, profile, schedule
nvml = Nvml()
files = {}

def say(file, **d):
    if file not in files: files[file] = open(OUT + "/" + file, "w")
    files[file].write(json.dumps(d) + "\n"); files[file].flush()

def left(): return LIMIT - (time.perf_counter() - T0)
def event():
    e = torch.cuda.Event(enable_timing=True); e.record(); return e
def spin(cycles): torch.cuda._sleep(cycles)

class Probe:
    """The clock at this place of the stream, MHz; OVERHEAD: ms of an empty spin between events."""
    overhead = 0.0
    def __init__(self, cycles=200000):
        self.cycles = cycles; self.a = event(); spin(cycles); self.b = event()
    def mhz(self): return self.cycles / max(self.a.elapsed_time(self.b) - Probe.overhead, 1e-6) / 1e3

def calibrate():
    spin(1000); torch.cuda.synchronize()
    xs = []
    for n in (100000, 200000) * 10:
        p = Probe(n); torch.cuda.synchronize(); xs.append((n, p.a.elapsed_time(p.b)))
    a = sorted(t for n, t in xs if n == 100000)[5]; b = sorted(t for n, t in xs if n == 200000)[5]
    Probe.overhead = 2 * a - b
    say("ramp.jsonl", what="probe", overhead_ms=Probe.overhead, idle_mhz=100000 / (b - a) / 1e3)

bf = torch.bfloat16
def r(*s, dtype=bf): return torch.randn(*s, device="cuda", dtype=torch.float32).to(dtype) if dtype != torch.float32 else torch.randn(*s, device="cuda")

def ramp():
    a, b = r(8192, 8192), r(8192, 8192)
    x = r(64 * 1024 * 1024, dtype=torch.float32)
    for what, heat, cool in (("products", lambda: a @ b, lambda: x.mul_(1.0)), ("copies", lambda: x.mul_(1.0), lambda: x.mul_(1.0))):
        time.sleep(0.7)
        probes = [Probe(20000)]
        for i in range(450 if what == "products" else 300): heat(); probes.append(Probe(20000))
        n = len(probes)
        for i in range(1500 if what == "products" else 0):
            cool(); cool(); probes.append(Probe(20000))
        torch.cuda.synchronize()
        t = [probes[0].a.elapsed_time(p.a) for p in probes]
        c = [round(p.mhz()) for p in probes]
        say("ramp.jsonl", what=what, hot_until_ms=round(t[n - 1], 2), ms=[round(x, 2) for x in t], mhz=c)
    # bursts: H ms of products, then C ms of memory traffic, for a second: what is the clock within a period?
    for hot, cool in ((7, 24), (7, 80), (35, 120), (35, 400), (140, 500), (140, 1600)):
        time.sleep(0.3)
        rows = []
        start = event()
        for turn in range(int(1100 / (hot * 1.4 + cool * 0.13)) + 1):
            for i in range(hot):
                rows.append((turn, 1, event(), (a @ b), Probe(20000)))
            for i in range(cool):
                x.mul_(1.0)
                if i % 4 == 3: rows.append((turn, 0, event(), None, Probe(20000)))
        torch.cuda.synchronize()
        say("ramp.jsonl", what="bursts", hot=hot, cool=cool, turn=[q[0] for q in rows], kind=[q[1] for q in rows],
            ms=[round(start.elapsed_time(q[2]), 2) for q in rows], mhz=[round(q[4].mhz()) for q in rows],
            took_ms=[round(q[2].elapsed_time(q[4].a), 4) for q in rows])
    print("ramp at %.0f s" % (time.perf_counter() - T0), flush=True)

def kernels():
    F = torch.nn.functional
    for t, o, i in ((2048, 4096, 4096), (2048, 11008, 4096), (8192, 14336, 4096), (8192, 8192, 8192), (16384, 2048, 768), (4096, 2048, 8192)):
        x, w, g = r(t, i), r(o, i) * 0.02, r(t, o)
        y, dx, dw = torch.empty(t, o, device="cuda", dtype=bf), torch.empty(t, i, device="cuda", dtype=bf), torch.empty(o, i, device="cuda", dtype=bf)
        n = "%dx%dx%d" % (t, o, i)
        yield "fwd " + n, lambda: torch.mm(x, w.t(), out=y), 2.0 * t * o * i
        yield "dgrad " + n, lambda: torch.mm(g, w, out=dx), 2.0 * t * o * i
        yield "wgrad " + n, lambda: torch.mm(g.t(), x, out=dw), 2.0 * t * o * i
    for b, h, s, d in ((1, 32, 2048, 128), (1, 32, 8192, 128), (4, 32, 2048, 64), (16, 12, 1024, 64)):
        q, k, v = (r(b, h, s, d).requires_grad_() for _ in range(3))
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            f = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
            yield "attention %dx%dx%dx%d" % (b, h, s, d), f, 2.0 * b * h * s * s * d
            o = f(); go = torch.randn_like(o)
            yield "attention back %dx%dx%dx%d" % (b, h, s, d), lambda: torch.autograd.grad(o, (q, k, v), go, retain_graph=True), 5.0 * b * h * s * s * d
    q = k = v = o = go = None
    for dtype, impl, count, size in ((bf, "fused", 1, 300000000), (bf, "fused", 30, 10000000), (bf, "fused", 30, 45088768), (bf, "fused", 300, 1000000), (bf, "fused", 1000, 65536), (bf, "fused", 2000, 4096),
                                     (torch.float32, "fused", 1, 200000000), (torch.float32, "fused", 30, 10000000), (bf, "foreach", 30, 10000000), (torch.float32, "foreach", 30, 10000000)):
        ps = [torch.nn.Parameter(r(size, dtype=dtype)) for _ in range(count)]
        for p in ps: p.grad = torch.randn_like(p) * 1e-3
        opt = torch.optim.AdamW(ps, lr=1e-5, **{impl: True})
        yield "AdamW %s %s %dx%d" % (impl, "16" if dtype == bf else "32", count, size), opt.step, (14.0 if dtype == bf else 28.0) * count * size
        ps = opt = None
    rows, h = 8192, 4096
    x, y, z = r(1, rows, h), r(1, rows, h), torch.empty(1, rows, h, device="cuda", dtype=bf)
    X, Y, Z = r(1, rows, h, dtype=torch.float32), r(1, rows, h, dtype=torch.float32), torch.empty(1, rows, h, device="cuda")
    V, w = r(1, rows, 1, dtype=torch.float32), r(h)
    n = float(rows * h)
    yield "add 16", lambda: torch.add(x, y, out=z), 6 * n
    yield "mul 32", lambda: torch.mul(X, Y, out=Z), 12 * n
    yield "pow 32", lambda: torch.pow(X, 2, out=Z), 8 * n
    yield "silu 16", lambda: torch.ops.aten.silu.out(x, out=z), 4 * n
    yield "silu back 16", lambda: torch.ops.aten.silu_backward.grad_input(x, y, grad_input=z), 6 * n
    yield "cast up", lambda: Z.copy_(x), 6 * n
    yield "cast down", lambda: z.copy_(X), 6 * n
    yield "row factor 32", lambda: torch.mul(X, V, out=Z), 8 * n
    yield "column factor 16", lambda: torch.mul(w, x, out=z), 4 * n
    yield "expand 32", lambda: torch.div(V.expand(1, rows, h), 4096.0, out=Z), 4 * n
    yield "row mean 32", lambda: torch.mean(X, -1, keepdim=True), 4 * n
    yield "column sum 16", lambda: torch.sum(x, (0, 1)), 2 * n
    xh = x.view(1, rows, 32, 128).transpose(1, 2); zh = torch.empty(1, 32, rows, 128, device="cuda", dtype=bf); c = r(1, 1, rows, 128)
    yield "rotary factor 16", lambda: torch.mul(xh, c, out=zh), 4 * n
    yield "rotary cat 16", lambda: torch.cat((xh[..., 64:], xh[..., :64]), -1), 4 * n
    yield "contiguous 16", lambda: zh.copy_(xh), 4 * n
    yield "fill 16", lambda: z.zero_(), 2 * n
    yield "copy 16", lambda: z.copy_(y), 4 * n
    xh = zh = c = None
    l = r(4096, 32000, dtype=torch.float32); m = 4096 * 32000.0
    yield "log_softmax 32", lambda: torch.log_softmax(l, -1), 8 * m
    lo = torch.log_softmax(l, -1); lg = r(4096, 32000, dtype=torch.float32)
    yield "log_softmax back 32", lambda: torch.ops.aten._log_softmax_backward_data(lg, lo, -1, torch.float32), 12 * m
    l = lo = lg = None
    s1, s2 = r(2048, 2048, dtype=torch.float32), r(2048, 8192, dtype=torch.float32)
    yield "product 32 without tensor cores", lambda: torch.mm(s1, s2), 2.0 * 2048 * 2048 * 8192

def kinds():
    A, B = r(8192, 8192), r(8192, 8192)
    for name, f, work in kernels():
        if left() < (64 if "steps" in PARTS else 4): print("no time for", name, flush=True); continue
        try:
            f(); torch.cuda.synchronize()
            t = time.perf_counter(); f(); f(); torch.cuda.synchronize(); one = (time.perf_counter() - t) / 2
            few = max(2, min(30, int(3e-3 / one)))
            out = {}
            for state in ("cold", "hot", "loop"):
                if state == "cold": torch.cuda.synchronize(); time.sleep(0.02); spin(8000000)
                if state == "hot":
                    for _ in range(60): A @ B
                if state == "loop":
                    n = max(2, int(0.13 / one))
                    a = event()
                    for _ in range(n): f()
                    b = event(); torch.cuda.synchronize()
                    e0, t0 = nvml.energy(), time.perf_counter()
                    a = event()
                    for _ in range(n): f()
                    for _ in range(2 * n): f()
                    b = event()
                    p = Probe(); torch.cuda.synchronize()
                    e1, t1 = nvml.energy(), time.perf_counter()
                    out[state] = dict(us=a.elapsed_time(b) / (3 * n) * 1e3, mhz=p.mhz(), watts=(e1 - e0) / 1e3 / (t1 - t0))
                    continue
                p = Probe(); a = event()
                for _ in range(few): f()
                b = event(); q = Probe(); torch.cuda.synchronize()
                out[state] = dict(us=a.elapsed_time(b) / few * 1e3, mhz=[p.mhz(), q.mhz()])
            say("kinds.jsonl", what=name, work=work, n=few, **out)
        except Exception as e:
            print(name, "failed:", repr(e)[:200], flush=True)
    print("kinds at %.0f s" % (time.perf_counter() - T0), flush=True)

def llama(h, f, L, H, K, V, tied=False, kind="llama", **more):
    return dict(model_type=kind, hidden_size=h, intermediate_size=f, num_hidden_layers=L, num_attention_heads=H,
                num_key_value_heads=K, vocab_size=V, tie_word_embeddings=tied, max_position_embeddings=16384, **more)

M = {"1b": llama(2048, 8192, 16, 32, 8, 128256, True), "7b": llama(4096, 11008, 32, 32, 32, 32000),
     "qwen1.5b": llama(1536, 8960, 28, 12, 2, 151936, True, "qwen2"), "3b": llama(3072, 8192, 28, 24, 8, 128256, True),
     "8b-l6": llama(4096, 14336, 6, 32, 8, 128256), "13b-l6": llama(5120, 13824, 6, 40, 40, 32000), "8b": llama(4096, 14336, 32, 32, 8, 128256),
     "125m": llama(768, 2048, 12, 12, 12, 32000), "70b-l2": llama(8192, 28672, 2, 64, 8, 32000)}
CASES = [("7b-s2048-ck", "7b", 1, 2048, "nonreentrant"), ("7b-s2048", "7b", 1, 2048, ""), ("8b-l6-s8192", "8b-l6", 1, 8192, ""), ("3b-b2", "3b", 2, 2048, ""),
         ("13b-l6-b4-ckre", "13b-l6", 4, 2048, "reentrant"), ("70b-l2-s4096", "70b-l2", 1, 4096, ""), ("1b-b4-ck", "1b", 4, 2048, "nonreentrant"),
         ("125m-b16-s1024", "125m", 16, 1024, ""), ("qwen1.5b-b2", "qwen1.5b", 2, 2048, ""), ("8b-b2-s4096-ck", "8b", 2, 4096, "nonreentrant"), ("7b-b4-ck", "7b", 4, 2048, "nonreentrant")]

def step_case(name, model, B, S, ckpt):
    import transformers
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(**M[model]); config.use_cache = False
    torch.set_default_dtype(bf)
    with torch.device("cuda"): net = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    torch.set_default_dtype(torch.float32)
    if ckpt: net.gradient_checkpointing_enable(dict(use_reentrant=ckpt == "reentrant"))
    net.train()
    def before(module, args, kwargs):
        spin(20000)
        x = args[0] if args else kwargs["hidden_states"]
        if x.requires_grad and torch.is_grad_enabled(): x.register_hook(lambda g: spin(20000))
    for layer in net.model.layers: layer.register_forward_pre_hook(before, with_kwargs=True)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-5, fused=True)
    ids = torch.randint(0, M[model]["vocab_size"], (B, S), device="cuda")
    def one():
        times = {}
        def timed(label, f):
            torch.cuda.synchronize(); t = time.perf_counter()
            x = f(); a = time.perf_counter(); torch.cuda.synchronize(); b = time.perf_counter()
            times[label] = (round((a - t) * 1e3, 3), round((b - t) * 1e3, 3)); return x
        loss = timed("forward", lambda: net(input_ids=ids, labels=ids).loss)
        timed("backward", loss.backward)
        timed("optimizer", lambda: (spin(20000), opt.step(), spin(20000)))
        timed("zero", lambda: opt.zero_grad(set_to_none=True))
        return times
    one(); one()
    e0, t0, rows = nvml.energy(), time.perf_counter(), []
    while time.perf_counter() - t0 < 2.5 or len(rows) < 4: rows.append(one())
    watts = (nvml.energy() - e0) / 1e3 / (time.perf_counter() - t0)
    def keep(prof): prof.export_chrome_trace("/tmp/power-trace.json")
    profiled, warm = [], max(1, min(6, int(0.9 * len(rows) / 2.5)))
    with profile(activities=[ProfilerActivity.CUDA], schedule=schedule(wait=0, warmup=warm, active=2, repeat=1), on_trace_ready=keep) as prof:
        for _ in range(warm + 2): profiled.append(one()); prof.step()
    with open("/tmp/power-trace.json") as f: events = json.load(f)["traceEvents"]
    names, ks, syncs = {}, [], []
    for e in events:
        if e.get("ph") != "X": continue
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            ks.append((e["ts"], e["dur"], names.setdefault(e["name"][:150], len(names)), e.get("args", {}).get("registers per thread", 0), e.get("args", {}).get("grid", [])))
        elif e.get("cat") == "cuda_runtime" and "Synchronize" in e["name"]: syncs.append((e["ts"], e["dur"]))
    ks.sort(); base = ks[0][0]
    with gzip.open(OUT + "/" + name + ".kernels.json.gz", "wt") as f:
        json.dump(dict(names=list(names), kernels=[(round(a - base, 3), d, n, g) for a, d, n, _, g in ks], syncs=[(round(a - base, 3), d) for a, d in sorted(syncs)]), f)
    say("steps.jsonl", case=name, model=model, B=B, S=S, ckpt=ckpt, watts=watts, steps=rows, profiled=profiled, at_s=time.perf_counter() - T0, unix=time.time())
    med = lambda p, i: sorted(x[p][i] for x in rows)[len(rows) // 2]
    print("%-16s %3d steps" % (name, len(rows)), " ".join("%s %.2f/%.2f" % (p[:3], med(p, 0), med(p, 1)) for p in rows[0]), "%.0f W" % watts, "at %.0f s" % (time.perf_counter() - T0), flush=True)

torch.cuda.init(); calibrate()
print(torch.__version__, torch.cuda.get_device_name(0), "at %.0f s" % (time.perf_counter() - T0), flush=True)
with profile(activities=[ProfilerActivity.CUDA]): spin(1000); torch.cuda.synchronize()
if "ramp" in PARTS: ramp()
if "kinds" in PARTS: kinds()
gc.collect(); torch.cuda.empty_cache()
if "steps" in PARTS:
    for c in CASES:
        if left() < 10: print("no time for", c[0], flush=True); continue
        try: step_case(*c)
        except Exception as e: print(c[0], "failed:", repr(e)[:300], flush=True)
        gc.collect(); torch.cuda.empty_cache()
sampler.terminate()
print("done at %.0f s" % (time.perf_counter() - T0), flush=True)
