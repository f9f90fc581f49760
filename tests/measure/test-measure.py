# SPDX-License-Identifier: MIT
"""The parts of the harness that need no GPU, as TAP."""
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import copies       # noqa: E402
import measure      # noqa: E402
import rows         # noqa: E402
import timing       # noqa: E402
import workers      # noqa: E402

tests = []


def test(function):
    tests.append(function)
    return function


@test
def sizes_are_read_in_binary_units():
    assert rows.sizes("8,1K,4M") == [8, 1024, 4 << 20]
    assert rows.sizes("64K:1M:4,1GiB") == [1 << 16, 1 << 18, 1 << 20, 1 << 30]
    for wrong in ("8:64:1", "many", ""):
        try:
            rows.sizes(wrong)
        except ValueError:
            continue
        raise AssertionError(wrong)


@test
def arguments_are_checked():
    options = measure.arguments(["--output", "x", "--parts", "copies,steps", "--worlds", "4,2", "--largest", "1G"])
    assert options.parts == ["copies", "steps"] and options.worlds == [4, 2] and options.largest == 1 << 30
    sys.stderr = open(os.devnull, "w")
    try:
        for wrong in (["--parts", "nothing"], ["--worlds", "two"], ["--sizes", "8:4"]):
            try:
                measure.arguments(["--output", "x"] + wrong)
            except SystemExit as ended:
                assert ended.code == 2
                continue
            raise AssertionError(wrong)
    finally:
        sys.stderr = sys.__stderr__
    assert measure.halvings(8) == [8, 4, 2] and measure.halvings(6) == [6, 3] and measure.halvings(1) == [1]


def some_rows(n):
    for i in range(n):
        yield dict(part="collective", ranks=4, op="all_gather", bytes=8 << i % 30, in_place=i // 30, algorithm="",
                   protocol="", ctas=0, us=1.5 * i)


@test
def rows_survive_a_torn_file_and_the_later_of_two_wins():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.jsonl")
        writer = rows.Writer(path)
        for row in some_rows(40):
            writer.row(**row)
        writer.row(**dict(next(some_rows(1)), us=99.0))
        with open(path, "a") as file:
            file.write('{"part":"collective","ran')
        found = rows.read([path])
        assert len(found) == 40 and found[0]["us"] == 99.0
        table = os.path.join(folder, "collective.csv")
        rows.write_csv(table, found)
        with open(table) as file:
            lines = file.read().splitlines()
        assert len(lines) == 41 and lines[0].startswith("half,ranks,op,bytes,in_place") and "part" not in lines[0]


@test
def the_half_follows_from_the_key_alone():
    some = list(some_rows(60))
    halves = [rows.half(row) for row in some]
    assert halves == [rows.half(dict(row, us=0.0)) for row in some]
    assert 15 < sum(halves) < 45
    step = dict(part="step", ranks=2, case="7b-z3", step=1, phase="forward")
    assert len({rows.half(dict(step, step=n, phase=p)) for n in range(9) for p in ("forward", "backward")}) == 1
    # what was sorted once stays there: these are in the published files
    assert [rows.half(row) for row in some[:8]] == EXPECTED, [rows.half(row) for row in some[:8]]


EXPECTED = [0, 0, 1, 1, 1, 1, 1, 0]


@test
def turns_are_counted_where_all_run():
    means = timing.within([[0.0, 1.0, 2.0, 3.0, 4.0], [0.5, 2.0, 2.5, 3.0]])
    assert [round(mean) for mean in means] == [1000, 500], means    # from 2.0 to 3.0 ms
    assert timing.within([[0.0, 10.0, 20.0], [0.0, 1.0, 2.0]])[0] == 0.0
    assert timing.count_for(64 << 20, 50e9) == 11 and timing.count_for(1, 50e9) == 200


@test
def gpus_that_copy_at_once():
    assert copies.sets_of(1) == [(0,)]
    assert copies.sets_of(2) == [(0,), (1,), (0, 1)]
    sets = copies.sets_of(4)
    assert (0, 2) in sets and (0, 1, 2, 3) in sets and len(sets) == len(set(sets)) == 8


@test
def the_slowest_rank_of_each_repeat_counts():
    assert workers.median_of_worst([[1.0, 5.0, 3.0], [2.0, 4.0, 9.0]]) == 5.0


def slow(context):
    import time
    time.sleep(30)


def failing(context):
    if context.rank == 1:
        raise RuntimeError("as it should")
    slow(context)


def speaking(context):
    context.emit("launch", op="x", asynchronous=0, us=context.world)


@test
def a_rank_that_hangs_or_fails_is_ended():
    import time
    options = measure.arguments(["--output", "x"])
    options.fork = True
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.jsonl")
        writer = rows.Writer(path)
        assert workers.launch("speaking", speaking, 3, 20, writer, options) is None
        assert [row["us"] for row in rows.read([path])] == [3]
        before = time.monotonic()
        assert "stopped" in workers.launch("slow", slow, 2, 0.3, writer, options)
        assert time.monotonic() - before < 5
        keep, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 2)
        try:
            workers.GRACE, grace = 0.2, workers.GRACE
            assert "rank 1" in workers.launch("failing", failing, 2, 20, writer, options)
        finally:
            workers.GRACE = grace
            os.dup2(keep, 2)
        assert time.monotonic() - before < 10


print("1..%d" % len(tests))
failures = 0
for number, function in enumerate(tests, 1):
    try:
        function()
    except Exception as error:   # reported
        print("# %s: %s" % (type(error).__name__, error))
        failures += 1
        print("not ok %d - %s" % (number, function.__name__.replace("_", " ")))
    else:
        print("ok %d - %s" % (number, function.__name__.replace("_", " ")))
sys.exit(failures > 0)
