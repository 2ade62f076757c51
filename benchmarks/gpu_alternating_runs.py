#!/usr/bin/env python3
"""Compares `headroom bench`'s P50 on a GPU with a bare ONNX Runtime loop. Headroom's worker code and the bare C API alternate in turns
of a dozen runs in one process (alternating_runs.cpp). Each model runs in several processes, because the memory layout of two sessions
differs between processes. `bare, again` is a second bare session: it shows the difference between two equal sessions.

    gpu_alternating_runs.py --build BIN --models FOLDER --out FOLDER [--processes 3] [--model resnet50 …]

BIN contains alternating_runs, Headroom's plug-in and ONNX Runtime with its CUDA provider (scripts/join_onnxruntime_cuda.sh). Missing
models are exported from torchvision as in gpu_inference.py; yolox_nano_640x640.onnx must exist. Writes gpu_alternating_runs.json and
.md after each process.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from gpu_inference import EXPORTED, export, machine
from gpu_trace_cost import Program, take_turns
from truth import interval_of_median

# Turns of 36 runs: 10 to 20 seconds on an H200.
MODELS = {"resnet50": 300, "mobilenet_v2": 400, "resnet18": 500, "fcn_resnet50": 80, "yolox_nano_640x640": 150}


def run(options, model, turns):
    command = [options.build / "alternating_runs", options.models / f"{model}.onnx", "--task", "none", "--device", options.device,
               "--conv-search", "heuristic", "--turns", turns]
    begin = time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"alternating_runs {model} gave {done.returncode}: {done.stderr[-3000:]}")
    return {**json.loads(done.stdout), "seconds": round(time.monotonic() - begin, 1)}


class Turns:  # of gpu_trace_cost.take_turns
    warmup, slice, turns = 100, 0.12, 8


def apart(options, model):
    """Pairs of processes that run on command, on the same processors."""
    begin, ratios, times = time.monotonic(), [], []
    processors = sorted(os.sched_getaffinity(0))[-4:]
    while len(ratios) < options.apart and time.monotonic() - begin < options.budget:
        pair = {name: Program([options.build / "alternating_runs", options.models / f"{model}.onnx", "--task", "none", "--device", options.device,
                               "--conv-search", "heuristic", "--only", way], processors) for name, way in (("alone", "bare"), ("headroom", "headroom"))}
        try:
            for program in pair.values():
                program.answer()
                program.pin()
            found = take_turns(pair, "", Turns)
        finally:
            for program in pair.values():
                program.end()
        ratios.append(found["ratios"]["headroom"])
        times += [(turn["alone"], turn["headroom"]) for turn in found["turns"]]
        print(model, round(ratios[-1], 4), file=sys.stderr, flush=True)
    return {"pairs": len(ratios), "bare_p50_ns": statistics.median(bare for bare, _ in times),
            "headroom_p50_ns": statistics.median(headroom for _, headroom in times), "ratio": interval_of_median(ratios), "ratios": ratios}


def interval(ratio):
    return f"{ratio['median']:.4f} ({ratio['ci95_low']:.4f}–{ratio['ci95_high']:.4f})"


def markdown(result):
    place = result["machine"]
    out = ["# The bench against a bare ONNX Runtime loop on a GPU, in one process", "",
           f"{place['gpu']}, {place['cores']} cores, kernel {place['kernel']}, {place['date']}. Command: `benchmarks/gpu_alternating_runs.py`, which "
           "also writes this file. Turns of twelve runs. The ratio is of each turn's P50: the median over all turns, with its 95 % interval. "
           "Convolutions by heuristic search, input and outputs on the device, one synchronization at the end, in all three columns.", "",
           "| model | process | turns | bare P50, ms | Headroom P50, ms | Headroom / bare | bare, again / bare |",
           "|---|--:|--:|--:|--:|--:|--:|"]
    for model, processes in result["models"].items():
        for number, one in enumerate(processes, 1):
            out.append(f"| {model} | {number} | {one['headroom_over_bare']['n']} | {one['bare_p50_ns'] / 1e6:.3f} | {one['headroom_p50_ns'] / 1e6:.3f} | "
                       f"{interval(one['headroom_over_bare'])} | "
                       f"{interval(one['bare_again_over_bare']) if 'bare_again_over_bare' in one else '–'} |")
        if len(processes) > 1:
            def middle(key, processes=processes):
                found = [one[key]["median"] for one in processes if key in one]
                return f"{statistics.median(found):.4f}" if found else "–"
            out.append(f"| {model} | median of {len(processes)} | | | | {middle('headroom_over_bare')} | {middle('bare_again_over_bare')} |")
    if result.get("apart"):
        out += ["", "Two processes alternate on the same four processors, 8 turns of 0.12 s per pair. The ratio of a pair is the median of its turns:", "",
                "| model | pairs | bare P50, ms | Headroom P50, ms | Headroom / bare, median of the pairs and its 95 % interval |", "|---|--:|--:|--:|--:|"]
    for model, one in result.get("apart", {}).items():
        out.append(f"| {model} | {one['pairs']} | {one['bare_p50_ns'] / 1e6:.3f} | {one['headroom_p50_ns'] / 1e6:.3f} | {interval(one['ratio'])} |")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--model", action="append", choices=MODELS, help="only this model; may be repeated")
    parser.add_argument("--turns", type=int, help="the same for all models")
    parser.add_argument("--apart", type=int, metavar="PAIRS", help="alternate two processes: for models of which ONNX Runtime cannot have two "
                        "sessions in one process")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds for each model, with --apart")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    options.models.mkdir(parents=True, exist_ok=True)
    options.build = options.build.resolve()
    wanted = options.model or list(MODELS)
    export(options.models, [name for name in wanted if name in EXPORTED])
    file = options.out / "gpu_alternating_runs.json"
    result = json.loads(file.read_text()) if file.exists() else {"models": {}}
    result["machine"] = machine()
    for model in wanted if options.apart else ():
        result.setdefault("apart", {})[model] = apart(options, model)
    for _ in range(0 if options.apart else options.processes):  # one process of each model first, so that no model is missing if the run is interrupted
        for model in wanted:
            result["models"].setdefault(model, []).append(run(options, model, options.turns or MODELS[model]))
            file.write_text(json.dumps(result, indent=1) + "\n")
            (options.out / "gpu_alternating_runs.md").write_text(markdown(result))
    file.write_text(json.dumps(result, indent=1) + "\n")
    (options.out / "gpu_alternating_runs.md").write_text(markdown(result))
    print(markdown(result))


if __name__ == "__main__":
    main()
