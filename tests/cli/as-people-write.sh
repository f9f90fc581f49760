#!/bin/sh
# SPDX-License-Identifier: MIT
# What people type: names as they write them, files of other programs, slips; each with what is said.
ZEROSIM_DATADIR=$top_srcdir; export ZEROSIM_DATADIR
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 99
cat >ds.json <<END
{"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto",
 "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}, "gradient_accumulation_steps": "auto"}
END
cat >accelerate.yaml <<END
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config: {gradient_accumulation_steps: 4, zero_stage: 3, offload_optimizer_device: cpu, offload_param_device: none}
mixed_precision: bf16
num_machines: 2
num_processes: 16
END
cat >fsdp.yaml <<END
distributed_type: FSDP
fsdp_config: {fsdp_sharding_strategy: FULL_SHARD, fsdp_offload_params: true}
mixed_precision: bf16
num_machines: 1
num_processes: 4
END
cat >args.json <<END
{"output_dir": "out", "per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, "bf16": true,
 "gradient_checkpointing": true, "deepspeed": "ds.json", "optim": "adamw_torch"}
END
# a key of TrainingArguments or of fsdp_config a line, with what is said of it: KIND|STATUS|PATTERN|TEXT
cat >keys <<'END'
args|0|FSDP2,.*checkpointing|"fsdp": "full_shard auto_wrap", "fsdp_config": {"fsdp_version": 2, "activation_checkpointing": true}
args|0|, FSDP2,|"fsdp": ["full_shard", "auto_wrap"]
args|0|, FSDP,|"fsdp": "full_shard", "fsdp_config": {"fsdp_version": 1}
args|0|, DDP,|"fsdp": "no_shard", "fsdp_config": {"version": 1}
args|1|only available with FSDP1|"fsdp": "no_shard"
args|1|only available with FSDP1|"fsdp": "hybrid_shard auto_wrap"
args|0|FSDP2 with CPU offload|"fsdp": "full_shard offload", "fsdp_config": {"use_orig_params": "false"}
args|0|FSDP2 with CPU offload|"fsdp": true, "fsdp_config": {"cpu_offload": true}
args|0|no key of Trainer's fsdp_config|"fsdp": true, "fsdp_config": {"fsdp_offload_params": true}
args|0|units by size|"fsdp": "full_shard", "fsdp_config": {"auto_wrap_policy": "SIZE_BASED_WRAP"}
args|0|micro-batch 8 x .*transformers' 8 is taken|"logging_steps": 10
args|0|bf16 under autocast|"bf16": true
args|0|fp32 under autocast|"fp16": true
args|0|bf16, attention|"bf16": true, "fsdp": true
args|0|has no effect on the products|"bf16": true, "tf32": true
args|0|simulated as adamw_torch|"optim": "lion_32bit"
args|1|not a valid OptimizerNames.*did you mean 'adamw_torch_fused'|"optim": "adamw_torch_fusd"
args|1|not a valid OptimizerNames|"optim": "adamw_hf"
args|0|one layer in 4|"gradient_checkpointing": true, "gradient_checkpointing_kwargs": {"every_n_layers": 4}
args|0|Liger's rope, swiglu, rms_norm, fused_linear_cross_entropy|"use_liger_kernel": true
args|0|no key of liger_kernel_config.*did you mean 'rms_norm'|"use_liger_kernel": true, "liger_kernel_config": {"rms_nrm": true}
args|0|Liger's swiglu, rms_norm, cross_entropy|"use_liger_kernel": true, "liger_kernel_config": {"rope": false, "fused_linear_cross_entropy": false, "cross_entropy": true}
args|0|no effect without use_liger_kernel|"liger_kernel_config": {"rope": false}
args|0|Liger's rope|"finetuning_type": "full", "enable_liger_kernel": true
args|0|Liger's rope|"use_liger": "true"
args|0|Liger's swiglu, rms_norm[^,]|"base_model": "llama-7b", "liger_rms_norm": true, "liger_glu_activation": true
args|1|cannot both be True|"use_liger_kernel": true, "liger_kernel_config": {"cross_entropy": true}
args|1|'use_liger_kernel' must be true or false|"use_liger_kernel": 2
args|1|'liger_kernel_config' must be a mapping|"use_liger_kernel": true, "liger_kernel_config": 7
args|0|torch.compile|"torch_compile": true
args|0|checkpointing \(reentrant\), fp32 under autocast.*LLaMA-Factory checkpoints|"finetuning_type": "full", "bf16": true
args|0|no checkpointing, bf16 under|"finetuning_type": "full", "pure_bf16": true, "bf16": true, "disable_gradient_checkpointing": true
args|0|LoRA r=8, .*sequence 256, checkpointing|"cutoff_len": 256
args|1|'flash_attn' must be|"finetuning_type": "full", "flash_attn": "fa4"
args|0|TRL from 0.20|"use_peft": true
args|0|, no checkpointing|"use_peft": true, "gradient_checkpointing": false
args|0|, checkpointing, bf16|"bf16": true, "gradient_checkpointing": false, "fsdp": ["full_shard"], "fsdp_config": {"activation_checkpointing": true}
args|0|, DDP, .*no checkpointing|"deepspeed": "", "fsdp": "", "gradient_checkpointing": false, "gradient_checkpointing_kwargs": null
args|0|all GPUs are data-parallel|"parallelism_config": {"tp_size": 2}
args|0|did you mean 'backward_prefetch'|"fsdp": "full_shard", "fsdp_config": {"backward_prefetc": "x"}
args|1|1:[0-9]+: 'fsdp' must be .*did you mean 'full_shard'|"fsdp": "full_shrd"
args|1|add full_shard|"fsdp": "offload"
args|1|none.json|"fsdp": "full_shard", "fsdp_config": "none.json"
args|1|not a number|"fsdp": "full_shard", "fsdp_config": 7
args|1|deactivate one|"fsdp": "full_shard", "deepspeed": "ds.json"
args|1|At most one of fp16 and bf16|"bf16": true, "fp16": true
args|1|'bf16' must be true or false|"bf16": "maybe"
args|1|'gradient_checkpointing' must be true or false|"gradient_checkpointing": 3
args|1|'optim' must be a word|"optim": [1]
args|1|'bucket_cap_mb' must be|"ddp_bucket_cap_mb": "x"
args|1|'bucket_cap_mb' must be|"deepspeed": null, "ddp_bucket_cap_mb": "x"
args|1|'empty_cache_steps' must be|"torch_empty_cache_steps": -4
args|0|did you mean 'per_device_train_batch_size'|"per_device_train_batch_siz": 4
args|0|DDP, LoRA r=8,|"finetuning_type": "lora", "lora_target": "q_proj, v_proj"
args|0|DDP, LoRA r=32,|"use_peft": true, "lora_r": 32, "load_in_4bit": true
args|0|DDP, [0-9]|"finetuning_type": "full", "lora_rank": 8
args|1|did you mean 'v_proj'|"finetuning_type": "lora", "lora_target": "q_proj,vproj"
args|1|'finetuning_type' must be lora or full|"finetuning_type": "freeze"
fsdp|0|, FSDP,|fsdp_sharding_strategy: 5
fsdp|0|whole model is one unit|fsdp_version: 1
fsdp|0|one unit|fsdp_auto_wrap_policy: NO_WRAP
fsdp|0|FSDP with CPU offload|fsdp_offload_params: 'True'
fsdp|1|did you mean 'FULL_SHARD'|fsdp_sharding_strategy: FULL_SHRD
fsdp|1|'fsdp_version' must be 1 or 2|fsdp_version: two
fsdp|1|must be true or false|fsdp_activation_checkpointing: maybe
fsdp|0|did you mean 'fsdp_backward_prefetch'|fsdp_bakward_prefetch: NO_PREFETCH
END
# a row of a machine alone: STATUS|PATTERN|TEXT
cat >machines <<'END'
0|copy_time h2d 256 MiB|copies: [{kind: h2d, bytes: 256 MiB, gpus: [0, 1], time: 5 ms}]
1|4:[0-9]+: there is no GPU 7: the node has 4|copies: [{kind: h2d, bytes: 256 MiB, gpus: [7], time: 5 ms}]
1|GPU 0 is named twice|copies: [{kind: h2d, bytes: 256 MiB, gpus: [0, 0], time: 5 ms}]
1|'gpus' is empty|copies: [{kind: h2d, bytes: 256 MiB, gpus: [], time: 5 ms}]
1|'time' must be at least|copies: [{kind: h2d, bytes: 256 MiB, time: 0 ms}]
1|nothing is measured|copies: []
1|need a model|step_time: 3 s
1|did you mean 'all_reduce'|collectives: [{op: all_reduc, bytes: 1 MiB, time: 1 ms}]
1|nothing is measured of this collective|collectives: [{op: all_reduce, bytes: 1 MiB}]
1|needs `beside`|collectives: [{op: all_reduce, bytes: 1 MiB, slowdown: 1.2}]
1|'time' must be at least|collectives: [{op: all_reduce, bytes: 1 MiB, time: 0 ms}]
1|unknown key 'modle'|copies: [{kind: h2d, bytes: 256 MiB, time: 5 ms}]#modle: llama-7b
END
n_machines=0
while IFS='|' read -r status pattern text; do
  n_machines=$((n_machines + 1))
  { printf 'cluster: {gpu: h100-sxm5-80gb, gpus_per_node: 4, fabric: nvswitch}\nmeasured:\n  source: x\n'
    echo "  $text" | tr '#' '\n'; } >machine$n_machines.yaml
  echo "$status|$pattern|validate machine$n_machines.yaml"
done <machines >machine-rows
n_keys=0
while IFS='|' read -r kind status pattern text; do
  n_keys=$((n_keys + 1))
  case $kind in
    args) file=key$n_keys.json; echo "{\"output_dir\": \"out\", $text}" >$file ;;
    *) file=key$n_keys.yaml
       printf 'distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config: {%s}\n' "$text" >$file ;;
  esac
  echo "$status|$pattern|run $file --model llama-3.2-1b --gpus 4xH100 --seq 256"
