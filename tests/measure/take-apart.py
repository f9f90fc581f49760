# SPDX-License-Identifier: MIT
"""Times of training steps on one GPU, taken apart: tests/data/h200-steps.

    python3 tests/measure/take-apart.py OUTDIR [SECONDS]

Needs torch and transformers (and peft for LoRA) on a machine with a GPU; some two minutes.

Each case: two warm-up steps, five timed ones (per phase: the time until the host had issued it, and until the
GPU had finished), one under torch.profiler: every kernel's time by operator, shapes and kernel name, and the sum.
The wall times of the profiled step are not used.  Writes OUTDIR/steps.jsonl, kernels.csv, host.jsonl."""
import contextlib, csv, gc, json, os, sys, time
T0 = time.perf_counter()
import torch
import torch.distributed as dist
import transformers
from torch.profiler import ProfilerActivity, profile, record_function

OUT = sys.argv[1]
LIMIT = float(sys.argv[2]) if len(sys.argv) > 2 else 112.0
os.makedirs(OUT, exist_ok=True)
steps = open(OUT + "/steps.jsonl", "w")
host = open(OUT + "/host.jsonl", "w")
kfile = open(OUT + "/kernels.csv", "w", newline="")
kcsv = csv.writer(kfile)
kcsv.writerow("case,phase,op,parent,shapes,kernel,count,us".split(","))

def say(file, **d):
    file.write(json.dumps(d) + "\n"); file.flush()

def llama(h, f, L, H, K, V, tied=False, kind="llama", **more):
    return dict(model_type=kind, hidden_size=h, intermediate_size=f, num_hidden_layers=L, num_attention_heads=H,
                num_key_value_heads=K, vocab_size=V, tie_word_embeddings=tied, max_position_embeddings=16384, **more)

M = {"1b": llama(2048, 8192, 16, 32, 8, 128256, True), "7b": llama(4096, 11008, 32, 32, 32, 32000),
     "7b-l8": llama(4096, 11008, 8, 32, 32, 32000), "tl": llama(2048, 5632, 22, 32, 4, 32000),
     "qwen1.5b": llama(1536, 8960, 28, 12, 2, 151936, True, "qwen2"), "3b": llama(3072, 8192, 28, 24, 8, 128256, True),
     "8b-l6": llama(4096, 14336, 6, 32, 8, 128256), "13b-l6": llama(5120, 13824, 6, 40, 40, 32000),
     "125m": llama(768, 2048, 12, 12, 12, 32000), "70b-l2": llama(8192, 28672, 2, 64, 8, 32000)}
BASE = dict(model="1b", B=1, S=2048, ckpt="none", attn="sdpa", backend="", dtype="bf16", autocast=False,
            optimizer="fused", clip=0.0, lora=None, framework="plain", world=8, reduce="fp32", half="c", gc=True,
            offload=False, n=5, mask=False)
