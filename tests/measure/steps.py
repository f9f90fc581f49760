# SPDX-License-Identifier: MIT
"""Steps of FSDP2 on LLaMA shapes: time of each phase, and the allocator's peaks in it.

As on one GPU before: fp32 parameters built on the GPU, wrapped layer by layer, bf16 in between and fp32
to reduce, transformers' own loss, random tokens without a mask, fused AdamW, no clipping; gradients are
set to None at the end of the optimizer's phase.  Each phase ends with a synchronisation; afterwards the
same steps run freely."""
import json
import os
import statistics
import time

PHASES = ("forward", "backward", "optimizer")
SYNCHRONISED, FREE = 8, 6
# name: model, micro-batch, sequence, reshard after forward, checkpointing, clipping
CASES = {
    "7b-z3": ("llama-7b", 1, 2048, True, False, 0.0),
    "7b-z2": ("llama-7b", 1, 2048, False, False, 0.0),
    "7b-z3-ck": ("llama-7b", 4, 2048, True, True, 0.0),
    "7b-z2-ck": ("llama-7b", 4, 2048, False, True, 0.0),
    "1b-z3": ("llama-3.2-1b", 2, 2048, True, False, 0.0),
    "1b-z2": ("llama-3.2-1b", 2, 2048, False, False, 0.0),
    "1b-z3-ck": ("llama-3.2-1b", 4, 2048, True, True, 0.0),
    "1b-z2-ck": ("llama-3.2-1b", 4, 2048, False, True, 0.0),
    "1b-z3-clip": ("llama-3.2-1b", 4, 1024, True, False, 1.0),
    "7b-z3-small": ("llama-7b", 1, 512, True, False, 0.0),
}


def build(context, name, reshard, checkpointing):
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from transformers import LlamaConfig, LlamaForCausalLM
    with open(os.path.join(context.options.models, name + ".json")) as file:
        fields = json.load(file)
    for extra in ("name", "aliases", "source", "architectures", "model_type", "torch_dtype"):
        fields.pop(extra, None)
    config = LlamaConfig(use_cache=False, **fields)
    config._attn_implementation = "sdpa"
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mp_policy=policy, reshard_after_forward=reshard)
    return model, config


def counters(torch):
    values = (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(),
              torch.cuda.memory_allocated())
    torch.cuda.reset_peak_memory_stats()
    return values


def run_case(context, case):
    name, batch, length, reshard, checkpointing, clip = CASES[case]
    context.open(90)
    torch = context.torch
    context.meet()                             # the communicator exists before memory is counted
    torch.cuda.reset_peak_memory_stats()
    model, config = build(context, name, reshard, checkpointing)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    context.say("%s built" % case)
    row = dict(ranks=context.world, case=case, model=name, micro_batch=batch, sequence=length,
               reshard=int(reshard), checkpointing=int(checkpointing), clip=clip)
    peak, reserved, end = counters(torch)
    context.emit("step", step=0, phase="init", peak_allocated=peak, peak_reserved=reserved,
                 end_allocated=end, **row)
    torch.manual_seed(2 + context.rank)
    tokens = torch.randint(0, config.vocab_size, (batch, length), device="cuda")
    loss = None

    def forward():
        nonlocal loss
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss

    def backward():
        nonlocal loss
        loss.backward()
        loss = None

    def update():
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    calls = list(zip(PHASES, (forward, backward, update)))
    times = {phase: [] for phase in PHASES}
    for step in range(1, SYNCHRONISED + 1):
        context.meet()
        for phase, call in calls:
            before = time.perf_counter()
            call()
            torch.cuda.synchronize()
            times[phase].append(1000 * (time.perf_counter() - before))
            peak, reserved, end = counters(torch)
            if step <= 3 or step == SYNCHRONISED:
                context.emit("step", step=step, phase=phase, peak_allocated=peak, peak_reserved=reserved,
                             end_allocated=end, **row)
    by_rank = context.gather([statistics.median(times[phase][3:]) for phase in PHASES])
    free, total = torch.cuda.mem_get_info()
    for index, phase in enumerate(PHASES):
        context.emit("step", step="synchronised", phase=phase, ms=round(by_rank[0][index], 3),
                     ms_most=round(max(ms[index] for ms in by_rank), 3),
                     ms_least=round(min(ms[index] for ms in by_rank), 3), **row)
    freely(context, calls, row)
    context.emit("step", step="end", phase="all", used=total - free,
                 end_reserved=torch.cuda.memory_reserved(), **row)
    context.say("%s done" % case)


def freely(context, calls, row):
    """Steps without a synchronisation in between: the wall clock over all, and events between phases."""
    torch = context.torch
    events = []
    context.meet()
    for step in range(FREE):
        if step == 1:
            torch.cuda.synchronize()
            before = time.perf_counter()
        for _, call in calls:
            events.append(torch.cuda.Event(enable_timing=True))
            events[-1].record()
            call()
    events.append(torch.cuda.Event(enable_timing=True))
    events[-1].record()
    torch.cuda.synchronize()
    wall = 1000 * (time.perf_counter() - before) / (FREE - 1)
    spans = [a.elapsed_time(b) for a, b in zip(events[:-1], events[1:])]
    middle = [statistics.median(spans[3 + index::3]) for index in range(3)]
    by_rank = context.gather(middle + [wall])
    for index, phase in enumerate(PHASES + ("all",)):
        context.emit("step", step="free", phase=phase, ms=round(by_rank[0][index], 3),
                     ms_most=round(max(ms[index] for ms in by_rank), 3),
                     ms_least=round(min(ms[index] for ms in by_rank), 3), **row)
