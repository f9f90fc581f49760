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
import subprocess
import sys
import time

import torch
import torch.distributed as dist

from lengths import padded, samples
from runs import BASE, LENGTHS, MORE, RUNS

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def build(run):
    import transformers
    config = transformers.AutoConfig.for_model(**{k: v for k, v in run["model"].items()})
    config.use_cache = run.get("use_cache", False)
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
            modules_to_save=lora.get("save"), task_type="CAUSAL_LM"), autocast_adapter_dtype=not lora["bf16"])
    if run["ckpt"] != "none":
        model.gradient_checkpointing_enable(dict(use_reentrant=run["ckpt"] == "reentrant"))
        if run["lora"]:
            model.enable_input_require_grads()
    model.train()
    return model


def wrap(model, run):
    base = model.get_base_model() if run["lora"] else model
    layers = base.get_decoder().layers if hasattr(base, "get_decoder") else base.model.layers
    reduce = DTYPES[run["fsdp"].get("reduce", "fp32")]
    pure = run["fsdp"].get("pure", False)
    if run["framework"] == "ddp":
        wrapped = torch.nn.parallel.DistributedDataParallel(
            model, device_ids=[torch.cuda.current_device()], **run.get("ddp", {}))
        if run.get("real"):
            return wrapped

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
        if run["fsdp"].get("embed"):
            fully_shard(base.get_input_embeddings(), **kwargs)
        fully_shard(model, **kwargs)
        return model
    if run["framework"] == "fsdp1":
        import functools
        from torch.distributed.fsdp import (BackwardPrefetch, CPUOffload, FullyShardedDataParallel,
                                            MixedPrecision, ShardingStrategy)
        from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={type(layers[0])})
        precision = None if pure else MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=reduce,
                                                     buffer_dtype=torch.bfloat16)
        prefetch = {"PRE": BackwardPrefetch.BACKWARD_PRE, "POST": BackwardPrefetch.BACKWARD_POST,
                    "NONE": None}[run["fsdp"].get("prefetch", "PRE")]
        return FullyShardedDataParallel(
            model, auto_wrap_policy=policy, mixed_precision=precision,
            device_id=torch.cuda.current_device(), backward_prefetch=prefetch,
            cpu_offload=CPUOffload(offload_params=True) if run["fsdp"].get("offload") else None,
            sharding_strategy=ShardingStrategy[run["fsdp"].get("strategy", "FULL_SHARD")],
            use_orig_params=run["fsdp"].get("orig", False))
    return model


def attention(run):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    names = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
             "math": SDPBackend.MATH}
    return sdpa_kernel(names[run["backend"]]) if run["backend"] else contextlib.nullcontext()


def optimizer_of(model, run):
    parameters = [p for p in model.parameters() if p.requires_grad]
    if run["optimizer"].startswith("sgd"):
        return torch.optim.SGD(parameters, lr=1e-5, momentum=0.9 * run["optimizer"].endswith("momentum"))
    if run["optimizer"] == "adafactor":
        from transformers.optimization import Adafactor
        return Adafactor(parameters, lr=1e-5, scale_parameter=False, relative_step=False)
    flavour = {"fused": dict(fused=True), "foreach": dict(foreach=True),
               "for-loop": dict(foreach=False)}[run["optimizer"]]
    if run["fsdp"].get("offload"):
        flavour = {}
    if run.get("groups") == 2:      # as the Trainer's: with and without weight decay
        parameters = [dict(params=[p for p in parameters if p.dim() > 1], weight_decay=0.01),
                      dict(params=[p for p in parameters if p.dim() <= 1], weight_decay=0.0)]
    return torch.optim.AdamW(parameters, lr=1e-5, **flavour)


def batch_of(run, number):
    if run.get("lengths"):
        each = samples(run["lengths"], number, run["batch"])
        seq = padded(run["lengths"], each)
        ids = torch.randint(0, run["model"]["vocab_size"], (run["batch"], seq), device="cuda")
        if not run["mask"]:
            return ids, {}
        rows = torch.arange(seq)[None] < torch.tensor(each)[:, None]
        mask = torch.empty_like(ids)
        mask.copy_(rows)
        return ids, dict(attention_mask=mask)
    ids = torch.randint(0, run["model"]["vocab_size"], (run["batch"], run["seq"]), device="cuda")
    kwargs = {}
    if run["mask"]:
        kwargs["attention_mask"] = torch.ones_like(ids)
        if run["mask"] != "ones":
            kwargs["attention_mask"][:, -7:] = 0
    if run.get("positions"):
        every = run["seq"] // 4 if run["positions"] == "packed" else run["seq"]
        kwargs["position_ids"] = (torch.arange(run["seq"], device="cuda") % every)[None].expand(run["batch"], -1)
    return ids, kwargs