CASES = [   # half: e = the shapes of micro_e2e.csv, c = may calibrate, v = only validates
    ("1b-s2048", dict(half="e")), ("1b-s512", dict(half="e", S=512)),
    ("1b-s16", dict(S=16)), ("1b-s16-ck", dict(S=16, ckpt="nonreentrant")), ("1b-s16-ckre", dict(S=16, ckpt="reentrant")),
    ("1b-s2048-ck", dict(half="e", ckpt="nonreentrant")), ("1b-b4-ck", dict(half="e", ckpt="nonreentrant", B=4)),
    ("1b-s16-nogc", dict(S=16, gc=False)),
    ("7b-s2048", dict(half="e", model="7b")), ("7b-s2048-ck", dict(half="e", model="7b", ckpt="nonreentrant")),
    ("7b-s512", dict(half="e", model="7b", S=512)), ("7b-l8-s16", dict(model="7b-l8", S=16)),
    ("1b-amp", dict(dtype="fp32", autocast=True, B=2)), ("1b-amp-ck", dict(dtype="fp32", autocast=True, ckpt="nonreentrant", B=2, half="v")),
    ("1b-foreach-clip", dict(optimizer="foreach", clip=1.0, B=2)),
    ("fsdp2-1b", dict(framework="fsdp2", B=2)), ("fsdp2-1b-ck", dict(framework="fsdp2", B=2, ckpt="nonreentrant", half="v")),
    ("fsdp2-1b-rbf16", dict(framework="fsdp2", B=2, reduce="bf16", clip=1.0)),
    ("fsdp2-1b-s16", dict(framework="fsdp2", S=16)),
    ("fsdp2-7b-l8", dict(framework="fsdp2", model="7b-l8")), ("fsdp2-7b-l8-b4", dict(framework="fsdp2", model="7b-l8", B=4, half="v")),
    ("fsdp1-1b", dict(framework="fsdp1", B=2)), ("fsdp1-1b-s16", dict(framework="fsdp1", S=16)),
    ("7b-l8-lora", dict(model="7b-l8", lora=dict(r=16, targets=["q_proj", "v_proj"]), ckpt="nonreentrant")),
    ("7b-l8-lora-all", dict(model="7b-l8", lora=dict(r=16, targets="all"), ckpt="nonreentrant", half="v")),
    ("1b-eager", dict(attn="eager", S=1024, B=2)), ("1b-flash", dict(backend="flash", B=2)), ("1b-efficient", dict(backend="efficient", B=2, half="v")),
    ("1b-mask", dict(mask=True, B=2)), ("1b-fp32", dict(dtype="fp32", S=1024)),
    ("qwen1.5b-b2", dict(model="qwen1.5b", B=2, half="v")), ("tl-b4-s1024", dict(model="tl", B=4, S=1024, half="v")),
    ("3b-b2", dict(model="3b", B=2, half="v")), ("8b-l6-s8192", dict(model="8b-l6", S=8192, half="v")),
    ("13b-l6-b4-ckre", dict(model="13b-l6", B=4, ckpt="reentrant", half="v")), ("125m-b16-s1024", dict(model="125m", B=16, S=1024, half="v")),
    ("70b-l2-s4096", dict(model="70b-l2", S=4096, half="v")),
    ("1b-forloop", dict(optimizer="for-loop", S=512)),
]
DT = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16}

def build(run):
    config = transformers.AutoConfig.for_model(**M[run["model"]])
    config.use_cache = False
    dtype = torch.float32 if run["framework"] != "plain" else DT[run["dtype"]]
    torch.set_default_dtype(dtype)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=run["attn"])
    torch.set_default_dtype(torch.float32)
    if run["lora"]:
        import peft
        t = run["lora"]["targets"]
        if t == "all":
            t = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        model = peft.get_peft_model(model, peft.LoraConfig(r=run["lora"]["r"], lora_alpha=16, target_modules=t, lora_dropout=0.0, task_type="CAUSAL_LM"))
    if run["ckpt"] != "none":
        model.gradient_checkpointing_enable(dict(use_reentrant=run["ckpt"] == "reentrant"))
        if run["lora"]:
            model.enable_input_require_grads()
    model.train()
    layers = (model.get_base_model() if run["lora"] else model).model.layers
    if run["framework"] == "fsdp2":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        kw = dict(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=DT[run["reduce"]]))
        for layer in layers:
            fully_shard(layer, **kw)
        fully_shard(model, **kw)
    elif run["framework"] == "fsdp1":
        import functools
        from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
        from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
        model = FullyShardedDataParallel(model, auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={type(layers[0])}),
            mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16), device_id=0, use_orig_params=True)
    return model

def attention(run):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    names = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}
    return sdpa_kernel(names[run["backend"]]) if run["backend"] else contextlib.nullcontext()

