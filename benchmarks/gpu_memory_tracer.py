#!/usr/bin/env python3
"""Measures what headroom_memory.MemoryTracer adds to inference on a GPU, compared with PyTorch's own tools: forward hooks that read the
allocator's figures, its memory history, and its profiler.

    gpu_memory_tracer.py --out FOLDER [--rounds 40] [--peer-rounds 10] [--model resnet50_b1 …]
    gpu_memory_tracer.py --calls [--device cpu]

One process, eager mode. A side is a number of passes with one synchronization at the end, at least --slice seconds. The time does not
include switching a tool on and off and the first pass with it. A round measures every side once, in changing order, with two untraced
sides. A side's ratio is its time over the mean of those two. The median over the rounds has a distribution-free 95 % interval
(medians.py). PyTorch keeps its allocator's tracker once it is created, so untraced passes are also measured before the first trace.
For each model the tracer's own figures are compared with the allocator's: the peak with `requested_bytes.all.peak`, and the sum over
layers with the peak. PYTHONPATH names the folder of the package headroom. Writes gpu_memory_tracer.json and .md.
The second form prints the cost of a single module call, and of a tensor and its release, in nanoseconds.
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import tempfile
import time

import torch
from medians import confidence_of_median

from headroom_memory import MemoryTracer

from gpu_inference import machine
from gpu_torch_program import make_model

MODELS = ("resnet50_b1", "resnet50_b32", "fcn_resnet50_b1", "ssdlite320_b1", "vit_b_16_b8", "transformer_b4")
OURS = ("MemoryTracer", "MemoryTracer, recorded")
ALLOCATIONS_ALONE = "MemoryTracer, of another module"  # only layer calls are seen; the cost of PyTorch's tracker and of the account


def made(name):
    import torchvision
    with torch.device("cuda"):
        if name == "fcn_resnet50_b1":
            return torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None).eval(), torch.randn(1, 3, 520, 520)
        if name == "ssdlite320_b1":
            model = torchvision.models.detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
            return model.eval(), [torch.rand(3, 320, 320)]
    return make_model(name)


@contextlib.contextmanager
def hooked(model):
    """A tracer in Python: reads the allocator's figures before and after each leaf module."""
    found, handles = {}, []

    def before(module, _):
        found[module] = (torch.cuda.memory_allocated(), torch.cuda.memory_reserved())

    def after(module, _, __):
        found[module] += (torch.cuda.memory_allocated(), torch.cuda.memory_reserved())

    for module in model.modules():
        if not list(module.children()):
            handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def history(stacks):
    settings = {"context": "all", "stacks": stacks} if stacks else {"context": None}
    torch.cuda.memory._record_memory_history(enabled="all", max_entries=100_000, **settings)
    try:
        yield
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


def profiled():
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    return torch.profiler.profile(activities=activities, profile_memory=True, acc_events=True)


def sides_of(model):
    return {
        "MemoryTracer": lambda: plain.trace(model),
        "MemoryTracer, recorded": lambda: recording.trace(model),
        ALLOCATIONS_ALONE: lambda: plain.trace(elsewhere),
        "memory history, no stacks": lambda: history(None),
        "memory history, stacks of Python": lambda: history("python"),
        "memory history, all stacks": lambda: history("all"),
        "torch.profiler, memory": profiled,
        "forward hooks in Python": lambda: hooked(model),
        "untraced": contextlib.nullcontext, "untraced again": contextlib.nullcontext,
    }


def seconds_of(side, run, passes, warm_up=1):
    with side():
        for _ in range(warm_up):
            run()
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(passes):
            run()
        torch.cuda.synchronize()
        return (time.perf_counter_ns() - begin) / passes / 1e9


def figures(model, run):
    """The tracer's figures and the allocator's."""
    tracer = MemoryTracer()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    with tracer.trace(model):
        run()
        torch.cuda.synchronize()
    stats = tracer.get_layer_stats()
    return {"peak_bytes": tracer.peak_allocated(), "allocator_peak_bytes": torch.cuda.memory_stats()["requested_bytes.all.peak"],
            "sum_over_layers_bytes": sum(tracer.get_memory_at_peak().values()), "sum_over_uses_bytes": sum(tracer.get_memory_by_use().values()),
            "layers": len(stats), "layer_calls": sum(stat.calls for stat in stats.values()),
            "allocations": sum(stat.total_allocations for stat in stats.values())}


class Prepared:
    def __init__(self, name, options):
        self.model, self.data = made(name)
        for _ in range(15):
            self.run()
        torch.cuda.synchronize()
        self.passes = max(2, round(options.slice / seconds_of(contextlib.nullcontext, self.run, 5)))
        self.before = [seconds_of(contextlib.nullcontext, self.run, self.passes) for _ in range(11)]

    def run(self):
        return self.model(self.data)