def train(model, run, phase):
    optimizer = optimizer_of(model, run)
    scaler = torch.amp.GradScaler("cuda") if run.get("scaler") else None
    phase("engine")
    boundary_only = run["framework"] == "ddp" or run["fsdp"].get("no_sync")
    for step in range(1, run["steps"] + 1):
        for micro in range(run["gas"]):
            boundary = micro == run["gas"] - 1
            ids, kwargs = batch_of(run, (step - 1) * run["gas"] + micro)
            autocast = torch.autocast("cuda", torch.float16 if run["autocast"] == "fp16" else torch.bfloat16) \
                if run["autocast"] else contextlib.nullcontext()
            sync = contextlib.nullcontext()
            if boundary_only and run["framework"] == "fsdp2":
                model.set_requires_gradient_sync(boundary)
            elif boundary_only and not boundary:
                sync = model.no_sync()
            with sync, attention(run):
                with autocast:
                    outputs = model(input_ids=ids, labels=ids, **kwargs)
                    loss = outputs.loss / run["gas"]
                if not run["keep"]:
                    del outputs
                phase("s%dm%d_fwd" % (step, micro))
                if scaler:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
            del loss
            phase("s%dm%d_bwd" % (step, micro))
        if scaler:
            scaler.unscale_(optimizer)
        if run["clip"] and run["framework"] == "fsdp1":
            model.clip_grad_norm_(run["clip"])
        elif run["clip"]:
            torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], run["clip"])
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if run.get("empty") and step % run["empty"] == 0:
            torch.cuda.empty_cache()
        if run["keep"]:
            del outputs
        phase("s%d_step" % step)


