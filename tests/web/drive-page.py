# drive-page.py: the page of `zerosim report` and `zerosim serve` in a browser; prints TAP.
# SPDX-License-Identifier: MIT
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser as browsers
import server

PROGRAM = os.environ["ZEROSIM"]
TOP = os.environ["top_srcdir"]
SCENARIO = os.path.join(TOP, "scenarios", "nvswitch.yaml")
COUNT = 0


def check(holds, name, detail=""):
    global COUNT
    COUNT += 1
    print("%s %d - %s" % ("ok" if holds else "not ok", COUNT, name))
    if not holds:
        print("# %s" % str(detail)[:1000])


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True).stdout


def center(page, expression):
    return page.evaluate("(() => { const e = %s; e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
                         " return [b.left, b.top, b.width, b.height]; })()" % expression)


def drive_report(page, folder):
    path = os.path.join(folder, "page.html")
    run("report", SCENARIO, "--no-advice", "-o", path)
    expected = json.loads(run("run", SCENARIO, "--json", "--no-advice"))
    took = 60
    for _ in range(3):     # the best of three: others use this machine too
        start = time.time()
        ready = page.open("file://" + path)
        took = min(took, time.time() - start)
    check(ready == "yes" and not page.problems, "the page loads without an error", page.problems)
    check(os.path.getsize(path) < 3 << 20 and took < 1.5, "it is small and opens fast", "%d bytes, %.2f s" % (os.path.getsize(path), took))
    page.evaluate("Promise.all(page.scenarios[0].shown.map((step) => unpackStep(page.scenarios[0], step))).then(() => true)")
    shown = page.evaluate("page.scenarios[0].result")
    check(all(shown[key] == value for key, value in expected.items()), "its numbers are those of --json",
          [key for key, value in expected.items() if shown[key] != value])
    sums = page.evaluate("""(() => { const step = page.scenarios[0].shown[page.step]; const sums = [0, 0, 0, 0, 0];
      for (const row of step.rows) if (row.track === TRACK_WAIT || row.track === TRACK_STREAM)
        for (let i = 0; i < row.n; i++) sums[step.names[row.name[i] * 3 + 1]] += row.end[i] - row.start[i];
      return sums; })()""")
    wanted = list(expected["time"].values())
    check(all(abs(a - b / 1000) < 0.0005 * expected["step_time_ps"] / 1000 for a, b in zip(sums, wanted)),
          "spans of the compute stream add up to the parts of the step", (sums, wanted))
    peaks = page.evaluate("page.scenarios[0].shown.map((s) => s.events.allocated.reduce((a, b) => Math.max(a, b), 0))")
    check(max(peaks) == expected["peak_allocated_bytes"], "memory over time reaches the peak, to the byte", peaks)

    left, top, width, height = center(page, "page.timelines[0].canvas")
    row = page.evaluate("(() => { const r = page.timelines[0].rows.find((r) => r.track && r.track.track === TRACK_STREAM); return r.top + r.height / 2; })()")
    page.mouse("mouseMoved", left + width / 2, top + row)
    check("layer" in (page.evaluate("document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent") or ""),
          "hovering over the compute stream names a kernel", page.evaluate("document.getElementById('tip').textContent"))
    before = page.evaluate("page.view.to - page.view.from")
    page.mouse("mousePressed", left + width * 0.4, top + row, button="left", clickCount=1)
    page.mouse("mouseMoved", left + width * 0.5, top + row, button="left")
    page.mouse("mouseReleased", left + width * 0.5, top + row, button="left", clickCount=1)
    after = page.evaluate("page.view.to - page.view.from")
    check(after < before / 5, "dragging zooms in", (before, after))
    page.key("0")
    check(page.evaluate("page.view.to - page.view.from") == before, "the key 0 shows the whole step again")
    page.key("+")
    check(page.evaluate("page.view.to - page.view.from") < before, "the key + zooms in")
    page.key("ArrowDown")
    page.key("n")
    check(page.evaluate("document.getElementById('status').textContent") != "", "keys walk through spans, and say them")
    page.key("0")
    page.click(left + width * 0.7, top + row)
    moment = page.evaluate("page.memories[0].title.textContent")
    check(page.evaluate("page.memories[0].table.rows.length") > 3, "a click lists who is alive", moment)
    text = page.evaluate("document.getElementById('memories').textContent")
    page.evaluate("document.getElementById('to-peak').click()")
    page.wait("document.getElementById('memories').textContent !== %s" % json.dumps(text), 2)
    check(page.evaluate("document.getElementById('memories').textContent") != text, "the peak is one click away")
    story = page.evaluate("document.getElementById('stories').textContent")
    page.evaluate("(() => { const l = document.getElementById('language'); l.value = 'zh'; l.dispatchEvent(new Event('change')); })()")
    check("GPU" in story and "\u5cf0\u503c" in page.evaluate("document.getElementById('stories').textContent"), "the story is there in both languages")
    page.evaluate("document.getElementById('theme').click()")
    check(page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)", "it can be dark")
    check(not page.problems, "nothing of this was an error", page.problems)


def drive_many(page, folder):
    path = os.path.join(folder, "two.html")
    run("report", os.path.join(TOP, "scenarios", "zero3.yaml"), SCENARIO, "--no-advice", "-o", path)
    check(page.open("file://" + path) == "yes" and page.evaluate("page.timelines.length") == 2
          and "OUT OF MEMORY" in page.evaluate("document.getElementById('cards').textContent"),
          "two scenarios share a page, one of them out of memory", page.problems)


def drive_live(page, folder):
    live = server.Server()
    try:
        address = "http://127.0.0.1:%d/" % live.port
        check(page.open(address + "?stage=2") == "yes", "the live page loads", page.problems)
        check(page.evaluate("page.live.inputs.get('stage').read()") == "2", "its state comes from the address")
        expected = json.loads(run("run", SCENARIO, "--set", "stage=2", "--set", "training.micro_batch=4", "--json", "--no-advice"))
        page.wait("!page.live.running && !page.live.pending")
        page.evaluate("(() => { const i = page.live.inputs.get('micro_batch'); i.value = page.live.controls.find((c) => c.name === 'micro_batch')"
                      ".values.indexOf('4'); i.dispatchEvent(new Event('input')); })()")
        # the server runs four of the plans at most: the others can be a hair slower
        page.wait("!page.live.running && Math.abs(page.scenarios[0].result.step_time_ps / %d - 1) < 0.005"
                  % expected["step_time_ps"], 10)
        check(page.evaluate("page.scenarios[0].result.peak_allocated_bytes") == expected["peak_allocated_bytes"], "a slider changes the numbers to those of run")
        check("micro_batch=4" in page.evaluate("location.search") and "stage=2" in page.evaluate("location.search"), "the address follows",
              page.evaluate("location.href"))
        shown = page.evaluate("document.querySelector('[data-number=tokens]').textContent")
        check(abs(float(shown) / expected["tokens_per_second_per_gpu"] - 1) < 0.005, "so does what is shown", shown)
        check(not page.problems, "nothing of this was an error", page.problems)
    finally:
        live.stop()


def main():
    parts = [drive_report, drive_many, drive_live]
    with tempfile.TemporaryDirectory() as folder:
        page = browsers.Browser()
        try:
            for part in parts:
                page.problems = []
                part(page, folder)
        except Exception as error:     # a browser that hangs is one failure, with its reason
            check(False, "the browser could be driven", error)
        page.close()
    print("1..%d" % COUNT)


main()
