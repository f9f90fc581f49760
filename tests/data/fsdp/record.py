# SPDX-License-Identifier: MIT
"""record.py OUT: allocator histories of rank 0 of FSDP jobs on one GPU.

Collectives go through PyTorch's fake process group: no time, no memory outside torch.  Writes
trace_NAME.csv.gz, phases.tsv, runs.jsonl, and frames_NAME.txt.gz (who allocates; not kept here)."""
import functools
import gc
import gzip
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import (BackwardPrefetch, CPUOffloadPolicy, FullyShardedDataParallel as FSDP,
                                    MixedPrecision, MixedPrecisionPolicy, ShardingStrategy, fully_shard)
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

OUT = sys.argv[1]
MODELS = {"llama1b": dict(h=2048, ffn=8192, layers=16, heads=32, kv=8, vocab=128256, tied=True),
          "tinyllama": dict(h=2048, ffn=5632, layers=22, heads=32, kv=4, vocab=32000, tied=False),
          "small": dict(h=1024, ffn=2816, layers=4, heads=16, kv=4, vocab=32000, tied=False)}
BASE = dict(version=1, model="small", world=8, mbs=1, seq=1024, gas=1, ckpt="none", strategy="FULL_SHARD",
            orig=True, prefetch="PRE", limit=True, reduce="fp32", build="cuda", offload=False, lora=0,
            steps=3, clip=True, no_sync=False)
RUNS = {
    "f1_1b_ck": dict(model="llama1b", seq=2048, ckpt="nonreentrant"),
    "f1_tl": dict(model="tinyllama", world=4),
    "f1_tl_flat": dict(model="tinyllama", world=4, orig=False, reduce="bf16", prefetch="none"),
    "f1_tl_cpu": dict(model="tinyllama", world=4, build="cpu"),
    "f1_small": dict(),
    "f1_small_odd": dict(world=7),
    "f1_small_odd_flat": dict(world=7, orig=False),
    "f1_small_grad_op": dict(strategy="SHARD_GRAD_OP"),
    "f1_small_flat": dict(orig=False),
    "f1_small_rbf16": dict(reduce="bf16"),
    "f1_small_nolimit": dict(limit=False),
    "f1_small_post": dict(prefetch="POST"),
    "f1_small_noprefetch": dict(prefetch="none"),
    "f1_small_gas2": dict(gas=2),
    "f1_small_nosync": dict(gas=2, no_sync=True),
    "f1_small_ck": dict(ckpt="nonreentrant"),
    "f1_small_ckre": dict(ckpt="reentrant"),
    "f2_small_offload": dict(version=2, offload=True),
    "f2_small_lora": dict(version=2, lora=8),
    "f2_small_odd": dict(version=2, world=7),
}


def build(run):
    d = MODELS[run["model"]]
    config = LlamaConfig(hidden_size=d["h"], intermediate_size=d["ffn"], num_hidden_layers=d["layers"],
                         num_attention_heads=d["heads"], num_key_value_heads=d["kv"], vocab_size=d["vocab"],
                         tie_word_embeddings=d["tied"], max_position_embeddings=8192, use_cache=False)
    with torch.device(run["build"]):
        model = LlamaForCausalLM(config)
    if run["lora"]:
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(model, LoraConfig(r=run["lora"], target_modules=["q_proj", "v_proj"]))
    if run["ckpt"] != "none":
        model.gradient_checkpointing_enable({"use_reentrant": run["ckpt"] == "reentrant"})
    model.train()
    return model


def wrap(run, model):
    reduce = {"fp32": torch.float32, "bf16": torch.bfloat16}[run["reduce"]]
    if run["version"] == 2:
        options = dict(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce),
                       reshard_after_forward=True)
        if run["offload"]:
            options["offload_policy"] = CPUOffloadPolicy(pin_memory=True)
        for module in model.modules():
            if isinstance(module, LlamaDecoderLayer):
                fully_shard(module, **options)
        fully_shard(model, **options)
        return model
    prefetch = {"PRE": BackwardPrefetch.BACKWARD_PRE, "POST": BackwardPrefetch.BACKWARD_POST, "none": None}
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer})
    return FSDP(model, auto_wrap_policy=policy, device_id=torch.cuda.current_device(),
                sharding_strategy=ShardingStrategy[run["strategy"]], use_orig_params=run["orig"],
                mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=reduce,
                                               buffer_dtype=torch.bfloat16),
                backward_prefetch=prefetch[run["prefetch"]], limit_all_gathers=run["limit"])