def one(model, opt, params, run, ids, kw):
    times = {}
    def timed(label, f):
        torch.cuda.synchronize()
        t = time.perf_counter()
        with record_function("phase:" + label):
            r = f()
            a = time.perf_counter()
            torch.cuda.synchronize()
        b = time.perf_counter()
        times[label] = (round((a - t) * 1e3, 3), round((b - t) * 1e3, 3))
        return r
    amp = torch.autocast("cuda", torch.bfloat16) if run["autocast"] else contextlib.nullcontext()
    def fwd():
        with amp:
            return model(input_ids=ids, labels=ids, **kw).loss
    with attention(run):
        loss = timed("forward", fwd)
        timed("backward", loss.backward)
    if run["clip"]:
        timed("clip", lambda: torch.nn.utils.clip_grad_norm_(params, run["clip"]))
    timed("optimizer", opt.step)
    timed("zero", lambda: opt.zero_grad(set_to_none=True))
    return times

def table(name, prof):
    events = prof.events()
    phases = [(e.time_range.start, e.time_range.end, e.name[6:]) for e in events if e.name.startswith("phase:") and e.device_type == torch.autograd.DeviceType.CPU]
    rows, sums = {}, {}
    for e in events:
        if not getattr(e, "kernels", None) or e.name.startswith("phase:"):
            continue
        ph = next((p for s, t, p in phases if s <= e.time_range.start <= t), "?")
        par = e.cpu_parent.name if e.cpu_parent is not None else ""
        if par.startswith("autograd::engine::evaluate_function: "): par = par[37:]
        for k in e.kernels:
            key = (ph, e.name, par, str(e.input_shapes), k.name[:110])
            r = rows.setdefault(key, [0, 0.0]); r[0] += 1; r[1] += k.duration
            sums[ph] = sums.get(ph, 0.0) + k.duration
    for key, r in rows.items():
        kcsv.writerow([name, *key, r[0], round(r[1], 2)])
    kfile.flush()
    return {k: round(v / 1e3, 3) for k, v in sums.items()}, {p: sum(r[0] for k, r in rows.items() if k[0] == p) for p in sums}

