#!/usr/bin/env python3
"""Measures how often headroom diff is wrong on real runs: false alarms between identical runs, and planted faults that it
misses.

Runs of headroom bench alternate: plain, slower by 3 %, plain, larger by 2 %. The faults are real:
benchmarks/planted_onnxruntime.cpp replaces ONNX Runtime's run call and spins, or allocates and keeps memory. Then the runs are
drawn at random into two sides, with as many runs per side as `--sides` says (10:1 is ten before and one after). Every pair
of sides goes through `headroom diff --json`.

    benchmarks/diff_power.py --model FILE.onnx [--build build/release] [--runs 240] [--pairs 200] [--folder DIR] [--aslr]

With --folder, existing runs in that folder are reused. --aslr: each run has another memory layout. Prints Markdown.
"""
import argparse
import json
import math
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time

SLOWDOWN = 0.03
GROWTH = 0.02
MEMORY = {"load_peak", "run_peak"}
TAIL = {"p50", "p99", "fps"}


def run_bench(arguments, kind, environment):
    folder = arguments.folder / kind
    command = [str(arguments.build / "bin/headroom"), "bench", "--task", "none", "--model", f"m={arguments.model}",
               "--max-frames", str(arguments.frames), "--threads", "1", "--quiet",
               "--output-dir", str(folder), "--prepared-dir", str(arguments.folder / "prepared")]
    command += ["--aslr"] if arguments.aslr else []
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"headroom bench failed: {done.stderr}")
    return max(folder.iterdir())


