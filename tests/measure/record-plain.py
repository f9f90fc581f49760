#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Record the allocator's history of training steps of small LLaMA-like models on one GPU.

    python3 tests/measure/record-plain.py OUTDIR [NAME...]

Plain PyTorch, DDP, FSDP1 and FSDP2 (over PyTorch's fake process group, so that rank 0 of N ranks runs on one
GPU and collectives take no time). For each run: OUTDIR/NAME.csv.gz (action, addr, size, stream, time_us),
and in OUTDIR/NAME.json its configuration, software versions and, for each phase, its end on the history's
clock and the counters. Needs torch, transformers and peft on a machine with a GPU."""
import contextlib
import gzip
import json
import os
import sys
import time

import torch
import torch.distributed as dist

LLAMA = dict(model_type="llama", hidden_size=1024, intermediate_size=2816, num_hidden_layers=4,
             num_attention_heads=16, num_key_value_heads=8, vocab_size=32000, tie_word_embeddings=False)
LLAMA_MHA = dict(LLAMA, num_key_value_heads=16)
QWEN2 = dict(model_type="qwen2", hidden_size=896, intermediate_size=4864, num_hidden_layers=4,
             num_attention_heads=14, num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True)
QWEN3 = dict(model_type="qwen3", hidden_size=1024, intermediate_size=3072, num_hidden_layers=4,
             num_attention_heads=16, num_key_value_heads=8, head_dim=128, vocab_size=151936,
             tie_word_embeddings=True)
MISTRAL = dict(model_type="mistral", hidden_size=4096, intermediate_size=14336, num_hidden_layers=2,
               num_attention_heads=32, num_key_value_heads=8, vocab_size=32000, sliding_window=None,
               tie_word_embeddings=False)
OPEN3B = dict(model_type="llama", hidden_size=3200, intermediate_size=8640, num_hidden_layers=2,
              num_attention_heads=32, num_key_value_heads=32, vocab_size=32000, tie_word_embeddings=False)
BIASED = dict(LLAMA, attention_bias=True, mlp_bias=True)
LARGE = dict(model_type="llama", hidden_size=4096, intermediate_size=11008, num_hidden_layers=3,
             num_attention_heads=32, num_key_value_heads=32, vocab_size=32000, tie_word_embeddings=False)

BASE = dict(model=LLAMA, framework="plain", batch=1, seq=1024, gas=1, ckpt="none", attn="sdpa", backend="",
            mask=False, dtype="bf16", autocast=False, optimizer="fused", clip=0.0, lora=None, keep=False,
            world=1, steps=3, fsdp={})
RUNS = {
    "llama": {},
    "llama-mha-b2": dict(model=LLAMA_MHA, batch=2),
    "llama-odd": dict(batch=3, seq=777),
    "llama-ck": dict(ckpt="nonreentrant", batch=2),
    "llama-ckre": dict(ckpt="reentrant", batch=2),
    "llama-8k-ck": dict(ckpt="nonreentrant", seq=8192),
    "qwen2": dict(model=QWEN2),
    "qwen2-ck": dict(model=QWEN2, ckpt="nonreentrant", batch=2),
    "qwen3": dict(model=QWEN3, batch=2, seq=512),
    "qwen3-ckre": dict(model=QWEN3, ckpt="reentrant"),
    "mistral": dict(model=MISTRAL, seq=2048),
    "open3b": dict(model=OPEN3B),
    "biased": dict(model=BIASED),
    "large-b4": dict(model=LARGE, batch=4, seq=1024),
    "mask": dict(batch=2, mask=True),
    "mask-eager": dict(batch=2, mask=True, attn="eager"),
    "eager": dict(attn="eager", batch=2),
    "eager-fp16": dict(attn="eager", dtype="fp16"),
    "flash": dict(backend="flash", batch=2),
    "efficient": dict(backend="efficient", batch=2, model=LLAMA_MHA),
    "math": dict(backend="math"),
    "fp16": dict(dtype="fp16"),
    "fp32": dict(dtype="fp32"),
    "autocast": dict(dtype="fp32", autocast=True, batch=2),
    "autocast-ck": dict(dtype="fp32", autocast=True, ckpt="nonreentrant"),
    "gas3": dict(gas=3),
    "foreach": dict(optimizer="foreach"),
    "for-loop": dict(optimizer="for-loop"),
    "clip": dict(clip=1.0),
    "keep": dict(keep=True),
    "lora-qv": dict(lora=dict(r=16, targets=["q_proj", "v_proj"], dropout=0.0, bf16=False)),
    "lora-qv-dropout": dict(lora=dict(r=16, targets=["q_proj", "v_proj"], dropout=0.05, bf16=False)),
    "lora-all-bf16": dict(lora=dict(r=8, targets="all", dropout=0.0, bf16=True), batch=2),
    "lora-all-ckre": dict(lora=dict(r=8, targets="all", dropout=0.0, bf16=False), ckpt="reentrant"),
    "lora-all-dropout-ck": dict(lora=dict(r=8, targets="all", dropout=0.1, bf16=True),
                                ckpt="nonreentrant"),
    "ddp-w4": dict(framework="ddp", world=4),
    "ddp-w4-gas3": dict(framework="ddp", world=4, gas=3),
    "ddp-w8-ck-autocast": dict(framework="ddp", world=8, dtype="fp32", autocast=True, ckpt="nonreentrant"),
    "fsdp2-w4": dict(framework="fsdp2", world=4, batch=2),
    "fsdp2-w8-ck": dict(framework="fsdp2", world=8, ckpt="nonreentrant", batch=2),
    "fsdp2-w4-noreshard": dict(framework="fsdp2", world=4, fsdp=dict(reshard=False)),
    "fsdp2-w4-bf16reduce": dict(framework="fsdp2", world=4, fsdp=dict(reduce="bf16")),
    "fsdp2-w4-bf16": dict(framework="fsdp2", world=4, dtype="bf16", fsdp=dict(pure=True)),
    "fsdp2-w4-gas3": dict(framework="fsdp2", world=4, gas=3),
    "fsdp2-w3-qwen2": dict(framework="fsdp2", world=3, model=QWEN2),
    "fsdp2-w4-offload": dict(framework="fsdp2", world=4, fsdp=dict(offload=True)),
    "fsdp1-w4": dict(framework="fsdp1", world=4, batch=2),
    "fsdp1-w8-ck": dict(framework="fsdp1", world=8, ckpt="nonreentrant", batch=2),
    "fsdp1-w8-ckre": dict(framework="fsdp1", world=8, ckpt="reentrant", batch=2),
    "fsdp1-w4-zero2": dict(framework="fsdp1", world=4, fsdp=dict(strategy="SHARD_GRAD_OP")),
    "fsdp1-w4-pure": dict(framework="fsdp1", world=4, dtype="bf16", fsdp=dict(pure=True)),
    "fsdp1-w4-orig": dict(framework="fsdp1", world=4, fsdp=dict(orig=True)),
    "fsdp1-w4-gas3": dict(framework="fsdp1", world=4, gas=3),
}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def build(run):
    import transformers
    config = transformers.AutoConfig.for_model(**{k: v for k, v in run["model"].items()})
    config.use_cache = False
    config._attn_implementation = run["attn"]
    dtype = DTYPES[run["dtype"]]
    if run["framework"].startswith("fsdp") and not run["fsdp"].get("pure"):
        dtype = torch.float32
    torch.set_default_dtype(dtype)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=run["attn"])
    torch.set_default_dtype(torch.float32)
    if run["lora"]:
        import peft
        lora = run["lora"]
        targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] \
            if lora["targets"] == "all" else lora["targets"]
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=lora["r"], lora_alpha=16, target_modules=targets, lora_dropout=lora["dropout"],
            task_type="CAUSAL_LM"), autocast_adapter_dtype=not lora["bf16"])
    if run["ckpt"] != "none":
        model.gradient_checkpointing_enable(dict(use_reentrant=run["ckpt"] == "reentrant"))
        if run["lora"]:
            model.enable_input_require_grads()
    model.train()
    return model


def wrap(model, run):
    layers = model.get_decoder().layers if hasattr(model, "get_decoder") else model.model.layers
    reduce = DTYPES[run["fsdp"].get("reduce", "fp32")]
    pure = run["fsdp"].get("pure", False)
    if run["framework"] == "ddp":
        wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])

        def reduce_nothing(_, bucket):   # the fake group cannot serve the C++ default
            future = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        wrapped.register_comm_hook(None, reduce_nothing)
        return wrapped
    if run["framework"] == "fsdp2":
        from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
        kwargs = dict(offload_policy=CPUOffloadPolicy() if run["fsdp"].get("offload") else OffloadPolicy())
        if not pure:
            kwargs["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce)
        if "reshard" in run["fsdp"]:
            kwargs["reshard_after_forward"] = run["fsdp"]["reshard"]
        for layer in layers:
            fully_shard(layer, **kwargs)
        fully_shard(model, **kwargs)
        return model
    if run["framework"] == "fsdp1":
        import functools
        from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
        from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={type(layers[0])})
        precision = None if pure else MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=reduce,
                                                     buffer_dtype=torch.bfloat16)
        return FullyShardedDataParallel(
            model, auto_wrap_policy=policy, mixed_precision=precision, device_id=0,
            sharding_strategy=ShardingStrategy[run["fsdp"].get("strategy", "FULL_SHARD")],
            use_orig_params=run["fsdp"].get("orig", False))
    return model


def attention(run):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    names = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
             "math": SDPBackend.MATH}
    return sdpa_kernel(names[run["backend"]]) if run["backend"] else contextlib.nullcontext()


def record(name, run, out):
    torch.cuda.empty_cache()
    torch.manual_seed(1)
    phases = []
    torch.cuda.memory._record_memory_history(max_entries=2000000, context=None)
    torch.cuda.reset_peak_memory_stats()

    def phase(label, start):
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        phases.append(dict(phase=label, end_us=time.time_ns() // 1000,
                           ms=round((time.perf_counter() - start) * 1e3, 3),
                           allocated=stats["allocated_bytes.all.current"],
                           peak_allocated=stats["allocated_bytes.all.peak"],
                           requested=stats["requested_bytes.all.current"],
                           peak_requested=stats["requested_bytes.all.peak"],
                           reserved=stats["reserved_bytes.all.current"],
                           peak_reserved=stats["reserved_bytes.all.peak"]))
        torch.cuda.reset_peak_memory_stats()

    start = time.perf_counter()
    if run["framework"] != "plain":
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", rank=0, world_size=run["world"], store=FakeStore())
    model = build(run)
    phase("model", start)
    start = time.perf_counter()
    model = wrap(model, run)
    parameters = [p for p in model.parameters() if p.requires_grad]
    flavour = {"fused": dict(fused=True), "foreach": dict(foreach=True),
               "for-loop": dict(foreach=False)}[run["optimizer"]]
    if run["fsdp"].get("offload"):
        flavour = {}
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, **flavour)
    phase("engine", start)
    vocabulary = run["model"]["vocab_size"]
    for step in range(1, run["steps"] + 1):
        for micro in range(run["gas"]):
            boundary = micro == run["gas"] - 1
            start = time.perf_counter()
            ids = torch.randint(0, vocabulary, (run["batch"], run["seq"]), device="cuda")
            kwargs = {}
            if run["mask"]:
                mask = torch.ones_like(ids)
                mask[:, -7:] = 0
                kwargs["attention_mask"] = mask
            autocast = torch.autocast("cuda", torch.bfloat16) if run["autocast"] \
                else contextlib.nullcontext()
            sync = model.no_sync() if run["framework"] == "ddp" and not boundary \
                else contextlib.nullcontext()
            with sync, attention(run):
                with autocast:
                    outputs = model(input_ids=ids, labels=ids, **kwargs)
                    loss = outputs.loss / run["gas"]
                if not run["keep"]:
                    del outputs
                phase("s%dm%d_fwd" % (step, micro), start)
                start = time.perf_counter()
                loss.backward()
            del loss
            phase("s%dm%d_bwd" % (step, micro), start)
        start = time.perf_counter()
        if run["clip"]:
            torch.nn.utils.clip_grad_norm_(parameters, run["clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if run["keep"]:
            del outputs
        phase("s%d_step" % step, start)
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    handles = {0: 0}
    with gzip.open(os.path.join(out, name + ".csv.gz"), "wt", compresslevel=9) as file:
        file.write("action,addr,size,stream,time_us\n")
        for entry in snapshot["device_traces"][0]:
            if entry["action"] == "snapshot":
                continue
            stream = handles.setdefault(entry["stream"], entry["stream"])
            file.write("%s,%d,%d,%d,%d\n" % (entry["action"], entry.get("addr", entry.get("device_free")),
                                             entry["size"], stream, entry["time_us"]))
    import transformers
    pinned = {}
    try:
        pinned = {k: v for k, v in torch.cuda.host_memory_stats().items()
                  if k in ("allocated_bytes.peak", "allocated_bytes.current", "active_bytes.peak")}
    except Exception:       # not in every version
        pass
    with open(os.path.join(out, name + ".json"), "w") as file:
        file.write(json.dumps(dict(id=name, torch=torch.__version__, transformers=transformers.__version__,
                                   gpu=torch.cuda.get_device_name(0), **run, phases=phases,
                                   pinned=pinned)) + "\n")
    print(name, "ok", phases[-2]["peak_allocated"] >> 20, "MiB", len(snapshot["device_traces"][0]), "entries",
          flush=True)


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    names = sys.argv[2:] or list(RUNS)
    if len(names) == 1:
        record(names[0], dict(BASE, **RUNS[names[0]]), out)
        return
    from concurrent.futures import ThreadPoolExecutor

    def start(name):         # a process each: every history begins with an empty allocator
        if os.system("%s %s %s %s" % (sys.executable, os.path.abspath(__file__), out, name)) != 0:
            print(name, "failed", flush=True)

    # JOBS at once: bytes do not depend on it, times do
    with ThreadPoolExecutor(int(os.environ.get("JOBS", "1"))) as pool:
        list(pool.map(start, names))


if __name__ == "__main__":
    main()
