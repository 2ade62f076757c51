#!/usr/bin/env python3
"""What `headroom trace` in its default mode adds to inference on a GPU, with ONNX Runtime's CUDA provider
(bench/bare_onnxruntime_loop.cpp) and with PyTorch (gpu_torch_guest.py inference).

    gpu_trace_cost.py --build BIN --models FOLDER --out FOLDER [--pairs 21] [--only onnxruntime,pytorch]

Pairs of processes, one of each traced. Both are ready and idle at first; then they run in turns of --slice seconds, when they are
told to (on_command.h), so neither is stopped with work still on the GPU, and both run on the same processors. The ratio of a pair
is the median over its turns of traced P50 / untraced P50; the median over the pairs has a distribution-free 95 % interval.
Models that are absent are exported from torchvision as in gpu_inference.py. What lacks its inputs is skipped, and says so.
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
PYTORCH = ("resnet50_b1", "resnet50_b32", "vit_b_16_b8", "transformer_b4")
ONNX = ("resnet50", "fcn_resnet50")


class Program:
    """A process that runs when it is told to."""

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
        """Every thread to the same processors as its peer's: they differ in what the machine's other guests leave of them."""
        for pid in session_members(self.process.pid):
            for thread in os.listdir(f"/proc/{pid}/task"):
                try:
                    os.sched_setaffinity(int(thread), self.processors)
                except OSError:
                    pass

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(30)
        except (OSError, subprocess.TimeoutExpired):
            pass
        if self.process.poll() is None:
            send(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def take_turns(alone, traced, name, options):
    """One pair's ratio for a model."""
    pair = {"alone": alone, "traced": traced}
    count = {}
    for side, program in pair.items():
        seconds = program.ask(f"{name} {options.warmup}".strip())["p50_ns"] / 1e9
        count[side] = max(5, round(options.slice / seconds))
    passes = max(count.values())
    turns = []
    for index in range(options.turns):
        order = list(pair) if index % 2 == 0 else list(reversed(pair))
        turns.append({side: pair[side].ask(f"{name} {passes}".strip())["p50_ns"] for side in order})
    return {"ratio": statistics.median(turn["traced"] / turn["alone"] for turn in turns),
            "alone_ns": statistics.median(turn["alone"] for turn in turns), "passes": passes, "turns": turns}


def measure(command, names, options, budget):
    """Pairs, some started at once, since starting takes longer than measuring. Ends early when its time is over."""
    until, pairs = time.monotonic() + budget, {name or "": [] for name in names}
    trace = [options.build / "headroom", "trace", "--force", "--out"]
    processors = sorted(os.sched_getaffinity(0))[-options.processors:]
    failed, index = None, 0
    with tempfile.TemporaryDirectory() as folder:
        while index < options.pairs and time.monotonic() < until and failed is None:
            batch = []
            for number in range(min(options.at_once, options.pairs - index)):
                recording = f"{folder}/{number}.hrec"
                both = [("alone", command), ("traced", trace + [recording, "--"] + command)]
                batch.append({side: Program(words, processors) for side, words in (both if number % 2 == 0 else reversed(both))})
            try:
                for pair in batch:
                    for program in pair.values():
                        program.answer()
                        program.pin()
                for pair in batch:
                    if time.monotonic() > until:
                        break
                    for name in names:
                        pairs[name].append(take_turns(pair["alone"], pair["traced"], name, options))
                    index += 1
                    print({name: round(found[-1]["ratio"], 4) for name, found in pairs.items()}, file=sys.stderr)
            except (RuntimeError, OSError, KeyError) as problem:
                failed = str(problem)
            for pair in batch:
                for program in pair.values():
                    program.end()
    return pairs, failed