done <keys >key-rows
printf 'distributed_type: MULTI_GPU\nmixed_precision: bf61\n' >precision.yaml
echo '{"output_dir": "out", "bf16": true, "fsdp": "full_shrd"}' >shrd.json
printf 'distributed_type: MULTI_GPU\nmixed_precision: bf16\n' >multi.yaml
printf 'distributed_type: MULTI_GPU\nnum_proceses: 4\n' >unknown.yaml
printf 'distributed_type: MULTI_GPU\ndynamo_config: {dynamo_backend: INDUCTOR}\n' >compiled.yaml
printf 'distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config: {fsdp_version: 2, fsdp_activation_checkpointing: true, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}\n' >fsdp2.yaml
echo '{"output_dir": "out", "bf16": true, "fsdp": "full_shard auto_wrap"}' >trainer-fsdp.json
echo '{"output_dir": "out", "fp16": true, "tf32": true}' >tf32.json
cat >axolotl.yml <<END
base_model: NousResearch/Llama-3.2-1B
load_in_8bit: false
load_in_4bit: true
datasets:
  - path: teknium/GPT4-LLM-Cleaned
    type: alpaca
output_dir: ./outputs/out
adapter: qlora
sequence_len: 2048
sample_packing: true
lora_r: 32
lora_alpha: 16
lora_target_linear: true
gradient_accumulation_steps: 4
micro_batch_size: 2
optimizer: adamw_bnb_8bit
learning_rate: 0.0002
bf16: auto
tf32: false
gradient_checkpointing: true
flash_attention: true
special_tokens:
  pad_token: "<|end_of_text|>"
