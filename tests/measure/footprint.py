# SPDX-License-Identifier: MIT
"""Bytes of GPU memory outside torch's allocator: the context, kernels, each kind of collective, a second
communicator.  With NCCL's own log on, so that its choice for each size is on paper too."""
import os

from collectives import Buffers, COARSE, FULL, OPS, caller, group_of
from rows import sizes


def logged(folder, ranks):
    """What makes NCCL write down the machine, its graphs and its choices."""
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,GRAPH,TUNING,ENV,P2P",
            "NCCL_DEBUG_FILE": os.path.join(folder, "nccl-%d.%%p.log" % ranks),
            "NCCL_TOPO_DUMP_FILE": os.path.join(folder, "topo-%d.xml" % ranks),
            "NCCL_GRAPH_DUMP_FILE": os.path.join(folder, "graph-%d.xml" % ranks)}


def run(context):
    import torch
    if context.rank != 0:
        for name in ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"):
            os.environ.pop(name, None)
    torch.cuda.set_device(context.rank)
    moments = []

    def note(moment):
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        moments.append((moment, total - free, torch.cuda.memory_reserved(), torch.cuda.memory_allocated()))

    note("context")
    x = torch.randn(4096, 4096, dtype=torch.bfloat16, device="cuda")
    note("kernel")
    torch.mm(x, x)
    note("product")
    context.open(60)                           # its first all_reduce is that of a flag
    note("opened")
    context.meet()
    note("first all_reduce, 4 B")
    for name in ("NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE"):
        os.environ.pop(name, None)
    largest = min(1 << 30, context.options.largest)
    buffers = Buffers(context, largest)
    note("buffers")
    world = context.dist.group.WORLD
    for op in OPS:
        if context.world == 1 and op == "sendrecv":
            continue
        for nbytes in (8 * context.world, 1 << 20, min(256 << 20, largest)):
            caller(context, op, nbytes, world, context.world, buffers)[0]()
            note("%s, %d B" % (op, nbytes))
    second = group_of(context, context.world)
    for op in OPS[:3]:
        caller(context, op, 16 << 20, second, context.world, buffers)[0]()
        note("second communicator, %s" % op)
    third = group_of(context, context.world)
    caller(context, "all_gather", 16 << 20, third, context.world, buffers)[0]()
    note("third communicator, all_gather")
    for moment, used, reserved, allocated in moments:
        context.emit("footprint", ranks=context.world, moment=moment, used=used, reserved=reserved,
                     allocated=allocated, outside=used - reserved)
    for op in OPS[:5]:                         # one of each size, for the log
        for nbytes in sizes(FULL + "," + COARSE):
            if nbytes <= largest:
                caller(context, op, nbytes, world, context.world, buffers)[0]()
    torch.cuda.synchronize()
    context.say("footprint of %d" % context.world)
