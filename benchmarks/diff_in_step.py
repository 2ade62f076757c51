#!/usr/bin/env python3
"""Measures how often headroom diff is wrong for three or more pairs of runs in step (headroom bench --in-step).

Two runs start together and alternate frame by frame: plain and plain, or plain and slower by 3 %. The slowdown is real:
benchmarks/planted_onnxruntime.cpp replaces ONNX Runtime's run call and spins for 3 % of its time. Each pair goes through
`headroom diff --json`: a hundred random comparisons, with as many pairs per side as `--sides` says, are drawn from them. With
--repeat each side is one `headroom bench --repeat N`, and nothing is drawn: no two comparisons share a run.

    benchmarks/diff_in_step.py --model FILE.onnx [--frames 1000] [--pairs 100] [--threads 1] [--settings spinning=off] [--sides 8]
                          [--repeat N] [--same-per-slower N] [--minutes N]
                          [--build build/release]

Prints one row of a Markdown table; --head prints the table's head, too.
"""
import argparse
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

SLOWDOWN = 0.03


def start_run(arguments, side, name, slow):
    environment = dict(os.environ, HEADROOM_ONNXRUNTIME=str(arguments.planted.resolve()),
                       HEADROOM_PLANTED_LIBRARY=str((arguments.build / "bin/libonnxruntime.so.1").resolve()))
    if slow:
        environment["HEADROOM_PLANTED_SLOWDOWN"] = str(SLOWDOWN)
    model = f"m={arguments.model}" + (f",{arguments.settings}" if arguments.settings else "")
    command = [str(arguments.build / "bin/headroom"), "bench", "--task", "none", "--model", model,
               "--max-frames", str(arguments.frames), "--threads", str(arguments.threads), "--quiet",
               "--output-dir", str(arguments.folder / side), "--prepared-dir", str(arguments.folder / f"prepared-{side}")]
    command += ["--in-step", name, "--repeat", str(arguments.repeat)] if name else []
    command += ["--skip-setup"] if (arguments.folder / f"prepared-{side}").exists() else []
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def ended(process):
    errors = process.communicate()[1]
    if process.returncode != 0:
        sys.exit(f"headroom bench failed: {errors}")


def measure_pair(arguments, slow, seed):
    """The folders of the runs that alternated: those of before, those of after."""
    name = f"in-step-{os.getpid()}-{seed}"
    for process in [start_run(arguments, side, name, slow and side == "after") for side in ("before", "after")]:
        ended(process)
    return [sorted((arguments.folder / side).iterdir())[-arguments.repeat:] for side in ("before", "after")]


def compare(arguments, pairs):
    """The latency row of the comparison, and the names of the judged rows that differ."""
    before, after = (sum(side, []) for side in zip(*pairs))
    done = subprocess.run([str(arguments.build / "bin/headroom"), "diff", "--json", *map(str, before), ":", *map(str, after)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"headroom diff failed: {done.stderr}")
    metrics = json.loads(done.stdout)["models"][0]["metrics"]
    latency = next(metric for metric in metrics if metric["name"] == "latency")
    if latency["spread"] != "in_step":
        sys.exit(f"{before} and {after} were not in step")
    return latency, {metric["name"] for metric in metrics if metric.get("differs") and metric["judged"]}


def row(arguments, words, same, slower, facts):
    ratios = [math.log(1 + one["change_percent"] / 100) for one, _ in same]
    reach = [(one["change_high_percent"] - one["change_low_percent"]) / 2 for one, _ in same]
    alarms = [found for _, found in same if found]
    found = sum("latency" in names and one["change_percent"] > 0 for one, names in slower)
    print(f"| {pathlib.Path(arguments.model).stem}, {arguments.frames}, {arguments.threads}"
          f"{' ' + arguments.settings if arguments.settings else ''} | "
          f"{statistics.median(one['before_ns'] for one, _ in same) / 1e6:.2f} ms | {facts} | {words} | "
          f"{len(alarms)} of {len(same)} | {sum('latency' in names for names in alarms)} | {found} of {len(slower)} | "
          f"{statistics.median(one['change_percent'] for one, _ in slower):+.1f} % | {statistics.stdev(ratios):.2%} | "
          f"±{statistics.median(reach):.1f} % |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--settings", default="", help="settings added after the model's path, such as spinning=off")
    parser.add_argument("--sides", default="8", help="pairs per side, three or more")
    parser.add_argument("--repeat", type=int, default=1, help="runs per side of each pair, by one call of headroom bench")
    parser.add_argument("--same-per-slower", type=int, default=1, help="equal pairs for each slower pair")
    parser.add_argument("--minutes", type=float, help="stop after this time with the pairs measured so far")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--planted", type=pathlib.Path)
    parser.add_argument("--head", action="store_true", help="the table's head, too")
    arguments = parser.parse_args()
    arguments.planted = arguments.planted or arguments.build / "bin/libplanted_onnxruntime.so"
    with tempfile.TemporaryDirectory() as temporary:
        arguments.folder = pathlib.Path(temporary)
        for side in ("before", "after"):
            ended(start_run(arguments, side, None, False))
        started, load, same, slower = time.time(), [], [], []
        for i in range(arguments.pairs):
            same.append(measure_pair(arguments, False, 2 * i))
            if i % arguments.same_per_slower == 0:
                slower.append(measure_pair(arguments, True, 2 * i + 1))
            load.append(os.getloadavg()[0])
            print(f"\r{i + 1} of {arguments.pairs}", end="", file=sys.stderr)
            if arguments.minutes and time.time() - started > 60 * arguments.minutes:
                break
        print(file=sys.stderr)
        facts = f"{(time.time() - started) / 60:.0f} | {statistics.mean(load):.1f}, at most {max(load):.1f}"
        if arguments.head:
            print("| model, frames, threads | a frame | minutes for all pairs | load average | pairs per side | false alarms | "
                  "of them latency | 3 % slower found | median reported | of the same, one standard deviation | interval, median |")
            print("|---|---|---|---|---|---|---|---|---|---|---|")
        if arguments.repeat > 1:
            row(arguments, str(arguments.repeat), [compare(arguments, [pair]) for pair in same], [compare(arguments, [pair]) for pair in slower], facts)
            return
        random.seed(1)
        for size in map(int, arguments.sides.split(",")):
            drawn = [[compare(arguments, random.sample(pairs, size)) for _ in range(100)] for pairs in (same, slower)]
            row(arguments, f"{size}, drawn", *drawn, facts)


if __name__ == "__main__":
    main()