def frame_line(frames):
    names = [f"{f['filename'].split('/')[-1]}:{f['line']}:{f['name']}" for f in frames
             if "/torch/" in f["filename"] or "transformers" in f["filename"]]
    return " < ".join(names[:6])


def record(name, run, phases, frames):
    torch.cuda.memory._record_memory_history(enabled="all", context="all" if frames else None,
                                             stacks="python", max_entries=10 ** 7)

    def phase(label):
        torch.cuda.synchronize()
        s = torch.cuda.memory_stats()
        phases.write("\t".join(map(str, [name, label, time.time_ns() // 1000, s["allocated_bytes.all.current"],
                     s["allocated_bytes.all.peak"], s["reserved_bytes.all.current"],
                     s["reserved_bytes.all.peak"]])) + "\n")
        torch.cuda.reset_peak_memory_stats()
        time.sleep(0.001)

    vocab = MODELS[run["model"]]["vocab"]
    ids = torch.randint(0, vocab, (run["mbs"], run["seq"]), device="cuda")
    model = build(run)
    phase("model")
    model = wrap(run, model)
    phase("engine")
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, **({} if run["offload"] else {"fused": True}))
    for step in range(1, run["steps"] + 1):
        for micro in range(run["gas"]):
            last = micro == run["gas"] - 1
            sync = model.no_sync() if run["no_sync"] and not last else open(os.devnull)
            with sync:
                loss = model(input_ids=ids, labels=ids).loss
                phase(f"s{step}m{micro}_fwd")
                loss.backward()
                phase(f"s{step}m{micro}_bwd")
        if run["clip"] and not run["offload"]:
            if run["version"] == 1:
                model.clip_grad_norm_(1.0)
            else:
                torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        phase(f"s{step}m0_step")
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    if frames:
        with gzip.open(f"{OUT}/frames_{name}.txt.gz", "wt") as file:
            for e in trace:
                file.write(f"{e['action']} {e.get('addr', 0)} {e['size']} {e['stream']} {e['time_us']} "
                           f"{frame_line(e.get('frames', []))}\n")
        return
    with gzip.open(f"{OUT}/trace_{name}.csv.gz", "wt") as file:
        file.write("action,addr,size,stream,time_us\n")
        for e in trace:
            file.write(f"{e['action']},{e.get('addr', 0)},{e['size']},{e['stream']},{e['time_us']}\n")


def copy_out_tables():
    """Bytes of the table that split_with_sizes_copy (out=) allocates, for sizes of shards."""
    rows = []
    for world in (2, 4, 8, 16, 64):
        for sizes in ([1 << k] for k in range(12, 27)), ([3 << 20, 1 << 18, 5 << 20, 512],), ([11 << 20] * 3,):
            for split in sizes:
                if sum(split) * world * 2 > 8 << 30:
                    continue
                flat = torch.empty(world, sum(split), dtype=torch.bfloat16, device="cuda")
                out = [torch.empty(world, n, dtype=torch.bfloat16, device="cuda") for n in split]
                torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=1000)
                torch.split_with_sizes_copy(flat, split, dim=1, out=out)
                trace = torch.cuda.memory._snapshot()["device_traces"][0]
                torch.cuda.memory._record_memory_history(enabled=None)
                rows.append([world, split, [e["size"] for e in trace if e["action"] == "alloc"]])
                del flat, out
                torch.cuda.empty_cache()
    with open(f"{OUT}/copy_out.json", "w") as file:
        json.dump(rows, file)


def main():
    only = set(sys.argv[2:])
    with open(f"{OUT}/phases.tsv", "w") as phases, open(f"{OUT}/runs.jsonl", "w") as runs:
        phases.write("trace\tphase\tend_us\tallocated_bytes\tpeak_allocated_bytes\treserved_bytes\tpeak_reserved_bytes\n")
        for name, options in RUNS.items():
            if only and name not in only:
                continue
            run = {**BASE, **options}
            pid = os.fork()   # an empty allocator for each
            if pid == 0:
                try:
                    torch.cuda.set_device(0)
                    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=run["world"])
                    record(name, run, phases, os.environ.get("FRAMES") == "1")
                    runs.write(json.dumps({"id": name, **run, "dims": MODELS[run["model"]],
                                           "torch": torch.__version__}) + "\n")
                except Exception as error:
                    import traceback
                    traceback.print_exc()
                    print("FAILED", name, error)
                phases.flush()
                runs.flush()
                os._exit(0)
            os.waitpid(pid, 0)
    if not only:
        copy_out_tables()


main()
