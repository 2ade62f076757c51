#!/usr/bin/env python3
"""Measures what `headroom trace` adds to inference on a GPU, in default mode and with `--only gpu`: with ONNX Runtime's CUDA provider
(benchmarks/bare_onnxruntime_loop.cpp) and with PyTorch (gpu_torch_program.py inference).

    gpu_trace_cost.py --build BIN --models FOLDER --out FOLDER [--pairs 21] [--only onnxruntime,pytorch] [--model resnet50_b1 …]
    gpu_trace_cost.py --pool FOLDER FOLDER… --out FOLDER    combines the pairs of several runs with the same settings

A group of processes has one untraced process and one for each mode. All get ready and wait. Then they run in turns of --slice seconds,
on command (on_command.h), so that none is stopped with work still on the GPU. All use the same processors. The ratio of a pair (a
mode's process and the untraced process of its group) is the median over the turns of traced P50 / untraced P50. The median over the
pairs has a distribution-free 95 % interval. The mode `none` traces nothing: it shows the difference between two equal processes.
Under `setarch -R` all processes have the same addresses. Two untraced processes then differ by a few per mille; otherwise by 2 %.
Missing models are exported from torchvision as in gpu_inference.py. A program whose inputs are missing is reported as skipped. The
results are written after each batch of groups, next to existing results of other models in FOLDER.
"""
import argparse
import json
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from gpu_inference import export, machine
from truth import interval_of_median
from turns import send, session_members

HERE = pathlib.Path(__file__).resolve().parent
PYTORCH = ("resnet50_b1", "resnet18_b1", "resnet50_b32", "vit_b_16_b8", "transformer_b4")
ONNX = ("resnet50", "resnet18", "mobilenet_v2", "fcn_resnet50")
MODES = {"default": [], "other": [], "gpu": ["--only", "gpu"], "none": None}
MODE_NAMES = {"default": "default", "other": "default, of the other build", "gpu": "--only gpu", "none": "none, a second untraced process"}


