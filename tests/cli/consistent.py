# consistent.py: numbers of one run must not contradict one another.  SPDX-License-Identifier: MIT
"""Usage: consistent.py ZEROSIM: runs a table of scenarios and prints TAP.

Parts sum to their whole, reserved is not below allocated, nothing is negative, no line of the text is
wider than a terminal."""
import itertools
import json
import os
import subprocess
import sys
import tempfile

ZERO = {"zero0": {"stage": 0}, "zero1": {"stage": 1}, "zero2": {"stage": 2}, "zero3": {"stage": 3},
        "zero2-offload": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "zero3-offload": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
        "zero3-nvme": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"},
                       "offload_param": {"device": "nvme", "nvme_path": "/nvme"}}}
JOBS = [("llama-3.2-1b", "2x4090", 1), ("llama-7b", "2xA100-40G", 1), ("llama-2-7b", "8xH100", 2),
        ("qwen2.5-0.5b", "1xT4", 1), ("llama-2-70b", "8xH100", 4)]
# without the input embeddings, which multiply nothing
PARAMETERS = {"llama-3.2-1b": 1.236e9, "llama-7b": 6.607e9, "llama-2-7b": 6.607e9, "qwen2.5-0.5b": 0.494e9,
              "llama-2-70b": 68.71e9}
OPTIONS = [[], ["--checkpointing", "2", "--lora", "8:q_proj,v_proj"],
           ["--accumulation", "3", "--checkpointing", "2", "--attention", "eager"],
           ["--set", "training.alloc_conf=expandable_segments:True", "--micro-batch", "2"]]


def scenario(method):
    training = {"framework": method}
    cluster = {"gpu": "t4"}
    if method in ZERO:
        training = {"deepspeed": {"zero_optimization": ZERO[method], "bf16": {"enabled": "auto"},
                                  "fp16": {"enabled": "auto"},
                                  "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}}}
    if method == "zero3-nvme":
        cluster["nvme"] = {"read": "6 GB/s", "write": "3 GB/s"}
    return json.dumps({"model": "llama-7b", "cluster": cluster, "training": training})


def negatives(value, path=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from negatives(inner, path + "." + key)
    elif isinstance(value, list):
        for inner in value:
            yield from negatives(inner, path)
    elif isinstance(value, (int, float)) and value < 0 and not path.endswith((".layer", ".rank")):
        yield "%s is %s" % (path, value)


def contradictions(r, parameters, lora):
    oom = r.get("oom")
    allocated, reserved = r["peak_allocated_bytes"], r["peak_reserved_bytes"]
    held = sum(holder["bytes"] for holder in r["peak_holders"])
    outside = r["context_bytes"] + r["communicator_bytes"]
    yield from negatives(r)
    if reserved < allocated:
        yield "reserved %d below allocated %d" % (reserved, allocated)
    # the two peaks need not be at the same time: NCCL takes its memory with the first collective
    if not reserved + r["context_bytes"] <= r["peak_device_bytes"] <= reserved + outside:
        yield "peak of the GPU %d is not within reserved %d and %d outside" % (r["peak_device_bytes"], reserved, outside)
    if held != (oom["allocated_bytes"] if oom else allocated):
        yield "holders sum to %d" % held
    if not 0 <= r["mfu"] < 1:
        yield "MFU %g" % r["mfu"]
    per_token = r["tflops_per_gpu"] * 1e12 / max(r["tokens_per_second_per_gpu"], 1) / parameters
    wanted = 4 if lora else 6   # frozen weights have no gradients
    if not oom and not wanted <= per_token < 1.3 * wanted:
        yield "%g floating point operations a token and parameter" % per_token
    if oom:
        if oom["step"] > 0 and (allocated < oom["allocated_bytes"] or reserved < oom["reserved_bytes"]):
            yield "peaks %d, %d below what there was when it failed: %d, %d" % (
                allocated, reserved, oom["allocated_bytes"], oom["reserved_bytes"])
        if oom["reserved_bytes"] + outside > r["gpu_memory_bytes"]:
            yield "more in use than the GPU has"
        if oom["tried_bytes"] <= oom["free_bytes"]:
            yield "it would have fitted"
        return
    steps = [step for step in r["steps"] if step["step"] > 0]
    if r["peak_device_bytes"] > r["gpu_memory_bytes"]:
        yield "fits in more than the GPU has"
    if sum(r["time"].values()) != r["step_time_ps"] or steps[-1]["time_ps"] != r["step_time_ps"]:
        yield "the parts of the time do not sum"
    for step in steps:
        if sum(phase["time_ps"] for phase in step["phases"]) != step["time_ps"]:
            yield "phases of step %d do not sum" % step["step"]
    for key, peak in (("peak_allocated_bytes", allocated), ("peak_reserved_bytes", reserved)):
        if max(phase[key] for step in steps for phase in step["phases"]) != peak:
            yield "%s is of no phase" % key


def main():
    zerosim, number, failed = sys.argv[1], 0, []
    cases = list(itertools.product(list(ZERO) + ["fsdp", "fsdp2", "ddp", "single"], JOBS))
    print("1..%d" % len(cases), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, (method, (model, gpus, nodes)) in enumerate(cases, 1):
            path = os.path.join(folder, method + ".yaml")
            with open(path, "w") as file:
                file.write(scenario(method))
            bad = []
            if method == "single":
                gpus, nodes = "1" + gpus[1:], 1
            # every case meets every option, but not every pair of case and option is run
            option = OPTIONS[(number + number // len(JOBS)) % len(OPTIONS)]
            command = [zerosim, "run", path, "--model", model, "--gpus", gpus, "--nodes", str(nodes),
                       "--network", "ib-hdr-200", "--seq", "1024"] + option
            run = subprocess.run(command + ["--json"], capture_output=True, text=True)
            if run.returncode != 0 or run.stderr:
                bad.append("status %d %s" % (run.returncode, run.stderr))
            else:
                bad += contradictions(json.loads(run.stdout), PARAMETERS[model], "--lora" in option)
            quiet = [] if number % 4 == 0 else ["--no-advice"]   # which takes ten runs
            text = subprocess.run(command + quiet, capture_output=True, text=True).stdout
            bad += ["wide: " + line for line in text.split("\n") if len(line) > 80 and "https://" not in line]
            bad += ["odd: " + line for line in text.split("\n") if "nan" in line.split() or "-nan" in line]
            print("%s %d - %s of %s on %d x %s %s" % ("not ok" if bad else "ok", number, method, model,
                                                      nodes, gpus, " ".join(option)), flush=True)
            for line in bad[:5]:
                print("# " + line)


main()