def summary(pairs):
    found = {}
    for name, all_of_it in pairs.items():
        if len(all_of_it) >= 2:
            found[name] = {"pairs": len(all_of_it), "alone_ms": statistics.median(one["alone_ns"] for one in all_of_it) / 1e6,
                           "ratio": interval_of_median([one["ratio"] for one in all_of_it]),
                           "ratios": [round(one["ratio"], 5) for one in all_of_it]}
    return found


def onnxruntime(options, budget):
    if not (options.build / "libonnxruntime_providers_cuda.so").exists():
        return {"skipped": f"ONNX Runtime's CUDA provider is not in {options.build} (scripts/join_onnxruntime_cuda.sh)"}
    options.models.mkdir(parents=True, exist_ok=True)
    export(options.models)
    found = {"models": {}}
    for name in ONNX:
        command = [options.build / "bare_onnxruntime_loop", "--model", options.models / f"{name}.onnx", "--threads", "1", "--device",
                   "cuda:0", "--conv-search", "heuristic", "--on-command", "on"]
        pairs, failed = measure(command, [""], options, budget / len(ONNX))
        if pairs[""]:
            found["models"].update(summary({name: pairs[""]}))
        if failed:
            found.setdefault("failed", {})[name] = failed
    return found


def pytorch(options, budget):
    if subprocess.run([sys.executable, "-c", "import torch, torchvision"], stderr=subprocess.DEVNULL).returncode != 0:
        return {"skipped": f"{sys.executable} has no torch and torchvision"}
    pairs, failed = measure([sys.executable, HERE / "gpu_torch_guest.py", "inference", *PYTORCH], list(PYTORCH), options, budget)
    return {"models": summary(pairs), **({"failed": failed} if failed else {})}


def markdown(result):
    place = result["machine"]
    out = ["# What default mode adds to inference on a GPU", "",
           f"{place['gpu']}, {place['cores']} cores, kernel {place['kernel']}, {place['date']}. Command: `bench/gpu_trace_cost.py`, which also "
           f"writes this file. {result['turns']} turns of {result['slice']:g} s a pair; both processes of a pair on the same "
           f"{result['processors']} processors.", "",
           "| program | model | pairs | P50 alone, ms | traced / alone | 95 % of its median | min–max of the pairs |", "|---|---|--:|--:|--:|--:|--:|"]
    for program in ("onnxruntime", "pytorch"):
        found = result.get(program)
        if found is None:
            continue
        if "skipped" in found:
            out.append(f"| {program} | skipped: {found['skipped']} | | | | | |")
        for model, one in found.get("models", {}).items():
            ratio = one["ratio"]
            out.append(f"| {program} | {model} | {one['pairs']} | {one['alone_ms']:.3f} | {ratio['median']:.4f} | "
                       f"{ratio['ci95_low']:.4f}–{ratio['ci95_high']:.4f} | {ratio['min']:.4f}–{ratio['max']:.4f} |")
        if "failed" in found:
            out.append(f"| {program} | failed: see the JSON file | | | | | |")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--at-once", type=int, default=7, help="pairs that are started together")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--slice", type=float, default=0.12, help="seconds")
    parser.add_argument("--warmup", type=int, default=10, help="passes before the turns of a model")
    parser.add_argument("--processors", type=int, default=4)
    parser.add_argument("--budget", type=float, default=3600, help="seconds for each program's part")
    parser.add_argument("--only", default="onnxruntime,pytorch")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    options.build, options.models = options.build.resolve(), options.models.resolve()
    file = options.out / "gpu_trace_cost.json"
    result = json.loads(file.read_text()) if file.exists() else {}
    result.update({"machine": machine(), "turns": options.turns, "slice": options.slice, "processors": options.processors})
    for name in options.only.split(","):
        result[name] = {"onnxruntime": onnxruntime, "pytorch": pytorch}[name](options, options.budget)
        file.write_text(json.dumps(result, indent=1) + "\n")
        (options.out / "gpu_trace_cost.md").write_text(markdown(result))
    print(markdown(result))


if __name__ == "__main__":
    main()