END
echo '{"metadata": {"total_size": 1}, "weight_map": {"lm_head.weight": "a"}}' >model.safetensors.index.json
echo '{"architectures": ["LlamaForSequenceClassification"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 1000}' >classifier.json
ln -s target link
cat >table <<'END'
0|unsloth/Llama-3.2-1B-Instruct.* is|run ds.json --model unsloth/Llama-3.2-1B-Instruct --gpus 2xH100
0|8 x h100|run ds.json --model llama-3.2-1b --gpus 8*H100
0|8 x h100|run ds.json --model llama-3.2-1b --gpus H100:8
0|4 x a100-sxm4-80gb|run ds.json --model llama-3.2-1b --gpus A100-80GBx4
0|1 x rtx-4090|run ds.json --model llama-3.2-1b --gpus RTX4090
0|micro-batch 1 x accumulation 1 x 1 rank,|run ds.json --model llama-3.2-1b --gpus 4090
0|8 x a100-sxm4-40gb|run ds.json --model llama-3.2-1b --gpus p4d.24xlarge
0|FITS|run ds.json --model llama-3.2-1b --gpus 2xH100 --fabric NVSwitch
1|did you mean 'nvswitch'|run ds.json --model llama-3.2-1b --gpus 2xH100 --fabric nvswich
1|no scenario 'zero33'; did you mean 'zero3'|run zero33
1|its config.json lies beside it|run ds.json --model ./model.safetensors.index.json --gpus 2xH100
0|LlamaForSequenceClassification is simulated with the head|run ds.json --model ./classifier.json --gpus 2xH100
1|zerosim list models. shows|run ds.json --model nomodel --gpus 2xH100
0|LoRA r=16|run ds.json --model llama-3.2-1b --gpus 2xH100 --lora 16:all-linear
0|ZeRO-3 with the optimizer on cpu, 2 nodes of 8|run accelerate.yaml --model llama-3.2-1b --gpus 8xH100
0|FSDP with CPU offload, 4 x|run fsdp.yaml --model llama-3.2-1b --gpus 4xH100
0|micro-batch 2 x accumulation 8 x 8 ranks, sequence 2048, checkpointing|run args.json --model llama-3.2-1b --gpus 8xH100
0|Choose stage=|compare accelerate.yaml --model llama-3.2-1b --gpus 8xH100 --vary stage=2,3
0|fits as it is|advise fsdp.yaml --model llama-3.2-1b --gpus 4xH100
0|llama-7b, ZeRO-3, 2 x|run zero3
0|this one has 23.64 GiB|run zero3 --gpus 4x4090
0|of 39.39 GiB|run zero3 --gpus 4xA100-40G
0|of 30 GiB|run zero3 --gpus 4x4090 --set gpu_memory=30GiB
0|8 x h100-sxm5-80gb|run zero3 --set instance=p5.48xlarge
0|39.59 GiB 79.19 GiB|compare zero3 --vary instance=p4d.24xlarge,p5.48xlarge
0|between nodes 8 x 48.* 75\.|collective all_reduce --gpus p5.48xlarge --nodes 2 --sizes 1K
0|between nodes 4 x 12.* 1[5-9][0-9]\.|collective all_reduce --gpus p4d.24xlarge --nodes 2 --sizes 1K
0|32 GPUs are in one node here.*--gpus 8xa100-sxm4-80gb --nodes 4|run ds.json --model llama-3.2-1b --gpus 32xA100-80G
0|FITS|run ds.json --model llama-3.2-1b --gpus a2-megagpu-16g
0|2 x h100-sxm5-80gb|run zero3 --set instance=p5.48xlarge --set gpus_per_node=2
0|NUMA 0 > GPU0|run zero3 --gpus p4d.24xlarge --fabric pcie --json
1|did you mean 'bf16'|run precision.yaml --model llama-3.2-1b --gpus 4xH100
0|ZeRO-2|compare zero3 zero2
0|LoRA r=32, 4 x .*micro-batch 2 x accumulation 4 x 4 ranks, sequence 2048, checkpointing, bf16 under autocast, attention flash|run axolotl.yml --gpus 4x4090
0|bitsandbytes. optimizers|run axolotl.yml --gpus 4x4090
0|bf16 under autocast|run multi.yaml --model llama-3.2-1b --gpus 4xH100
0|fp32 under autocast|run multi.yaml --model llama-3.2-1b --gpus 4xH100 --transformers-version 4.45
1|unknown.yaml:2:1: accelerate: .*unknown keys \(\['num_proceses'\]\)"; did you mean 'num_processes'|run unknown.yaml --model llama-3.2-1b --gpus 4xH100
1|unknown.yaml:2:1: .*unknown keys|check unknown.yaml
0|torch.compile|run compiled.yaml --model llama-3.2-1b --gpus 4xH100
0|FITS|run fsdp2.yaml --model llama-2-7b --gpus 8x4090 --seq 1024
0|, FSDP,|run trainer-fsdp.json --model llama-3.2-1b --gpus 4xH100 --transformers-version 4.45
1|numbers.json:1:[0-9]+: 'lr' is 2e-05 here but 1e-05 in the training arguments .learning_rate.|run args-1e-5.json --model llama-3.2-1b --gpus 2xH100
1|numbers.json:1:[0-9]+: error: 'lr' is 2e-05 here but 1e-05.*differs-from-arguments|check args-1e-5.json
0|micro-batch 2|run args-2e-5.json --model llama-3.2-1b --gpus 2xH100
0|micro-batch 2 .*unless learning_rate is given as that|run args-no.json --model llama-3.2-1b --gpus 2xH100
1|requires Ampere|run tf32.json --model llama-3.2-1b --gpus 8xV100-32G
0|.tf32. has no effect: v100|run ds.json --model llama-3.2-1b --gpus 8xV100-32G --set tf32=true
1|shrd.json:1:45: error: .*did you mean 'full_shard'|check shrd.json
0||check args.json
0|4 processes would be started; 8 GPUs a node|run fsdp.yaml --model llama-3.2-1b --gpus 8xH100
1|ds.json:1:1: no model is named|run ds.json --gpus 2xH100
1|ds.json:1:1: no GPU is named|run ds.json --model llama-7b
2|SCENARIO is missing|run --model llama-7b
0|micro-batch 2 x accumulation 8 x 8 ranks|run --training-args args.json --model llama-3.2-1b --gpus 8xH100
0|ZeRO-3 with the optimizer on cpu, 2 nodes of 8|run --accelerate accelerate.yaml --model llama-3.2-1b --gpus 8xH100
0|micro-batch 2 .* 8 ranks|run --training-args args.json --accelerate fsdp.yaml --model llama-3.2-1b --gpus 8xH100 --set training.framework=deepspeed
0|the micro-batch is left open: 1 is taken|run ds.json --model llama-3.2-1b --gpus 2xH100
2|one argument too many|run ds.json ds.json
2|zerosim run ds.json|ds.json
2|did you mean '--micro-batch'|run ds.json --microbatch 4
2|--rank must be at least 0|run ds.json --rank -1
2|--jobs must be at least 1|advise ds.json --jobs 0
2|--world must be at least 1|check ds.json --world 0
2|nothing is below 0|advise zero3 --limit step_time=0
2|--color must be auto|run ds.json --color maybe
0|zerosim [0-9]|version
0|sequence 512|run ds.json --model llama-3.2-1b --gpus 2xH100 --set seq_len=512
0|accumulation 2|run ds.json --model llama-3.2-1b --gpus 2xH100 --set accumulation=2
0|checkpointing, bf16|run ds.json --model llama-3.2-1b --gpus 2xH100 --set gradient_checkpointing=true
0|FITS|run ds.json --model llama-3.2-1b --gpus 2xH100 --set NCCL_P2P_DISABLE=1
0|no algorithm for all_gather, reduce_scatter,|run ds.json --model llama-3.2-1b --gpus 2xA100-40G --set NCCL_ALGO=Tree
0|no algorithm for all_gather|collective all_gather --gpus 8xA100-80G --sizes 1M --set NCCL_ALGO=Tree
0|DeepSpeed 0.14.4|run ds.json --model llama-3.2-1b --gpus 2xH100 --set deepspeed_version=0.14.4
0|FITS|run ds.json --model llama-3.2-1b --gpus 2xH100 --set optimizer.type=Adam
0|FITS|run ds.json --model llama-7b --gpus 2xH100 --set layers=2
1|write {"device": "cpu"}|run ds.json --model llama-3.2-1b --gpus 2xH100 --set offload_optimizer=cpu
1|write {"enabled": true}|run ds.json --model llama-3.2-1b --gpus 2xH100 --set bf16=true
1|not nothing|run ds.json --model llama-3.2-1b --gpus 2xH100 --set stage=
1|did you mean 'zero_optimization'|run ds.json --model llama-3.2-1b --gpus 2xH100 --set zero_optimisation.stage=2
0|PyTorch 3.1.0 is newer than any known|run ds.json --model llama-3.2-1b --gpus 2xH100 --set torch_version=3.1
0|2048 tokens are taken|run ds.json --model llama-3.2-1b --gpus 2xH100
3|the run is too large|run ds.json --model llama-7b --gpus 2xH100 --accumulation 1000000
0|no effect with FSDP2: it is of FSDP1|run fsdp2 --set training.fsdp.use_orig_params=false
0|no effect with FSDP1: it is of FSDP2|run fsdp.yaml --model llama-3.2-1b --gpus 4xH100 --set training.fsdp.wrap_embedding=true
0|no effect without checkpointing|run ds.json --model llama-3.2-1b --gpus 2xH100 --set training.reentrant=true
0|no effect without load_in_4bit|run lora --set training.double_quant=true
1|standard output: |list gpus >/dev/full
1|/dev/full: |run zero3 --trace /dev/full
END
cat >sgd.yaml <<'END'
model: llama-2-7b
cluster: {gpu: a100-sxm4-40gb, gpus_per_node: 2}
training: {framework: ddp, sequence_length: 2048, optimizer: {name: sgd}}
END
echo '{"output_dir": "o", "finetuning_type": "full", "bf16": true, "per_device_train_batch_size": 1, "deepspeed": {"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto", "optimizer": {"type": "AdamW"}}}' >factory.json
for lr in 1e-5 2e-5; do
  echo "{\"output_dir\": \"o\", \"bf16\": true, \"learning_rate\": $lr, \"deepspeed\": \"numbers.json\"}" >args-$lr.json