class Program:
    """A process that runs on command."""

    def __init__(self, command, processors):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, start_new_session=True)
        self.rest, self.processors = b"", processors

    def answer(self, seconds=120):
        """The next line of JSON."""
        until = time.monotonic() + seconds
        while True:
            line, found, rest = self.rest.partition(b"\n")
            if found:
                self.rest = rest
                if line.startswith(b"{"):
                    return json.loads(line)
                continue
            if not select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                raise RuntimeError(f"no answer in {seconds} s: {self.said()}")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise RuntimeError(f"it ended: {self.said()}")
            self.rest += more

    def ask(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.answer()

    def said(self):
        self.errors.seek(0)
        return self.errors.read()[-3000:]

    def pin(self):
        """Pins every thread to the same processors as its peer's, because other virtual machines load the processors differently."""
        for pid in session_members(self.process.pid):
            for thread in os.listdir(f"/proc/{pid}/task"):
                try:
                    os.sched_setaffinity(int(thread), self.processors)
                except OSError:
                    pass

    def close(self):
        """Closes its input. The process then ends, within about a second."""
        try:
            self.process.stdin.close()
        except OSError:
            pass

    def end(self):
        self.close()
        try:
            self.process.wait(30)
        except (OSError, subprocess.TimeoutExpired):
            pass
        if self.process.poll() is None:
            send(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def take_turns(group, name, options):
    """The ratios of one group for a model, by mode."""
    count = {}
    for side, program in group.items():
        seconds = program.ask(f"{name} {options.warmup}".strip())["p50_ns"] / 1e9
        count[side] = max(5, round(options.slice / seconds))
    passes = max(count.values())
    turns = []
    for index in range(options.turns):
        order = sorted(group)
        order = order[index % len(order):] + order[:index % len(order)]  # each is first, and last, equally often
        turns.append({side: group[side].ask(f"{name} {passes}".strip())["p50_ns"] for side in order})
    return {"ratios": {mode: statistics.median(turn[mode] / turn["alone"] for turn in turns) for mode in group if mode != "alone"},
            "alone_ns": statistics.median(turn["alone"] for turn in turns), "passes": passes, "turns": turns}


def command_of(mode, command, recording, options):
    flags = MODES.get(mode)
    if flags is None:
        return command
    build = options.other if mode == "other" else options.build
    return [build / "headroom", "trace", *flags, "--force", "--out", recording, "--", *command]


def measure(command, names, options, budget, note):
    """Measures groups, some started together, because starting takes longer than measuring. Calls `note` with all results after each
    batch. Returns the reason of a failure, if any. Stops when its time budget is used."""
    until, groups = time.monotonic() + budget, {name or "": [] for name in names}
    sides = ["alone", *options.modes]
    processors = sorted(os.sched_getaffinity(0))[-options.processors:]
    failed, index = None, 0
    with tempfile.TemporaryDirectory() as folder:
        while index < options.pairs and time.monotonic() < until and failed is None:
            batch = []
            for number in range(min(options.at_once, options.pairs - index)):
                order = sides if number % 2 == 0 else reversed(sides)
                batch.append({side: Program(command_of(side, command, f"{folder}/{number}-{side}.hrec", options), processors)
                              for side in order})
            try:
                for group in batch:
                    for program in group.values():
                        program.answer()
                        program.pin()
                for group in batch:
                    if time.monotonic() > until:
                        break
                    for name in names:
                        groups[name].append(take_turns(group, name, options))
                    index += 1
                    print({name: {mode: round(ratio, 4) for mode, ratio in found[-1]["ratios"].items()}
                           for name, found in groups.items()}, file=sys.stderr)
            except (RuntimeError, OSError, KeyError) as problem:
                failed = str(problem)
            programs = [program for group in batch for program in group.values()]
            for program in programs:
                program.close()
            for program in programs:
                program.end()
            note(groups)
    return failed


def summary(groups, options):
    found = {}
    for name, all_of_it in groups.items():
        if len(all_of_it) < 2:
            continue
        ratios = {mode: [one["ratios"][mode] for one in all_of_it] for mode in options.modes}
        found[name] = {"pairs": len(all_of_it), "alone_ms": statistics.median(one["alone_ns"] for one in all_of_it) / 1e6,
                       "modes": {mode: {"ratio": interval_of_median(of_mode), "ratios": [round(ratio, 5) for ratio in of_mode]}
                                 for mode, of_mode in ratios.items()}}
    return found


def onnxruntime(options, keep):
    if not (options.build / "libonnxruntime_providers_cuda.so").exists():
        keep({"skipped": f"ONNX Runtime's CUDA provider is not in {options.build} (scripts/join_onnxruntime_cuda.sh)"})
        return
    options.models.mkdir(parents=True, exist_ok=True)
    names = [name for name in ONNX if not options.model or name in options.model]
    export(options.models, names)
    for name in names:
        command = [options.build / "bare_onnxruntime_loop", "--model", options.models / f"{name}.onnx", "--threads", "1", "--device",
                   "cuda:0", "--conv-search", "heuristic", "--on-command", "on"]
        failed = measure(command, [""], options, options.budget / len(names),
                         lambda groups, name=name: keep({"models": summary({name: groups[""]}, options)}))
        if failed:
            keep({"failed": {name: failed}})


def pytorch(options, keep):
    if subprocess.run([sys.executable, "-c", "import torch, torchvision"], stderr=subprocess.DEVNULL).returncode != 0:
        keep({"skipped": f"{sys.executable} has no torch and torchvision"})
        return
    names = [name for name in PYTORCH if not options.model or name in options.model]
    failed = measure([sys.executable, HERE / "gpu_torch_program.py", "inference", *names], names, options, options.budget,
                     lambda groups: keep({"models": summary(groups, options)}))
    if failed:
        keep({"failed": {", ".join(names): failed}})


def pooled(runs):
    result = runs[0]
    for run in runs[1:]:
        if any(run[key] != result[key] for key in ("turns", "slice", "processors")):
            sys.exit("these runs differ in turns, slices or processors")
        for program in ("onnxruntime", "pytorch"):
            for model, one in run.get(program, {}).get("models", {}).items():
                mine = result[program]["models"][model]
                mine["alone_ms"] = (mine["alone_ms"] * mine["pairs"] + one["alone_ms"] * one["pairs"]) / (mine["pairs"] + one["pairs"])
                mine["pairs"] += one["pairs"]
                for mode, of_mode in one["modes"].items():
                    ratios = mine["modes"][mode]["ratios"] + of_mode["ratios"]
                    mine["modes"][mode] = {"ratio": interval_of_median(ratios), "ratios": ratios}
    return result


def markdown(result):
    place = result["machine"]
    out = ["# What tracing adds to inference on a GPU", "",
           f"{place['gpu']}, {place['cores']} cores, kernel {place['kernel']}, {place['date']}. Command: `benchmarks/gpu_trace_cost.py`, which also "
           f"writes this file. {result['turns']} turns of {result['slice']:g} s per pair; all processes of a group on the same "
           f"{result['processors']} processors.", "",
           "| program | model | mode | pairs | P50 alone, ms | traced / alone | 95 % of its median | min–max of the pairs |",
           "|---|---|---|--:|--:|--:|--:|--:|"]
    for program in ("onnxruntime", "pytorch"):
        found = result.get(program)
        if found is None:
            continue
        if "skipped" in found:
            out.append(f"| {program} | skipped: {found['skipped']} | | | | | | |")
        for model, one in found.get("models", {}).items():
            # Earlier results only have the default mode.
            for mode, of_mode in one.get("modes", {"default": one}).items():
                ratio = of_mode["ratio"]
                out.append(f"| {program} | {model} | {MODE_NAMES[mode]} | {one['pairs']} | {one['alone_ms']:.3f} | {ratio['median']:.4f} | "
                           f"{ratio['ci95_low']:.4f}–{ratio['ci95_high']:.4f} | {ratio['min']:.4f}–{ratio['max']:.4f} |")
        if "failed" in found:
            out.append(f"| {program} | failed: see the JSON file | | | | | | |")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--other", type=pathlib.Path, help="folder of an earlier build's headroom and preload libraries, for the mode `other`")
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument("--pool", type=pathlib.Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--at-once", type=int, default=7, help="groups that start together")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--slice", type=float, default=0.12, help="seconds")
    parser.add_argument("--warmup", type=int, default=10, help="passes before the turns of a model")
    parser.add_argument("--processors", type=int, default=4)
    parser.add_argument("--budget", type=float, default=3600, help="seconds for each program's models")
    parser.add_argument("--only", default="onnxruntime,pytorch")
    parser.add_argument("--modes", default="default,gpu", help="of default, other, gpu, none")
    parser.add_argument("--flags", action="append", default=[], metavar="MODE=FLAGS", help="another mode with these flags of headroom trace; may be repeated")
    parser.add_argument("--model", action="append", help="only this model; may be repeated")
    options = parser.parse_args()
    for flags in options.flags:
        name, _, text = flags.partition("=")
        MODES[name], MODE_NAMES[name] = text.split(), text
    options.modes = options.modes.split(",")
    if unknown := set(options.modes) - set(MODES):
        parser.error(f"unknown mode: {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.pool:
        result = pooled([json.loads((folder / "gpu_trace_cost.json").read_text()) for folder in options.pool])
        (options.out / "gpu_trace_cost.json").write_text(json.dumps(result, indent=1) + "\n")
        (options.out / "gpu_trace_cost.md").write_text(markdown(result))
        return print(markdown(result))
    if options.build is None or options.models is None:
        parser.error("--build BIN and --models FOLDER are missing")
    options.build, options.models = options.build.resolve(), options.models.resolve()
    file = options.out / "gpu_trace_cost.json"
    result = json.loads(file.read_text()) if file.exists() else {}
    settings = {"turns": options.turns, "slice": options.slice, "processors": options.processors}
    if any(result.get(key, value) != value for key, value in settings.items()):
        parser.error(f"{file} has results with other --turns, --slice or --processors: use another folder")
    result.update({"machine": machine(), **settings})
    for name in options.only.split(","):
        if options.model and not set(options.model) & set({"onnxruntime": ONNX, "pytorch": PYTORCH}[name]):
            continue

        def keep(found, name=name):
            earlier = result.get(name, {})
            result[name] = {key: {**earlier.get(key, {}), **found.get(key, {})} for key in ("models", "failed")
                            if key in earlier or key in found}
            if "skipped" in found:
                result[name]["skipped"] = found["skipped"]
            file.write_text(json.dumps(result, indent=1) + "\n")
            (options.out / "gpu_trace_cost.md").write_text(markdown(result))
        {"onnxruntime": onnxruntime, "pytorch": pytorch}[name](options, keep)
    print(markdown(result))


if __name__ == "__main__":
    main()