def measure(prepared, options, until):
    run, passes = prepared.run, prepared.passes
    sides, rounds = sides_of(prepared.model), []
    while len(rounds) < options.rounds and time.monotonic() < until:
        with_peers = len(rounds) < options.peer_rounds
        order = [side for side in sides if with_peers or side in OURS or side.startswith("untraced")]
        turn = len(rounds) % len(order)
        # Hooks are by far the slowest, and fewer passes of them give the same precision.
        rounds.append({side: seconds_of(sides[side], run, max(2, passes // 5) if side.startswith("forward") else passes, options.warm_up)
                       for side in order[turn:] + order[:turn]})
    ratios = {side: [one[side] / ((one["untraced"] + one["untraced again"]) / 2) for one in rounds if side in one]
              for side in (*OURS, *(side for side in sides if side not in OURS)) if not side == "untraced again"}
    return {"untraced_ms": statistics.median((one["untraced"] + one["untraced again"]) / 2 for one in rounds) * 1e3,
            "before_any_trace_ms": statistics.median(prepared.before) * 1e3, "passes": passes, "ratios": ratios,
            "figures": figures(prepared.model, run)}


def call_ns(device, rounds=200, calls=200):
    """Median nanoseconds of a call of an Identity in a Sequential, and of torch.empty(1) with its release."""
    model, data = torch.nn.Sequential(*(torch.nn.Identity() for _ in range(calls))), torch.zeros(1, device=device)

    def tensors():
        for _ in range(calls):
            torch.empty(1, device=device)

    def median_ns(run):
        times = []
        for _ in range(rounds):
            begin = time.perf_counter_ns()
            run()
            times.append((time.perf_counter_ns() - begin) / calls)
        return statistics.median(times)

    tracer, found = MemoryTracer(), {}
    for side, enter in (("untraced", contextlib.nullcontext), ("another module is traced", lambda: tracer.trace(torch.nn.Identity())),
                        ("traced", lambda: tracer.trace(model)), ("untraced again", contextlib.nullcontext)):
        with enter():
            found[side] = {"call_ns": round(median_ns(lambda: model(data))), "tensor_ns": round(median_ns(tensors))}
    return found


def save(options, found):
    here = machine()
    (options.out / "gpu_memory_tracer.json").write_text(json.dumps({"machine": here, "torch": torch.__version__, "models": found}, indent=1) + "\n")
    lines = ["# What MemoryTracer adds to inference on a GPU", "",
             f"{here['gpu']}, {here['cores']} cores, kernel {here['kernel']}, {here['date']}; PyTorch {torch.__version__}. Command: `benchmarks/gpu_memory_tracer.py`, which also writes this file. Eager mode, one process; a side is "
             f"at least {options.slice * 1000:.0f} ms of passes; ratios to untraced passes of the same round, median and the 95 % interval of it.", "",
             "| model | untraced, ms | layer calls | allocations | MemoryTracer | 95 % | recorded | 95 % | rounds |", "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for name, one in found.items():
        cells = []
        for side in OURS:
            low, high = confidence_of_median(one["ratios"][side])
            cells += [f"{statistics.median(one['ratios'][side]):.4f}", f"{low:.4f}–{high:.4f}"]
        lines.append(f"| {name} | {one['untraced_ms']:.3f} | {one['figures']['layer_calls']} | {one['figures']['allocations']} | " + " | ".join(cells) +
                     f" | {len(one['ratios'][OURS[0]])} |")
    peers = [side for side, ratios in next(iter(found.values()))["ratios"].items() if ratios and side not in OURS and not side.startswith("untraced")]
    if peers:
        lines += ["", "PyTorch's own tools, in the first of these rounds; medians, lowest to highest:", "", "| model | " + " | ".join(peers) + " | rounds |",
                  "|---|" + "--:|" * (len(peers) + 1)]
    for name, one in found.items() if peers else ():
        cells = [f"{statistics.median(one['ratios'][side]):.3f} ({min(one['ratios'][side]):.3f}–{max(one['ratios'][side]):.3f})" for side in peers]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {len(one['ratios'][peers[0]])} |")
    lines += ["", "The tracer's figures compared with the allocator's (`requested_bytes.all.peak`), and an untraced pass before the first trace of the process and after:", "",
              "| model | peak, bytes | allocator's | sum over layers | sum over uses | untraced before, ms | after, ms |", "|---|--:|--:|--:|--:|--:|--:|"]
    for name, one in found.items():
        seen = one["figures"]
        lines.append(f"| {name} | {seen['peak_bytes']:,} | {seen['allocator_peak_bytes']:,} | {seen['sum_over_layers_bytes']:,} | {seen['sum_over_uses_bytes']:,} | "
                     f"{one['before_any_trace_ms']:.3f} | {one['untraced_ms']:.3f} |")
    (options.out / "gpu_memory_tracer.md").write_text("\n".join(lines) + "\n")
    return "\n".join(lines)


def main():
    global plain, recording, elsewhere
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--device", default="cuda", help="of --calls")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--peer-rounds", type=int, default=10)
    parser.add_argument("--slice", type=float, default=0.06)
    parser.add_argument("--warm-up", type=int, default=1, help="untimed passes of each side; Python specializes its code for "
                        "a class again after each change, within about 50 calls of a place")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds for all models")
    parser.add_argument("--model", action="append", choices=MODELS)
    options = parser.parse_args()
    if options.calls:
        for _ in range(3):
            print(json.dumps(call_ns(options.device)))
        return
    if options.out is None:
        parser.error("--out FOLDER is missing: the folder for the results")
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_grad_enabled(False)
    until, found, names, text = time.monotonic() + options.budget, {}, options.model or MODELS, ""
    with tempfile.TemporaryDirectory() as folder:
        torch.zeros(1, device="cuda")
        prepared = {name: Prepared(name, options) for name in names}
        elsewhere = torch.nn.Identity()
        plain, recording = MemoryTracer(), MemoryTracer(record_to=f"{folder}/a.hrec")
        for index, name in enumerate(names):
            now = time.monotonic()
            found[name] = measure(prepared[name], options, now + (until - now) / (len(names) - index))
            print(name, {side: round(statistics.median(ratios), 4) for side, ratios in found[name]["ratios"].items() if ratios}, file=sys.stderr, flush=True)
            text = save(options, found)
    print(text)


if __name__ == "__main__":
    main()
