# SPDX-License-Identifier: MIT
"""Times on the GPU's own clock.  A sleeping kernel goes first, so that the host has enqueued everything
before the first measured kernel starts: what is measured is the GPU's time, not Python's."""

HOST_SECONDS = 40e-6     # what Python takes to enqueue one operation with its events, generously
CLOCK = 2.0e9            # cycles a second of the sleeping kernel


def sleep(torch, operations):
    torch.cuda._sleep(int(CLOCK * min(0.2, 0.0005 + HOST_SECONDS * operations)))


def mean_time(context, call, iterations, repeats, warm=2, member=True):
    """Microseconds of one call, back to back, one number a repeat.  Every rank of the job comes here;
    those that are no members only meet the others."""
    torch = context.torch
    times = []
    if member:
        for _ in range(warm):
            call()
    for _ in range(repeats):
        context.meet()
        if not member:
            times.append(0.0)
            continue
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        sleep(torch, iterations + 1)
        call()                                # ranks wait for each other here, before the first event
        start.record()
        for _ in range(iterations):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000 / iterations)
    return times


class Work:
    """Something that a stream does again and again."""

    def __init__(self, name, call, stream):
        self.name, self.call, self.stream = name, call, stream


def together(context, works, counts, member=True):
    """Each work `count` times on its stream, all at once.  Returns for each the mean microseconds of
    those turns that lie wholly within the time when all ran; the first of each is left out."""
    torch = context.torch
    context.meet()
    if not member:
        return [0.0 for _ in works]
    gate = torch.cuda.Event(enable_timing=True)
    sleep(torch, sum(counts) * 2)
    gate.record()
    events = [[] for _ in works]
    for work in works:
        work.stream.wait_event(gate)
    total = max(counts)
    issued = [0] * len(works)
    for turn in range(total):                 # interleaved, so that neither queue runs dry
        for index, work in enumerate(works):
            while issued[index] * total <= turn * counts[index] and issued[index] < counts[index]:
                with torch.cuda.stream(work.stream):
                    if issued[index] == 0:
                        events[index].append(torch.cuda.Event(enable_timing=True))
                        events[index][-1].record(work.stream)
                    work.call()
                    events[index].append(torch.cuda.Event(enable_timing=True))
                    events[index][-1].record(work.stream)
                issued[index] += 1
    torch.cuda.synchronize()
    marks = [[gate.elapsed_time(event) for event in line] for line in events]
    return within(marks)


def within(marks):
    """The mean turn of each line of marks (milliseconds) inside the time that all lines share, in
    microseconds; 0 where no turn lies inside."""
    first = max(line[1] if len(line) > 2 else line[0] for line in marks)
    last = min(line[-1] for line in marks)
    means = []
    for line in marks:
        turns = [after - before for before, after in zip(line[:-1], line[1:])
                 if before >= first - 1e-6 and after <= last + 1e-6]
        means.append(1000 * sum(turns) / len(turns) if turns else 0.0)
    return means


def count_for(nbytes, rate, seconds=0.015):
    """Turns of a copy that last about so long at that rate."""
    return max(4, min(200, int(seconds * rate / max(nbytes, 1))))