def measure(arguments):
    plain = dict(os.environ, HEADROOM_ONNXRUNTIME=str(arguments.planted.resolve()),
                 HEADROOM_PLANTED_LIBRARY=str((arguments.build / "bin/libonnxruntime.so.1").resolve()))
    first = json.loads((run_bench(arguments, "warm-up", plain) / "report.json").read_text())
    grown_bytes = int(first["models"][0]["memory"]["run_peak_bytes"] * GROWTH)
    slow = dict(plain, HEADROOM_PLANTED_SLOWDOWN=str(SLOWDOWN))
    grown = dict(plain, HEADROOM_PLANTED_BYTES=str(grown_bytes))
    started, load = time.time(), []
    for i in range(arguments.runs // 2):
        for kind, environment in (("plain", plain), ("slow", slow), ("plain", plain), ("grown", grown)):
            run_bench(arguments, kind, environment)
        load.append(os.getloadavg()[0])
        print(f"\r{4 * (i + 1)} of {2 * arguments.runs} runs", end="", file=sys.stderr)
    print(file=sys.stderr)
    facts = {"planted_bytes": grown_bytes, "minutes": (time.time() - started) / 60,
             "load_mean": sum(load) / len(load), "load_max": max(load)}
    (arguments.folder / "facts.json").write_text(json.dumps(facts))


def compare(arguments, before, after):
    command = [str(arguments.build / "bin/headroom"), "diff", "--json", *map(str, before), ":", *map(str, after)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {done.stderr}")
    return json.loads(done.stdout)


def shuffled(runs, kind, size):
    """Two sides without a common run, drawn from the whole measurement."""
    before, after = size
    if kind == "plain":
        drawn = random.sample(runs["plain"], before + after)
        return drawn[:before], drawn[before:]
    return random.sample(runs["plain"], before), random.sample(runs[kind], after)


def in_turns(runs, kind, size):
    """Sides from random rounds: each round has a plain run and a run of `kind`, one after the other."""
    before, after = [], []
    for i in random.sample(range(len(runs["slow"])), size[0]):
        pair = [runs["plain"][2 * i], runs["plain"][2 * i + 1]]
        if kind == "plain":
            random.shuffle(pair)
        else:
            pair = [runs["plain"][2 * i + (kind == "grown")], runs[kind][i]]
        before.append(pair[0])
        after.append(pair[1])
    return before, after


def differing(document, judged=True):
    return {metric["name"] for model in document["models"] for metric in model["metrics"]
            if metric.get("differs") and metric["judged"] == judged}


def spread(folders, share):
    """Variation of a latency percentile between runs: one standard deviation of its logarithm."""
    logs = []
    for folder in folders:
        lines = (folder / "frames/m.csv").read_text().split("\n")[1:-1]
        times = sorted(int(line.split(",")[2]) for line in lines)
        logs.append(math.log(times[math.ceil(share * len(times)) - 1]))
    return statistics.stdev(logs)


def memory_spread(folders):
    """The smallest and the largest run peak of the runs."""
    peaks = [json.loads((folder / "report.json").read_text())["models"][0]["memory"]["run_peak_bytes"] for folder in folders]
    return min(peaks) / 2**20, max(peaks) / 2**20


def percent(part, whole):
    return f"{100 * part / whole:.1f} % ({part} of {whole})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--planted", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=240, help="number of plain runs; half as many of each fault")
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--sides", default="1,3,3:1,5,10,10:1,10:3,20,20:3,30")
    parser.add_argument("--aslr", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--measure-only", action="store_true")
    arguments = parser.parse_args()
    arguments.planted = arguments.planted or arguments.build / "bin/libplanted_onnxruntime.so"
    with tempfile.TemporaryDirectory() as temporary:
        arguments.folder = arguments.folder or pathlib.Path(temporary)
        if not (arguments.folder / "facts.json").exists():
            measure(arguments)
        if not arguments.measure_only:
            report(arguments)


def report(arguments):
    random.seed(1)
    facts = json.loads((arguments.folder / "facts.json").read_text())
    runs = {kind: sorted((arguments.folder / kind).iterdir()) for kind in ("plain", "slow", "grown")}
    print(f"{len(runs['plain'])} plain runs, {len(runs['slow'])} slower by {SLOWDOWN:.0%}, {len(runs['grown'])} larger by "
          f"{facts['planted_bytes']} bytes ({GROWTH:.0%} of the run peak), {arguments.frames} frames each, in turns, in "
          f"{facts['minutes']:.0f} minutes; {os.cpu_count()} cores, {platform.machine()}; load average "
          f"{facts['load_mean']:.1f}, at most {facts['load_max']:.1f}. From run to run the frames' 2nd percentile moved by "
          f"{spread(runs['plain'], 0.02):.1%}, the 10th by {spread(runs['plain'], 0.1):.1%}, the median by "
          f"{spread(runs['plain'], 0.5):.0%} (one standard deviation); run peaks of the plain runs: "
          "{:.2f} to {:.2f} MiB.\n".format(*memory_spread(runs["plain"])))
    print("| drawn | runs per side | false alarms | of them latency | p50, p99, fps | memory | rows beside | 3 % slower found | 2 % larger found |")
    print("|---|---|---|---|---|---|---|---|---|")
    for draw, words in ((shuffled, "shuffled"), (in_turns, "in turns")):
        for size in ([int(part) for part in side.split(":")] * 2 for side in arguments.sides.split(",")):
            size = size[:2]
            if draw is in_turns and size[0] != size[1]:
                continue
            same = [compare(arguments, *draw(runs, "plain", size)) for _ in range(arguments.pairs)]
            found, beside = [differing(one) for one in same], [differing(one, judged=False) for one in same]
            slower = [differing(compare(arguments, *draw(runs, "slow", size))) for _ in range(100)]
            larger = [differing(compare(arguments, *draw(runs, "grown", size))) for _ in range(100)]
            side = size[0] if size[0] == size[1] else f"{size[0]} and {size[1]}"
            print(f"| {words} | {side} | {percent(sum(map(bool, found)), len(found))} | "
                  f"{sum('latency' in one for one in found)} | {sum(bool(one & TAIL) for one in found)} | "
                  f"{sum(bool(one & MEMORY) for one in found)} | {percent(sum(map(bool, beside)), len(beside))} | "
                  f"{percent(sum(bool(one & (TAIL | {'latency'})) for one in slower), 100)} | "
                  f"{percent(sum('run_peak' in one for one in larger), 100)} |", flush=True)


if __name__ == "__main__":
    main()
