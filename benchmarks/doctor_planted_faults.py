#!/usr/bin/env python3
"""Checks that headroom doctor finds planted faults and names their level, and that the cure helps. The same number of healthy
programs must give no severe finding.

- Leaks, a cache and a fragmented heap: doctor_fault (a small program that processes videos, models and objects) is recorded
  with each fault and with its cure. Its resident memory at the end is compared.
- Thrashing: doctor_fault reads mapped weights repeatedly in a control group that is too small for them, and in a group of the
  size that the first cure proposes. The amount read per second is compared.
- A load peak: headroom bench measures a model that has only weights (weighty_onnx.py), and headroom doctor --try tries the cures.
- Duplicate sessions: two models of one file at once; headroom doctor --try tries the cures.

    benchmarks/doctor_planted_faults.py [--build build/release] [--markdown FILE] [--only trace|thrash|load|duplicates]
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import weighty_onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 2**20
# Fault, expected finding, severity, level.
TRACED = [
    ("leak-object", "leak", "severe", "object"),
    ("leak-model", "leak", "severe", "model"),
    ("leak-video", "leak", "severe", "video"),
    ("arena", "growth-levelled-off", "note", None),
    ("fragmentation", "fragmentation", "warning", None),
]
THRASH_SECONDS, WEIGHTS, TOO_SMALL = 15, 192, 128  # MiB


class Trials:
    def __init__(self, build, folder):
        self.headroom, self.fault, self.folder = str(build / "bin/headroom"), str(build / "bin/doctor_fault"), folder
        self.rows, self.wrong = [], 0

    def run(self, *words, code=None, settings=None):
        ended = subprocess.run(words, capture_output=True, text=True, cwd=self.folder, env=os.environ | (settings or {}))
        if code is not None and ended.returncode != code:
            raise SystemExit(f"{' '.join(map(str, words))}: {ended.returncode}\n{ended.stderr}")
        return ended

    def doctor(self, what, *flags):
        ended = self.run(self.headroom, "doctor", str(what), "--json", *flags)
        if ended.returncode > 1:
            raise SystemExit(ended.stderr)
        return json.loads(ended.stdout), ended.returncode

    def add(self, fault, found, level, measured, before, after, healthy, right):
        self.wrong += not right
        print(f"{fault}: {'right' if right else 'WRONG'}", file=sys.stderr)
        self.rows.append((fault, found, level or "-", measured, before, after, healthy, "yes" if right else "NO"))

    def table(self):
        head = ("fault", "found", "level", "measured", "with the fault", "cured", "findings when cured", "right")
        lines = [head, ["---"] * len(head), *self.rows]
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def ids(findings):
    return ", ".join(finding["id"] for finding in findings) or "none"


def is_healthy(findings, code):
    return code == 0 and all(finding["severity"] != "severe" for finding in findings)


def traced(trials):
    def examine(*words, settings=None):
        """The program's resident memory at its end without the tracer, and the findings on its recording."""
        program = [trials.fault, *words]
        resident = int(trials.run(*program, code=0, settings=settings).stdout)
        recording = trials.folder / ("-".join((*words, *(settings or {}))) + ".hrec")
        trials.run(trials.headroom, "trace", "--full", "--out", str(recording), "--", *program, code=0, settings=settings)
        document, code = trials.doctor(recording)
        # A program without rounds cannot be checked for leaks; that is not a finding of a fault.
        return resident, [one for one in document["findings"] if one["id"] != "leaks-not-judged"], code

    for fault, wanted, severity, level in TRACED:
        resident, findings, code = examine(fault)
        cured, after, cured_code = examine(fault, "cured")
        found_level = findings[0]["figures"].get("level") if findings else None
        right = (ids(findings) == wanted and findings[0]["severity"] == severity
                 and (level is None or found_level == level) and code == (1 if severity == "severe" else 0)
                 and is_healthy(after, cured_code) and not after)
        trials.add(fault, ids(findings), found_level, "resident at the end", f"{resident / MIB:.1f} MiB",
                   f"{cured / MIB:.1f} MiB", ids(after), right)
        # A proposed setting is tried directly, without changing the program.
        commands = [cure["command"] for one in findings for cure in one["cures"]]
        for setting in (command for command in commands if command.startswith("MALLOC_")):
            resident_set, after, set_code = examine(fault, settings=dict(word.split("=") for word in setting.split()))
            trials.add(f"{fault}; cured: `{setting}`, as proposed", ids(findings), found_level, "resident at the end",
                       f"{resident / MIB:.1f} MiB", f"{resident_set / MIB:.1f} MiB", ids(after),
                       resident_set < 0.2 * resident and is_healthy(after, set_code))


def thrash(trials):
    weights = trials.folder / "weights.bin"
    weights.write_bytes(os.urandom(WEIGHTS * MIB))
    os.sync()  # pages that are not yet written to disk cannot be evicted

    def examine(limit):
        log = trials.folder / f"thrash-{limit}.jsonl"
        ended = trials.run(trials.headroom, "run", "--limit", f"{limit}MiB", "--", trials.headroom, "watch", "--jsonl",
                           "--interval", "250ms", "--output", str(log), "--", trials.fault, "thrash", str(weights),
                           str(THRASH_SECONDS), code=0)
        done = next(int(line) for line in ended.stdout.splitlines() if line.isdigit())
        document, code = trials.doctor(log)
        return done / THRASH_SECONDS, document["findings"], code, "hard" in ended.stderr

    before, findings, code, is_hard = examine(TOO_SMALL)
    if not is_hard:
        print("thrash: skipped: cannot create a control group", file=sys.stderr)
        return
    proposed = re.search(r"--limit (\d+)MiB", findings[0]["cures"][0]["command"]) if findings else None
    if not proposed:
        trials.add("thrash", ids(findings), None, "weights read per second", f"{before:,.0f} MiB", "-", "-", False)
        return
    enough = int(proposed.group(1))
    after, cured, cured_code, _ = examine(enough)
    level = findings[0]["figures"].get("level") if findings else None
    trials.add(f"thrash: {WEIGHTS} MiB of mapped weights in a group of {TOO_SMALL} MiB; cured: of {enough} MiB, as proposed",
               ids(findings), level, "weights read per second", f"{before:,.0f} MiB", f"{after:,.0f} MiB", ids(cured),
               ids(findings) == "control-group-thrash" and code == 1 and level == "control group"
               and is_healthy(cured, cured_code) and after > 2 * before)