def train_with_trainer(model, run, phase, out):
    """transformers' Trainer: its loader, autocast, clipping (1.0) and optimizer."""
    import transformers
    place = dict(step=1, micro=0)

    class Marked(transformers.Trainer):
        def _get_train_sampler(self, *args, **kwargs):
            if run.get("lengths"):
                return torch.utils.data.SequentialSampler(self.train_dataset)
            return super()._get_train_sampler(*args, **kwargs)

        def compute_loss(self, *args, **kwargs):
            loss = super().compute_loss(*args, **kwargs)
            phase("s%dm%d_fwd" % (place["step"], place["micro"]))
            return loss

        def training_step(self, *args, **kwargs):
            loss = super().training_step(*args, **kwargs)
            phase("s%dm%d_bwd" % (place["step"], place["micro"]))
            place["micro"] += 1
            return loss

    class Steps(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            phase("s%d_step" % place["step"])
            place.update(step=place["step"] + 1, micro=0)

    generator = torch.Generator().manual_seed(1)
    collator = transformers.default_data_collator
    rows = []
    for _ in range(run["batch"] * run["gas"] * run["steps"] * 2):
        ids = torch.randint(0, run["model"]["vocab_size"], (run["seq"],), generator=generator)
        rows.append(dict(input_ids=ids, labels=ids.clone(), attention_mask=torch.ones_like(ids)))
    if run.get("lengths"):
        rows = [torch.randint(0, run["model"]["vocab_size"], (n,), generator=generator)
                for number in range(run["gas"] * (run["steps"] + 2)) for n in samples(run["lengths"], number, run["batch"])]
        rows = [dict(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids.clone()) for ids in rows]

        def collator(features):      # as DataCollatorForSeq2Seq pads, to the right
            longest = padded(run["lengths"], [len(f["input_ids"]) for f in features])
            fill = dict(input_ids=0, attention_mask=0, labels=-100)
            return {key: torch.stack([torch.nn.functional.pad(f[key], (0, longest - len(f[key])), value=value)
                                      for f in features]) for key, value in fill.items()}
    given = dict(bf16=not run["trainer"].get("fp16"))
    given.update(run["trainer"])
    arguments = transformers.TrainingArguments(
        output_dir=out, per_device_train_batch_size=run["batch"], gradient_accumulation_steps=run["gas"],
        max_steps=run["steps"], save_strategy="no", report_to=[], logging_strategy="no", disable_tqdm=True,
        learning_rate=1e-5, gradient_checkpointing=run["ckpt"] != "none", **given)
    trainer = Marked(model=model, args=arguments, train_dataset=rows, callbacks=[Steps()],
                     data_collator=collator)
    phase("engine")
    trainer.train()


def record(name, run, out):
    real = int(run.get("real", 0))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    torch.cuda.set_device(local)
    torch.cuda.empty_cache()
    torch.manual_seed(1)
    phases = []
    total = torch.cuda.get_device_properties(local).total_memory
    if run.get("cap"):
        torch.cuda.set_per_process_memory_fraction(run["cap"] * 2**30 / total)
    torch.cuda.memory._record_memory_history(max_entries=2000000, context=None)
    torch.cuda.reset_peak_memory_stats()
    clock = [time.perf_counter()]
    history = []

    def keep_history():
        history.extend(torch.cuda.memory._snapshot()["device_traces"][local])
        torch.cuda.memory._record_memory_history(enabled=None)

    def phase(label):
        if run.get("history") and not history and label.startswith("s%dm" % (run["history"] + 1)):
            keep_history()
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        phases.append(dict(phase=label, end_us=time.time_ns() // 1000,
                           ms=round((time.perf_counter() - clock[0]) * 1e3, 3),
                           allocated=stats["allocated_bytes.all.current"],
                           peak_allocated=stats["allocated_bytes.all.peak"],
                           requested=stats["requested_bytes.all.current"],
                           peak_requested=stats["requested_bytes.all.peak"],
                           reserved=stats["reserved_bytes.all.current"],
                           peak_reserved=stats["reserved_bytes.all.peak"]))
        torch.cuda.reset_peak_memory_stats()
        clock[0] = time.perf_counter()

    if real:
        dist.init_process_group("nccl")
    elif run["framework"] != "plain":
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", rank=0, world_size=run["world"], store=FakeStore())
    failure = None
    try:
        model = build(run)
        phase("model")
        model = wrap(model, run)
        if run.get("trainer") is not None:
            train_with_trainer(model, run, phase, os.path.join(out, name + "-trainer"))
        else:
            train(model, run, phase)
    except torch.OutOfMemoryError as error:
        failure = str(error)
        phase("oom")
    if local > 0:
        dist.barrier()
        os._exit(0)
    if not history:
        keep_history()
    handles = {0: 0}
    with gzip.open(os.path.join(out, name + ".csv.gz"), "wt", compresslevel=9) as file:
        file.write("action,addr,size,stream,time_us\n")
        for entry in history:
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
                                   gpu=torch.cuda.get_device_name(0), **run, phases=phases, pinned=pinned, oom=failure,
                                   retries=torch.cuda.memory_stats()["num_alloc_retries"])) + "\n")
    print(name, "oom" if failure else "ok", max(p["peak_allocated"] for p in phases) >> 20, "MiB", len(history), "entries",
          flush=True)
    if real:
        dist.barrier()
        os._exit(0)


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    names = sys.argv[2:] or list(RUNS)
    if names == ["more"]:
        names = list(MORE)
    if names == ["lengths"]:
        names = list(LENGTHS)
    known = {**RUNS, **MORE, **LENGTHS}
    if len(names) == 1:
        record(names[0], dict(BASE, **known[names[0]]), out)
        return
    from concurrent.futures import ThreadPoolExecutor

    gpus = torch.cuda.device_count()

    def start(job):          # a process each: every history begins with an empty allocator
        number, name = job
        command = [sys.executable, os.path.abspath(__file__), out, name]
        seen = str(number % gpus)
        if known[name].get("real"):
            command[1:1] = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
                            "--rdzv-endpoint", "localhost:0"]
            seen = "%d,%d" % (number % gpus, (number + 1) % gpus)
        try:
            conf = dict(PYTORCH_CUDA_ALLOC_CONF=known[name]["conf"]) if known[name].get("conf") else {}
            done = subprocess.run(command, env=dict(os.environ, CUDA_VISIBLE_DEVICES=seen, OMP_NUM_THREADS="2", **conf),
                                  timeout=150, capture_output=True, text=True)
            print(done.stdout, end="", flush=True)
            if done.returncode != 0:
                print(name, "failed:", done.stderr[-600:], flush=True)
        except subprocess.TimeoutExpired:
            print(name, "took too long", flush=True)

    # JOBS at once: bytes do not depend on it, times do
    with ThreadPoolExecutor(int(os.environ.get("JOBS", "1"))) as pool:
        list(pool.map(start, enumerate(names)))


if __name__ == "__main__":
    main()