done
echo '{"output_dir": "o", "bf16": true, "deepspeed": "numbers.json"}' >args-no.json
echo '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 2e-5}}}' >numbers.json
# with suggestions
echo '0|framework=deepspeed.*The optimizer becomes AdamW|explain sgd.yaml' >others
echo '0|offload_optimizer.device=cpu, omp_threads=[0-9]+.*OMP_NUM_THREADS gives it the cores|explain factory.json --model llama-2-7b --gpus 4x4090' >>others
cat key-rows machine-rows others >>table
echo "1..$(($(wc -l <table) + 2))"
n=0
while IFS='|' read -r status pattern command; do
  n=$((n + 1))
  case $command in
    run*) full="$command --no-advice" ;;
    *) full=$command ;;
  esac
  case $full in
    *'>'*) $ZEROSIM ${full%% >*} >/dev/full 2>said; got=$? ;;
    *) $ZEROSIM $full >said 2>&1; got=$? ;;
  esac
  # the text is wrapped: look at it as one line
  if [ $got = "$status" ] && tr -s '\n ' '  ' <said | grep -Eq -- "$pattern"; then
    echo "ok $n - $command"
  else
    echo "not ok $n - $command"
    echo "# status $got, not $status, or no '$pattern' in:"
    head -5 said | sed 's/^/# /'
  fi
done <table
$ZEROSIM run zero3 --no-advice --trace link >/dev/null 2>&1
[ -L link ] && [ -s target ] && echo "ok $((n + 1)) - what a link points to is written, not the link" \
  || echo "not ok $((n + 1)) - what a link points to is written, not the link"
mkfifo pipe
cat pipe >read & $ZEROSIM run zero3 --no-advice --trace pipe >/dev/null 2>&1
wait
[ -p pipe ] && grep -q traceEvents read && echo "ok $((n + 2)) - a pipe is written to, not replaced" \
  || echo "not ok $((n + 2)) - a pipe is written to, not replaced"