def bench(trials, name, *words):
    output = trials.folder / name
    trials.run(trials.headroom, "bench", "--quiet", "--output-dir", str(output), "--prepared-dir",
               str(trials.folder / f"{name}-prepared"), *words, code=0)
    run = next(output.iterdir())
    return run, json.loads((run / "report.json").read_text(encoding="utf-8"))


def load_peak(trials):
    # glibc always maps blocks above 32 MiB individually, so only the memory needed for loading is
    # freed.
    model = trials.folder / "large.onnx"
    weighty_onnx.write(model, layers=4, side=3072)
    run, _ = bench(trials, "load", "--model", f"w={model},arena=off", "--max-frames", "50")
    document, code = trials.doctor(run, "--try")
    finding = next((one for one in document["findings"] if one["id"] == "load-peak-over-run-peak"), None)
    tried = [cure["tried"] for cure in finding["cures"] if "tried" in cure] if finding else []
    tried += document.get("together", [])
    helped = [one for one in tried if one["verdict"] == "helps"]
    best = max(helped, key=lambda one: one.get("saved_bytes", 0), default=None)
    for one in tried:
        print(f"  {one['settings']}: {one['sentence']}", file=sys.stderr)
    if best is None:
        trials.add("load peak", ids(document["findings"]), None, "load peak", "-", "-", "-", False)
        return
    cured, _ = bench(trials, "load-cured", "--model", f"w={model},arena=off,{best['settings']}", "--max-frames", "50")
    after, after_code = trials.doctor(cured)
    trials.add(f"load peak far above the run peak; cured: `{best['settings']}`, found by `--try`", ids(document["findings"]),
               "model", "load peak", f"{best['before']['load_peak_bytes'] / MIB:.1f} MiB",
               f"{best['after']['load_peak_bytes'] / MIB:.1f} MiB", ids(after["findings"]),
               finding["severity"] == "warning" and code == 0 and is_healthy(after["findings"], after_code)
               and not any(one["id"] == finding["id"] for one in after["findings"]))


def duplicates(trials, model, other):
    def together(name, *models):
        # PSS is sampled, so the peak must last for some samples.
        words = [word for one in models for word in ("--model", one)]
        return bench(trials, name, *words, "--parallel", "--max-frames", "300", "--metrics-interval", "50ms")

    run, _ = together("twice", f"a={model}", f"b={model}")
    document, code = trials.doctor(run, "--try")
    finding = next((one for one in document["findings"] if one["id"] == "duplicate-models"), None)
    if finding is None:
        trials.add("duplicate sessions", ids(document["findings"]), None, "-", "-", "-", "-", False)
        return
    for cure in finding["cures"]:
        tried = cure["tried"]
        print(f"  {cure['what']}: {tried['sentence']}", file=sys.stderr)
        settings = "," + tried["settings"] if "settings" in tried else ""
        cured, _ = together("cured" + settings, *([f"a={model}"] if "left_out" in tried else
                                                  [f"a={model}{settings}", f"b={model}{settings}"]))
        after, after_code = trials.doctor(cured)
        saves = cure.get("saves_bytes", 0)
        print(f"    at most {saves / MIB:.1f} MiB, saved {tried['saved_bytes'] / MIB:.1f}; findings when cured: {ids(after['findings'])}", file=sys.stderr)
        trials.add(f"duplicate sessions; cured: {cure['what']}", finding["id"], "session",
                   "shares of pages, all processes", f"{tried['before']['run_peak_bytes'] / MIB:.1f} MiB",
                   f"{tried['after']['run_peak_bytes'] / MIB:.1f} MiB", ids(after["findings"]),
                   finding["severity"] == "warning" and code == 0 and tried["verdict"] in ("helps", "costs_speed")
                   and tried["saved_bytes"] <= saves and is_healthy(after["findings"], after_code)
                   and not any(one["id"] == finding["id"] for one in after["findings"]))
    two, report = together("two", f"a={model}", f"b={other}")
    document, code = trials.doctor(two)
    shares = report["parallel"]["joint_share_peak_bytes"]
    trials.add("none: two models of different files at once", "-", "-", "shares of pages, all processes", "-",
               f"{shares / MIB:.1f} MiB", ids(document["findings"]), is_healthy(document["findings"], code)
               and not any(one["id"] == "duplicate-models" for one in document["findings"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--only", choices=["trace", "thrash", "load", "duplicates"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        trials = Trials(options.build.resolve(), pathlib.Path(name))
        model, other = trials.folder / "w.onnx", trials.folder / "v.onnx"
        weighty_onnx.write(model)
        weighty_onnx.write(other, layers=12)
        chosen = {"trace": lambda: traced(trials), "thrash": lambda: thrash(trials),
                  "load": lambda: load_peak(trials), "duplicates": lambda: duplicates(trials, model, other)}
        for name, work in chosen.items():
            if options.only in (None, name):
                work()
        print(trials.table())
        if options.markdown:
            options.markdown.write_text(trials.table(), encoding="utf-8")
        return 1 if trials.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
