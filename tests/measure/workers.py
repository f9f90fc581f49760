# SPDX-License-Identifier: MIT
"""One process a GPU, forked from a parent that has imported torch but never touched CUDA.

A hang costs its limit and no more: the parent kills what is left, and says so in a row."""
import datetime
import os
import signal
import statistics
import sys
import tempfile
import time
import traceback

GRACE = 5.0              # seconds that ranks have to end by themselves once one has failed


class Context:
    """What a rank's function is given: who it is, where rows go, and how ranks meet."""

    def __init__(self, rank, world, store, writer, options):
        self.rank, self.world, self.store = rank, world, store
        self.writer, self.options = writer, options
        self.started = time.monotonic()
        self.torch = self.dist = None

    def open(self, limit):
        import torch
        import torch.distributed as dist
        self.torch, self.dist = torch, dist
        torch.cuda.set_device(self.rank)
        dist.init_process_group("nccl", init_method="file://" + self.store, rank=self.rank,
                                world_size=self.world, timeout=datetime.timedelta(seconds=limit))

    def meet(self):
        """All ranks pass here together, with nothing left on their GPUs."""
        self.torch.cuda.synchronize()
        self.dist.all_reduce(self.torch.zeros(1, device="cuda"))
        self.torch.cuda.synchronize()

    def gather(self, values):
        """Every rank's numbers: a list by rank of lists."""
        mine = self.torch.tensor(values, dtype=self.torch.float64, device="cuda")
        every = self.torch.empty((self.world, len(values)), dtype=self.torch.float64, device="cuda")
        self.dist.all_gather_into_tensor(every, mine)
        return every.tolist()

    def emit(self, part, **values):
        if self.rank == 0:
            self.writer.row(part, **values)

    def say(self, text):
        if self.rank == 0:
            print("  %6.1f s  %s" % (time.monotonic() - self.started, text), flush=True)


def median_of_worst(by_rank):
    """Repeats by rank to one number: the slowest rank of each repeat, the median of these."""
    return statistics.median(max(repeat) for repeat in zip(*by_rank))


def child(function, context, environment):
    status = 1
    try:
        os.environ.update(environment)
        os.environ.update({"RANK": str(context.rank), "LOCAL_RANK": str(context.rank),
                           "WORLD_SIZE": str(context.world)})
        function(context)
        status = 0
    except BaseException:   # whatever it was, the process ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def can_fork():
    """Whether a child of this process can use CUDA: not if some import has touched it."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            import torch
            torch.zeros(1, device="cuda")
            status = 0
        except BaseException:
            pass
        finally:
            os._exit(status)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def start(name, function, context, environment):
    """One rank: a fork, or where that cannot be a new program that finds the job by its name."""
    pid = os.fork()
    if pid != 0:
        return pid
    if context.options.fork:
        child(function, context, environment)
    os.execv(sys.executable, [sys.executable, os.path.abspath(sys.argv[0])] + sys.argv[1:]
             + ["--as-rank", "%d %d %s %s" % (context.rank, context.world, context.store, name)])


def launch(name, function, world, limit, writer, options, environment=None):
    """Run function (context) on `world` ranks for at most `limit` seconds.  Returns None or what went wrong."""
    folder = tempfile.mkdtemp(prefix="zerosim-measure-")
    children, failed = {}, None
    sys.stdout.flush()
    for rank in range(world):
        context = Context(rank, world, os.path.join(folder, "store"), writer, options)
        children[start(name, function, context, environment or {})] = rank
    deadline = time.monotonic() + limit
    while children:
        for pid in list(children):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done == 0:
                continue
            rank = children.pop(pid)
            if status != 0 and failed is None:
                failed = "rank %d ended with status %d" % (rank, os.waitstatus_to_exitcode(status))
                deadline = min(deadline, time.monotonic() + GRACE)   # the others may wait for it for ever
        if children and time.monotonic() > deadline:
            failed = failed or "stopped after %.0f s" % limit
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            for pid in children:
                os.waitpid(pid, 0)
            children = {}
        time.sleep(0.02)
    return failed
