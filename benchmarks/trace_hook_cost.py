#!/usr/bin/env python3
"""Measures what the hooks of `headroom trace` in default mode add to inference with ONNX Runtime. In one traced process the calls of
malloc, free, new and delete alternate between using the hooks and bypassing them (benchmarks/allocator_binding.h). Addresses, threads, other
virtual machines and the GPU are the same for both, so differences of a fraction of a per mille are visible. Two processes differ by
per cents.

    benchmarks/trace_hook_cost.py --build build/release/bin --model resnet50.onnx [--device cuda:0] [--processes 3] [--seconds 60]

    benchmarks/trace_hook_cost.py --medians sample_neighbours sample_neighbours_restless known_walks

prints the combined medians of several runs in benchmarks/results/trace_hook_cost.json.

Each process is accompanied by one of another build (with --other NAME=FOLDER), and by an untraced one, whose turns do not differ: it
shows the error of the method. A block that was recorded in one turn may be freed in the next turn without the hooks, so the hooks'
tables fill up more than usual; this counts against the hooks. A turn is --slice seconds of runs, after two uncounted runs. The ratio of
a pair of turns is with hooks / without them. Its median has a distribution-free 95 % interval over the pairs, so differences between
processes are visible only in the last column. gpu_trace_cost.py's mode `gpu` measures what tracing adds besides the heap hooks
(nothing was found). Uses only the Python standard library.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

from medians import confidence_of_median


class Loop:
    def __init__(self, command):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=os.environ | {"LD_BIND_NOW": "1"})
        self.answer()

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"trace_hook_cost: {' '.join(map(str, self.process.args))} ended early")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def pairs_of(loop, seconds, slice_seconds):
    loop.ask("30")
    runs = max(6, round(slice_seconds / (loop.ask("30")["p50_ns"] / 1e9)))
    ratios, past = [], []
    spent, places, index = 0.0, 0, 0
    while spent < seconds:
        found = {}
        for side in ("hooks", "past") if index % 2 == 0 else ("past", "hooks"):
            loop.ask(f"{side} 2")
            answer = loop.ask(f"{side} {runs}")
            found[side], places = answer["p50_ns"], answer["places"]
            spent += found[side] * (runs + 2) / 1e9
        ratios.append(found["hooks"] / found["past"])
        past.append(found["past"])
        index += 1
    if places == 0:
        raise SystemExit("trace_hook_cost: no library of this process calls malloc, free, new or delete through the loader's tables: nothing to measure")
    return {"ratios": [round(ratio, 5) for ratio in ratios], "past_ns": statistics.median(past), "runs": runs, "places": places}


def named(words):
    name, sign, value = words.partition("=")
    if not (name and sign and value):
        raise argparse.ArgumentTypeError(f"'{words}' has no name: use NAME={words}")
    return name, value


def page(options, machine, found):
    lines = ["# Overhead of the default mode's hooks for inference, alternating in one process", "",
             f"{machine}, {datetime.date.today()}. Command: `benchmarks/trace_hook_cost.py --model {os.path.basename(options.model)} "
             f"--device {options.device} --processes {options.processes} --seconds {options.seconds:g}{' --other …' if options.other else ''}`.", "",
             "| process | pairs of turns | P50 without hooks, ms | with hooks / without | 95 % of its median | of each process |",
             "|---|--:|--:|--:|--:|---|"]
    for kind, processes in found.items():
        ratios = [ratio for one in processes for ratio in one["ratios"]]
        low, high = confidence_of_median(ratios)
        each = ", ".join(f"{statistics.median(one['ratios']):.4f}" for one in processes)
        lines.append(f"| {kind} | {len(ratios)} | {statistics.median(one['past_ns'] for one in processes) / 1e6:.3f} | "
                     f"{statistics.median(ratios):.4f} | {low:.4f}–{high:.4f} | {each} |")
    return "\n".join(lines) + "\n"


def medians_of_runs(names):
    runs = json.loads((pathlib.Path(__file__).parent / "results/trace_hook_cost.json").read_text())
    if unknown := [name for name in names if name not in runs]:
        raise SystemExit(f"trace_hook_cost: unknown run '{unknown[0]}'; trace_hook_cost.json has {', '.join(runs)}")
    medians = {}
    for run in (runs[name] for name in names):
        for kind, processes in run["found"].items():
            medians.setdefault(kind, []).extend(one["median"] if "median" in one else statistics.median(one["ratios"]) for one in processes)
    for kind, values in medians.items():
        low, high = confidence_of_median(values)
        print(f"{kind}: {statistics.median(values):.4f} of {len(values)} processes ({low:.4f} to {high:.4f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release/bin"), help="folder of headroom's programs")
    parser.add_argument("--other", action="append", default=[], type=named, metavar="NAME=FOLDER", help="another kind of process, from another build")
    parser.add_argument("--flags", action="append", default=[], type=named, metavar="NAME=FLAGS", help="another kind of process, with these flags of headroom trace")
    parser.add_argument("--preload", action="append", default=[], type=named, metavar="NAME=LIBRARY", help="another kind of process, with this library instead of the tracer")
    parser.add_argument("--medians", nargs="+", metavar="RUN", help="measure nothing: combine the medians of these runs")
    parser.add_argument("--model", help="model to run; required without --medians")
    parser.add_argument("--dims")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20, help="seconds of turns for each process")
    parser.add_argument("--slice", type=float, default=0.03, help="seconds of a turn")
    parser.add_argument("--output", help="path of the JSON and Markdown files, without extension")
    options = parser.parse_args()
    if options.medians:
        return medians_of_runs(options.medians)
    if not options.model:
        parser.error("--model FILE is missing: the model to run")
    loop = [options.build / "bare_onnxruntime_loop", "--model", options.model, "--threads", "1", "--device", options.device, "--on-command", "on"]
    if options.dims:
        loop += ["--dims", options.dims]
    def traced(build, flags=""):
        return lambda folder: [build / "headroom", "trace", *flags.split(), "--force", "--out", f"{folder}/a.hrec", "--"]

    kinds = {"default": traced(options.build), "not traced": lambda _: []}
    for name, folder in options.other:
        kinds[name] = traced(pathlib.Path(folder))
    for name, flags in options.flags:
        kinds[name] = traced(options.build, flags)
    for name, library in options.preload:
        kinds[name] = lambda _, library=library: ["env", f"LD_PRELOAD={os.path.abspath(library)}"]
    found = {kind: [] for kind in kinds}
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], stdout=subprocess.PIPE, text=True,
                         check=False).stdout.strip() if options.device != "cpu" else ""
    machine = f"{gpu + ', ' if gpu else ''}{os.cpu_count()} processors, {platform.machine()}, kernel {platform.release()}"
    text = ""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.processes):
            for kind, before in kinds.items():
                program = Loop(before(folder) + loop)
                found[kind].append(pairs_of(program, options.seconds, options.slice))
                program.end()
                ratios = found[kind][-1]["ratios"]
                print(f"trace_hook_cost: {kind}, process {number + 1}: {statistics.median(ratios):.4f} of {len(ratios)} pairs", file=sys.stderr)
            text = page(options, machine, found)
            if options.output:  # after each round, so that an interrupted run still has results
                pathlib.Path(options.output + ".md").write_text(text, encoding="utf-8")
                pathlib.Path(options.output + ".json").write_text(json.dumps({"machine": machine, "found": found}) + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
