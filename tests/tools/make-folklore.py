#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write docs/folklore.md and docs/folklore.zh.md: what people say about ZeRO, each simulated before and after.

    ZEROSIM=./zerosim ZEROSIM_DATADIR=. python3 tests/tools/make-folklore.py [--check]

The texts, in both languages, are in tests/docs/folklore.json; the pairs are scenarios/folklore/NAME-before.yaml and
NAME-after.yaml.  A pair has promises: what would be seen if the claim were right.  All kept: TRUE; none: FALSE; else
DEPENDS.  Pairs without promises ("aside") only show something.  With --check nothing is written: exit status 1 if the
pages are not those that would be written, except for times, and for reserved bytes, which follow from times: whoever
changes how long things take may write the pages again, but need not."""
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

TOP = os.environ.get("top_srcdir", ".")
PROGRAM = os.environ.get("ZEROSIM", "./zerosim")
FOLDER = "scenarios/folklore"
TEXTS = "tests/docs/folklore.json"
PAGES = {"en": "docs/folklore.md", "zh": "docs/folklore.zh.md"}

WORDS = {
    "en": {
        "title": "# What people say about ZeRO, tried",
        "lead": [
            "27 things that are said about fitting LLaMA-7B on two A100-40G, each as a pair of scenarios that differ in",
            "one thing. This page is written by `tests/tools/make-folklore.py` from running all of them; `make check` holds",
            "it against the program. Where nothing else is said: DeepSpeed 0.19.5, micro-batch 1, 2048 tokens, activation",
            "checkpointing, two GPUs behind PCIe 4, sizes of buckets as Hugging Face's \"auto\" would make them.",
            "",
            "Allocated and host bytes are exact; bytes reserved by PyTorch depend on times and are close; times are",
            "calculated, with the errors that `zerosim run` names. Run one yourself:",
        ],
        "head": "| # | what people say | verdict | GPU memory at the peak | host memory | step |",
        "verdict": {"TRUE": "TRUE", "FALSE": "FALSE", "DEPENDS": "DEPENDS"},
        "key": "Key: %s.", "since": "; since %s", "never": "; no release has it", "note": "Note: %s", "line": "%s: %s",
        "said": "**%s.** %s",
        "pair_head": "| pair | allocated at the peak | change | reserved | host memory | step |",
        "oom": "out of memory", "refused": "does not start", "other": "[中文](folklore.zh.md)",
    },
    "zh": {
        "title": "# 关于 ZeRO 的各种说法，逐条验证",
        "lead": [
            "把 LLaMA-7B 放进两张 A100-40G，网上流传着 27 种说法。这里每种说法对应一对只差一处的场景文件。本页由",
            "`tests/tools/make-folklore.py` 运行全部场景后生成，`make check` 会核对它与程序的输出是否一致。未特别说明时：",
            "DeepSpeed 0.19.5，micro-batch 为 1，序列长度 2048，开启激活检查点，两张 GPU 通过 PCIe 4 相连，各种 bucket",
            "取 Hugging Face “auto” 的值。",
            "",
            "已分配（allocated）字节和主机内存是精确值；PyTorch 的 reserved 与时间有关，只能接近；时间是算出来的，误差见",
            "`zerosim run` 的说明。自己跑一个：",
        ],
        "head": "| # | 说法 | 结论 | 峰值显存 | 主机内存 | 每步时间 |",
        "verdict": {"TRUE": "对", "FALSE": "错", "DEPENDS": "看情况"},
        "key": "键：%s。", "since": "，始于 %s", "never": "，任何版本都没有", "note": "说明：%s", "line": "%s：%s",
        "said": "**%s**。%s",
        "pair_head": "| 对比 | 峰值已分配 | 变化 | reserved | 主机内存 | 每步时间 |",
        "oom": "显存不足", "refused": "无法启动", "other": "[English](folklore.md)",
    },
}


def run(name):
    """The result of a scenario as a dict; one with 'error' if it is refused."""
    path = "%s/%s.yaml" % (FOLDER, name)
    done = subprocess.run([PROGRAM, "run", "--json", path], cwd=TOP, capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout)
    if done.returncode == 1:
        return {"error": done.stderr}
    sys.exit("%s: status %d: %s" % (path, done.returncode, done.stderr))


def phases(result, *names):
    return [p for s in result["steps"] for p in s["phases"] if p["phase"] in names]


MEASURES = {
    "peak": lambda r: r["peak_allocated_bytes"],
    "reserved": lambda r: r["peak_reserved_bytes"],
    "host": lambda r: r["host_pinned_peak_bytes"] + r["host_pageable_peak_bytes"],
    "pinned": lambda r: r["host_pinned_peak_bytes"],
    "load": lambda r: max(p["peak_allocated_bytes"] for p in phases(r, "load", "init")),
    "between": lambda r: phases(r, "optimizer")[-1]["end_reserved_bytes"],
    "backward": lambda r: max(p["peak_allocated_bytes"] for p in phases(r, "backward")),
    "time": lambda r: r["step_time_ps"],
}


def fits(result):
    return result.get("outcome") == "ok"


def kept(promise, before, after):
    """Is what the claim promises seen?"""
    if promise == "starts":
        return "error" not in after
    if promise == "runs":
        return fits(after)
    if promise == "fits":
        return fits(after) and not fits(before)
    if promise == "ooms":
        return after.get("outcome") == "oom"
    if promise == "before fails":
        return not fits(before) and fits(after)
    what, rest = promise.split(" ", 1)
    if "error" in before or "error" in after:
        return False
    a, b = MEASURES[what](before), MEASURES[what](after)
    if rest == "differs":
        return a != b
    sign, number, unit = rest.split(" ")
    found, limit = (b / a, float(number)) if unit == "x" else (b - a, float(number) * 1e9)
    return found > limit if sign == ">" else found < limit


def verdict(claim, results):
    found = [kept(promise, *results[pair["name"]]) for pair in claim["pairs"] for promise in pair["promises"]]
    return "TRUE" if all(found) else "DEPENDS" if any(found) else "FALSE"


# ---- text ----

def exact(change):
    return "0" if change == 0 else "{:+,}".format(change).replace("-", "−")


def gigabytes(change):
    return "0" if abs(change) < 5e7 else "{:+.1f} GB".format(change / 1e9).replace("-", "−")


def seconds(result):
    return "%.2f s" % (result["step_time_ps"] / 1e12)


def row(words, language, pair, before, after):
    name = "[%s](../%s/%s-after.yaml)" % (pair["name"].split("-")[0], FOLDER, pair["name"])
    cells = ["%s %s" % (name, pair[language])]
    if "error" in after:
        cells += ["%.2f GB → %s" % (before["peak_allocated_bytes"] / 1e9, words["refused"]), "", "", "", ""]
    elif not (fits(before) and fits(after)):
        sides = [words["oom"] if not fits(r) else "%.2f GB" % (r["peak_allocated_bytes"] / 1e9) for r in (before, after)]
        times = [seconds(r) if fits(r) else "—" for r in (before, after)]
        host = MEASURES["host"](after) - MEASURES["host"](before)
        cells += [" → ".join(sides), "", "", exact(host) if fits(after) else "", " → ".join(times)]
    else:
        change = {what: MEASURES[what](after) - MEASURES[what](before) for what in MEASURES}
        cells += ["%.2f → %.2f GB" % (before["peak_allocated_bytes"] / 1e9, after["peak_allocated_bytes"] / 1e9),
                  exact(change["peak"]), gigabytes(change["reserved"]), exact(change["host"]),
                  "%s → %s" % (seconds(before), seconds(after))]
    return "| %s |" % " | ".join(cells)


EXTRA = {   # what a pair is about that the table does not show: lines below it
    "en": {"load": "GPU memory while loading: %s bytes.", "between": "Reserved between steps: %s.",
           "backward": "Allocated at the peak of backward: %s bytes."},
    "zh": {"load": "加载阶段的显存：%s 字节。", "between": "步与步之间的 reserved：%s。",
           "backward": "反向阶段峰值已分配：%s 字节。"},
}
SHOWN = {"26-zero-init": ["load"], "14-empty-cache": ["between"], "18b-accumulation-stage-2-first": ["backward"],
         "18c-accumulation-stage-2-more": ["backward"]}


def summary(words, claim, found, results):
    """The cells of the first table: the pair that tells most."""
    pairs = [p for p in claim["pairs"] if p["promises"]]
    best = None
    for pair in pairs:
        before, after = results[pair["name"]]
        if "error" in after:
            continue
        size = 1e12 if fits(after) else -1
        if fits(before) and fits(after):
            size = abs(MEASURES["peak"](after) - MEASURES["peak"](before))
        if best is None or size > best[0]:
            best = (size, before, after)
    if best is None:
        return ["", "", ""]
    _, before, after = best
    if not (fits(before) and fits(after)):
        sides = ["%.1f GB" % (r["peak_allocated_bytes"] / 1e9) if fits(r) else words["oom"] for r in (before, after)]
        host = MEASURES["host"](after) - MEASURES["host"](before) if fits(after) else 0
        return [" → ".join(sides), gigabytes(host), "— → %s" % seconds(after) if fits(after) else ""]
    return [gigabytes(MEASURES["peak"](after) - MEASURES["peak"](before)),
            gigabytes(MEASURES["host"](after) - MEASURES["host"](before)),
            "%s → %s" % (seconds(before), seconds(after))]


def page(language, claims, results):
    words = WORDS[language]
    out = [words["title"], "", words["other"], ""] + words["lead"]
    out += ["", "```sh", "zerosim run %s/12-zero2-offload-7b-on-two-40g-after.yaml" % FOLDER, "```", ""]
    out += [words["head"], "| --- | --- | --- | --- | --- | --- |"]
    for claim in claims:
        found = verdict(claim, results)
        cells = ["[%d](#%d)" % (claim["claim"], claim["claim"]), claim[language]["claim"],
                 "**%s**" % words["verdict"][found]] + summary(words, claim, found, results)
        out.append("| %s |" % " | ".join(cells))
    for claim in claims:
        found = verdict(claim, results)
        texts = claim[language]
        key = " ".join(texts["key"].split())
        key = key if re.search("[ （]", key.replace(", ", "")) else "`%s`" % key.replace(", ", "`, `")
        if texts["since"]:
            key += words["never"] if texts["since"] == "never" else words["since"] % texts["since"]
        out += ["", '<a id="%d"></a>' % claim["claim"], "", "## %d. %s" % (claim["claim"], texts["claim"]), "",
                words["said"] % (words["verdict"][found], texts["why"]), "", words["key"] % key, "",
                words["pair_head"], "| --- | --- | --- | --- | --- | --- |"]
        for pair in claim["pairs"]:
            out.append(row(words, language, pair, *results[pair["name"]]))
        for pair in claim["pairs"]:
            for what in SHOWN.get(pair["name"], ()):
                before, after = (MEASURES[what](r) for r in results[pair["name"]])
                show = gigabytes if what == "between" else exact
                text = EXTRA[language][what] % show(after - before)
                out += ["", words["line"] % (pair["name"].split("-")[0], text)]
        if "note" in claim:
            out += ["", words["note"] % claim["note"][language]]
    return "\n".join(out) + "\n"


# ---- comparing ----

# The verdicts of the collection of facts, in its words.
KNOWN = {"TRUE": "TRUE", "FALSE": "FALSE", "DEPENDS": "DEPENDS", "mostly FALSE": "FALSE", "half": "DEPENDS",
         "never existed": "FALSE", "none exists": "FALSE", "permission flag": "FALSE", "legal, works": "TRUE",
         "TRUE if host RAM suffices": "TRUE", "FALSE, reversed": "FALSE",
         "names FALSE, effect TRUE": "DEPENDS", "FALSE (save time only)": "FALSE"}

LOOSE = re.compile(r"[+−]?[0-9]+\.[0-9]+ (s|GB)(?= |$)")


def agree(old, new):
    """Equal but for times and for gigabytes with few digits, which follow from times."""
    if LOOSE.sub("#", old) == LOOSE.sub("#", new):
        return True
    # a change that is now 0, or no longer 0
    old, new = (re.sub(r"\| 0 (?=\|)", "| +0.0 GB ", text) for text in (old, new))
    return LOOSE.sub("#", old) == LOOSE.sub("#", new)


def main():
    check = "--check" in sys.argv[1:]
    with open(os.path.join(TOP, TEXTS), encoding="utf-8") as file:
        claims = json.load(file)
    names = [pair["name"] for claim in claims for pair in claim["pairs"]]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(run, [name + side for name in names for side in ("-before", "-after")]))
    results = {name: (done[2 * i], done[2 * i + 1]) for i, name in enumerate(names)}
    bad = 0
    for claim in claims:
        found = verdict(claim, results)
        if found != KNOWN[claim["known"]] and "note" not in claim:
            print("# claim %d: simulated %s, known %s, and no note says why"
                  % (claim["claim"], found, claim["known"]))
            for pair in claim["pairs"]:
                for promise in pair["promises"]:
                    print("#   %s: %s: %s" % (pair["name"], promise, kept(promise, *results[pair["name"]])))
            bad += 1
    on_disk = {f[:-12] for f in os.listdir(os.path.join(TOP, FOLDER)) if f.endswith("-before.yaml")}
    for name in sorted(on_disk ^ set(names)):
        print("# %s: a pair without text, or text without a pair" % name)
        bad += 1
    for language, path in PAGES.items():
        text = page(language, claims, results)
        path = os.path.join(TOP, path)
        if not check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            continue
        with open(path, encoding="utf-8") as file:
            old = file.read()
        differ = [(a, b) for a, b in zip(old.split("\n"), text.split("\n")) if not agree(a, b)]
        if differ or old.count("\n") != text.count("\n"):
            print("# %s is not current; write it again: python3 tests/tools/make-folklore.py" % path)
            for a, b in differ[:5]:
                print("#   is:        %s\n#   should be: %s" % (a, b))
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