def case(name, over):
    run = dict(BASE, **over)
    t = time.perf_counter()
    torch.manual_seed(1)
    if run["framework"] != "plain" and not dist.is_initialized():
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", rank=0, world_size=run["world"], store=FakeStore())
    model = build(run)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=1e-5, **{"fused": dict(fused=True), "foreach": dict(foreach=True), "for-loop": dict(foreach=False)}[run["optimizer"]])
    ids = torch.randint(0, M[run["model"]]["vocab_size"], (run["B"], run["S"]), device="cuda")
    kw = {}
    if run["mask"]:
        m = torch.ones_like(ids); m[:, -7:] = 0; kw["attention_mask"] = m
    t1 = time.perf_counter()
    if not run["gc"]: gc.disable()
    for _ in range(2): one(model, opt, params, run, ids, kw)
    timed = [one(model, opt, params, run, ids, kw) for _ in range(run["n"])]
    gc.enable()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as prof:
        one(model, opt, params, run, ids, kw)
    sums, counts = table(name, prof)
    say(steps, case=name, half=run["half"], config={k: v for k, v in run.items() if k not in ("n", "half")}, dims=M[run["model"]],
        n_params=sum(p.numel() for p in params), issued_ms={p: [x[p][0] for x in timed] for p in timed[0]}, wall_ms={p: [x[p][1] for x in timed] for p in timed[0]},
        kernels_ms=sums, kernels=counts, build_s=round(t1 - t, 2), took_s=round(time.perf_counter() - t, 2), at_s=round(time.perf_counter() - T0, 1))
    med = lambda p, i: sorted(x[p][i] for x in timed)[len(timed) // 2]
    print("%-18s" % name, " ".join("%s %.1f/%.1f (gpu %.1f)" % (p[:3], med(p, 0), med(p, 1), sums.get(p, 0)) for p in timed[0]), "at %.0f s" % (time.perf_counter() - T0), flush=True)

def loop(name, f, n=300):
    for _ in range(10): f()
    torch.cuda.synchronize(); best = []
    for _ in range(3):
        t = time.perf_counter()
        for _ in range(n): f()
        best.append((time.perf_counter() - t) / n * 1e6); torch.cuda.synchronize()
    say(host, what=name, us=round(sorted(best)[1], 3), least=round(min(best), 3))

def micro():
    t = time.perf_counter(); x = 0
    for i in range(3000000): x += i
    say(host, what="python loop of 3e6 additions", us=round((time.perf_counter() - t) * 1e6, 1))
    a = torch.zeros(64, 64, device="cuda", dtype=torch.bfloat16); g = a.clone().requires_grad_(); w = torch.zeros(64, 64, device="cuda", dtype=torch.bfloat16)
    F = torch.nn.functional; lin = torch.nn.Linear(64, 64, device="cuda", dtype=torch.bfloat16)
    loop("add_ in place", lambda: a.add_(1)); loop("x + 1", lambda: a + 1); loop("to fp32", lambda: a.float())
    loop("F.linear", lambda: F.linear(a, w)); loop("x + x, grad", lambda: g + g); loop("F.linear, grad", lambda: F.linear(g, lin.weight))
    loop("nn.Linear, grad", lambda: lin(g)); loop("silu, grad", lambda: F.silu(g)); loop("empty", lambda: torch.empty(256, device="cuda"))
    loop("view", lambda: g.view(-1)); loop("item", lambda: a[0, 0].item(), 100); loop("synchronize", torch.cuda.synchronize)
    for name, op in (("mul", lambda y: y * 1.5), ("linear", lambda y: F.linear(y, lin.weight)), ("cast twice", lambda y: y.float().bfloat16()), ("silu", F.silu), ("view", lambda y: y.view(-1).view(64, 64))):
        best = []
        for _ in range(5):
            y = g
            for _ in range(200): y = op(y)
            z = y.sum(); torch.cuda.synchronize(); t = time.perf_counter(); z.backward(); best.append((time.perf_counter() - t) / 200 * 1e6); torch.cuda.synchronize()
        say(host, what="backward of " + name, us=round(sorted(best)[2], 3), least=round(min(best), 3))

def cpu():
    n = 100000000
    for threads in (1, 2, 4, 8, 16):
        torch.set_num_threads(threads)
        for flavour, kw in (("foreach", dict(foreach=True)), ("fused", dict(fused=True)), ("for-loop", dict(foreach=False))):
            m = n if threads >= 4 else n // 4
            p = torch.zeros(m); p.grad = torch.full_like(p, 1e-3); opt = torch.optim.AdamW([p], lr=1e-5, **kw); opt.step()
            ts = []
            for _ in range(2):
                t = time.perf_counter(); opt.step(); ts.append(time.perf_counter() - t)
            say(host, what="cpu AdamW " + flavour, threads=threads, elements=m, us=round(min(ts) * 1e6, 1)); del p, opt
            if time.perf_counter() - T0 > LIMIT: return
        g = torch.full((n // 4,), 1e-3)
        t = time.perf_counter(); g.norm(); say(host, what="cpu norm", threads=threads, elements=n // 4, us=round((time.perf_counter() - t) * 1e6, 1))

torch.cuda.init(); torch.zeros(1, device="cuda")
say(host, what="about", torch=torch.__version__, transformers=transformers.__version__, gpu=torch.cuda.get_device_name(0), cpus=os.cpu_count(),
    kernel=os.uname().release, cpu=next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?"), start_s=round(time.perf_counter() - T0, 1))
with profile(activities=[ProfilerActivity.CUDA]): torch.zeros(1, device="cuda").add_(1); torch.cuda.synchronize()
micro(); print("micro at %.0f s" % (time.perf_counter() - T0), flush=True)
failed = 0
for name, over in CASES:
    if time.perf_counter() - T0 > LIMIT - 6: print("no time for", name, flush=True); continue
    try: case(name, over)
    except Exception as e: print(name, "failed:", repr(e)[:300], flush=True); failed += 1
    gc.collect(); torch.cuda.empty_cache()
cpu()
micro()
print("done at %.0f s" % (time.perf_counter() - T0), flush=True)
