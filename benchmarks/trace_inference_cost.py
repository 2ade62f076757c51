#!/usr/bin/env python3
"""Measures what `headroom trace` in default mode adds to inference. Runs a plain ONNX Runtime loop (benchmarks/bare_onnxruntime_loop.cpp)
with and without tracing. Both start together and alternate every quarter of a second or dozen runs (turns.py); their median latencies
are compared. The warm-up includes the three runs that the runtime profiles for the tracer.

    benchmarks/trace_inference_cost.py --build build/release --rounds 15 --output benchmarks/results/trace_inference_cost MODEL[:DIMS] …

The ratio is that of the two sides of one round. Its median has a distribution-free 95 % confidence interval (order statistics of a
sign test). Uses only the Python standard library.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

from medians import confidence_of_median
from turns import run_in_turns, slice_for


def p50(output):
    return json.loads(next(line for line in output.splitlines() if line.startswith("{")))["p50_ns"]


def measure(options, specification, folder):
    model, _, dims = specification.partition(":")
    def loop(iterations):
        return [f"{options.build}/bin/bare_onnxruntime_loop", "--model", model, "--threads", str(options.threads),
                "--iterations", str(iterations), "--warmup", "10"] + (["--dims", dims] if dims else [])

    seconds = p50(subprocess.run(loop(10), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout) / 1e9
    iterations = max(50, round(options.seconds / seconds))
    trace = [f"{options.build}/bin/headroom", "trace", "--force", "--out", f"{folder}/a.hrec", "--"]
    sides = {"alone": loop(iterations), "traced": trace + loop(iterations)}
    rounds = []
    for index in range(options.rounds):
        order = list(sides) if index % 2 == 0 else list(reversed(sides))
        outputs = run_in_turns([sides[side] for side in order], slice_for(seconds))
        rounds.append(dict(zip(order, map(p50, outputs))))
        print(f"trace_inference_cost: {os.path.basename(model)}, round {index + 1} of {options.rounds}", file=sys.stderr)
    ratios = [found["traced"] / found["alone"] for found in rounds]
    low, high = confidence_of_median(ratios)
    return {"model": os.path.basename(model), "rounds": rounds, "ratio": statistics.median(ratios), "low": low, "high": high,
            "ratio_min": min(ratios), "ratio_max": max(ratios), "alone_ms": statistics.median(r["alone"] for r in rounds) / 1e6}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=6, help="seconds that each side runs in a round (default: 6)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", default="build/bench/trace_inference_cost")
    parser.add_argument("models", nargs="+", metavar="MODEL[:DIMS]")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(options, model, folder) for model in options.models]
    names = " ".join(os.path.basename(model) for model in options.models)
    lines = ["# Overhead of default mode for inference", "",
             f"Command: `benchmarks/trace_inference_cost.py --rounds {options.rounds} {names}`. Machine: {os.cpu_count()} processors, "
             f"{platform.machine()}, Linux {platform.release()}; load when it began {load:.1f}. {options.seconds:g} s of each side per round, alternating, "
             f"{options.threads} thread(s).", "",
             "| model | P50 alone, ms | traced / alone | 95 % of its median | min–max of the rounds |", "|---|--:|--:|--:|--:|"]
    for result in results:
        lines.append(f"| {result['model']} | {result['alone_ms']:.2f} | {result['ratio']:.4f} | {result['low']:.4f}–{result['high']:.4f} | "
                     f"{result['ratio_min']:.4f}–{result['ratio_max']:.4f} |")
    text = "\n".join(lines) + "\n"
    os.makedirs(os.path.dirname(options.output) or ".", exist_ok=True)
    with open(options.output + ".md", "w", encoding="utf-8") as file:
        file.write(text)
    with open(options.output + ".json", "w", encoding="utf-8") as file:
        json.dump(results, file)
        file.write("\n")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
