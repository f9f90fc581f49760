# SPDX-License-Identifier: MIT
"""How much the host's time for the same steps differs from process to process: tests/data/host-speed.

    python3 tests/measure/host-speed.py OUTDIR

Needs torch and transformers on a machine with a GPU; some two minutes.

Starts one process after another, each under one condition.  A process times a loop of Python, launches in a
loop, and steps of LLaMA-like models on sequences of 16 tokens, so that the GPU waits for the host all the
time: per phase the time until the host had issued it, every step.  The last process times clip_grad_norm_, AdamW
and zero_grad on lists of small tensors, and of FSDP2's.  Writes OUTDIR/host-speed.jsonl and OUTDIR/lists.jsonl."""
import json, os, statistics, subprocess, sys, time

STEPS = 16
LLAMA_1B = dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                num_key_value_heads=8, vocab_size=128256, tie_word_embeddings=True)
TINYLLAMA = dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                 num_key_value_heads=4, vocab_size=32000)
CASES = (("1b", LLAMA_1B, "none", False), ("1b-ck", LLAMA_1B, "nonreentrant", False),
         ("1b-ckre", LLAMA_1B, "reentrant", False), ("tinyllama", TINYLLAMA, "none", False),
         ("1b-fsdp2", LLAMA_1B, "none", True), ("1b-again", LLAMA_1B, "none", False))
# condition: what stands before python, variables, what the process itself does
CONDITIONS = (("plain", [], {}, ""), ("one core", ["taskset", "-c", "3"], {}, ""), ("plain", [], {}, ""),
              ("one thread", [], {"OMP_NUM_THREADS": "1"}, ""), ("history", [], {}, "history"),
              ("busy cores", [], {}, "busy"), ("no collection", [], {}, "gc"), ("plain", [], {}, ""))


def loop(torch, call, n=1000):
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    before = time.perf_counter()
    for _ in range(n):
        call()
    taken = (time.perf_counter() - before) / n
    torch.cuda.synchronize()
    return round(taken * 1e6, 3)


def python_loop():
    before, x = time.perf_counter(), 0
    for i in range(3000000):
        x += i
    return round((time.perf_counter() - before) * 1e3, 2)


def small(torch):
    a = torch.zeros(64, 64, device="cuda", dtype=torch.bfloat16)
    linear = torch.nn.Linear(64, 64, device="cuda", dtype=torch.bfloat16)
    b = a.clone().requires_grad_()
    y = b
    for _ in range(300):
        y = y * 1.5
    z = y.sum()
    torch.cuda.synchronize()
    before = time.perf_counter()
    z.backward()
    backward = round((time.perf_counter() - before) / 300 * 1e6, 3)
    return dict(python_loop_ms=python_loop(), add_us=loop(torch, lambda: a.add_(1)), linear_us=loop(torch, lambda: linear(b)),
                backward_mul_us=backward)


def case(torch, name, fields, checkpointing, sharded):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(use_cache=False, **fields)
    config._attn_implementation = "sdpa"
    torch.set_default_dtype(torch.float32 if sharded else torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.train()
    if checkpointing != "none":
        model.gradient_checkpointing_enable(dict(use_reentrant=checkpointing == "reentrant"))
    if sharded:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        start_fake_group()
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in model.model.layers:
            fully_shard(layer, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    tokens = torch.randint(0, fields["vocab_size"], (1, 16), device="cuda")
    issued = dict(forward=[], backward=[], optimizer=[])
    for _ in range(STEPS):
        def timed(phase, call):
            torch.cuda.synchronize()
            before = time.perf_counter()
            result = call()
            issued[phase].append(round((time.perf_counter() - before) * 1e3, 3))
            return result
        loss = timed("forward", lambda: model(input_ids=tokens, labels=tokens).loss)
        timed("backward", loss.backward)
        timed("optimizer", lambda: (optimizer.step(), optimizer.zero_grad(set_to_none=True)))
    return dict(case=name, issued_ms=issued)


def start_fake_group():
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())


def lists():
    """Least and median milliseconds, synchronised, of what a step does with lists of tensors."""
    import torch
    from torch.distributed.fsdp import fully_shard

    class Parameters(torch.nn.Module):
        def __init__(self, count):
            super().__init__()
            self.all = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(64, 512, device="cuda"))
                                               for _ in range(count)])
    start_fake_group()
    for sharded in (False, True) * 3:
        for count in (16, 64, 146, 448):
            model = Parameters(count)
            if sharded:
                fully_shard(model)
            parameters = list(model.parameters())
            for fused in (True, False):
                optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=fused, foreach=not fused)
                took = dict(clip=[], step=[], zero=[])
                for _ in range(12):
                    for parameter in parameters:
                        parameter.grad = torch.ones_like(parameter)
                    for name, call in (("clip", lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0)),
                                       ("step", optimizer.step), ("zero", lambda: optimizer.zero_grad(set_to_none=True))):
                        torch.cuda.synchronize()
                        before = time.perf_counter()
                        call()
                        torch.cuda.synchronize()
                        took[name].append((time.perf_counter() - before) * 1e3)
                print(json.dumps(dict(tensors=count, sharded=int(sharded), fused=int(fused), python_loop_ms=python_loop(),
                                      **{name: [round(min(ms), 3), round(statistics.median(ms), 3)]
                                         for name, ms in took.items()})), flush=True)


def child(condition, what):
    import torch
    say = lambda **row: print(json.dumps(dict(condition=condition, **row)), flush=True)
    torch.zeros(1, device="cuda")
    neighbours = []
    if what == "history":
        torch.cuda.memory._record_memory_history(max_entries=1000000)
    elif what == "gc":
        import gc
        gc.disable()
    elif what == "busy":
        neighbours = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() - 2)]
    try:
        say(case="small", **small(torch))
        for arguments in CASES:
            say(**case(torch, *arguments))
        say(case="small", **small(torch))
    finally:
        for neighbour in neighbours:
            neighbour.kill()


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    with open(os.path.join(sys.argv[1], "host-speed.jsonl"), "w") as out:
        cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
        mhz = [float(line.split(":")[1]) for line in open("/proc/cpuinfo") if line.startswith("cpu MHz")]
        out.write(json.dumps(dict(case="about", cpu=cpu, cpus=os.cpu_count(), mhz=mhz, kernel=os.uname().release)) + "\n")
        for condition, before, variables, what in CONDITIONS:
            started = time.perf_counter()
            done = subprocess.run([*before, sys.executable, os.path.abspath(__file__), "--child", condition, what],
                                  env=dict(os.environ, **variables), stdout=out, timeout=90)
            print("%-14s %4.0f s, status %d" % (condition, time.perf_counter() - started, done.returncode), flush=True)
    with open(os.path.join(sys.argv[1], "lists.jsonl"), "w") as out:
        subprocess.run([sys.executable, os.path.abspath(__file__), "--lists"], stdout=out, timeout=90)


if sys.argv[1] == "--child":
    child(*sys.argv[2:4])
elif sys.argv[1] == "--lists":
    lists()
else:
    main()
