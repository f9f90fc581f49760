# SPDX-License-Identifier: MIT
"""What the machine is, as text: topology, driver, processor, versions."""
import os
import subprocess

COMMANDS = (
    "nvidia-smi topo -m", "nvidia-smi -L", "nvidia-smi", "nvidia-smi nvlink -s -i 0", "nvidia-smi -q -i 0",
    "lscpu", "numactl -H", "free -g", "uname -a", "lspci -tv", "cat /sys/devices/system/node/node*/cpulist",
    "for f in /sys/bus/pci/devices/*; do echo $f $(cat $f/class $f/numa_node $f/current_link_speed "
    "$f/current_link_width 2>/dev/null); done",
    "env | grep -E 'NCCL|TORCH|CUDA|NVSHMEM|OMP' | sort", "ip -brief address",
)


def describe(path):
    with open(path, "w") as file:
        for command in COMMANDS:
            try:
                done = subprocess.run(command, shell=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=20)
                text = done.stdout.decode(errors="replace")
            except subprocess.TimeoutExpired:
                text = "(no answer in 20 s)\n"
            file.write("$ %s\n%s\n" % (command, text))


def versions(path):
    """What may be said only once torch is there; no call of CUDA, since ranks are forked from here."""
    import torch
    lines = ["torch %s" % torch.__version__, "CUDA %s" % torch.version.cuda]
    try:
        lines.append("NCCL %s" % (torch.cuda.nccl.version(),))
    except Exception as error:   # another build of torch
        lines.append("NCCL: %s" % error)
    try:
        import transformers
        lines.append("transformers %s" % transformers.__version__)
    except ImportError:
        lines.append("no transformers")
    with open(path, "a") as file:
        file.write("\n".join(lines) + "\n")


def count():
    """GPUs, without CUDA: the processes that use it are forked."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([word for word in visible.split(",") if word.strip()])
    try:
        text = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, timeout=30).stdout.decode()
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in text.splitlines())
