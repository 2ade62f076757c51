#!/usr/bin/env python3
"""Measures the cost of headroom_memory.MemoryTracer, and whether it drifts. One process, one thread, the model in eager mode:

- Cost: rounds of traced, plain, plain, traced passes of a model. Plain passes run outside any trace, when nothing is replaced.
  A round's ratio is that of the medians of both sides. Models: resnet18, and a small model with short calls (100 Linear of 4 x 4),
  each also with a recording.
- Soak: --soak passes of a small model in traces of 1000, with max_events=10000, alternating every thousand passes with as many
  untraced ones. Checks resident memory, and whether passes get slower. In 100 blocks, the medians of both sides and their ratio
  are tested for a trend (trend.py). Drift of the machine is in both sides, but not in the ratio.
- --before FOLDER: the same cost with another build's package in FOLDER, in separate processes that alternate.

    PYTHONPATH=build/release/python benchmarks/memory_tracer.py --rounds 40 --soak 1000000 --output benchmarks/results/memory_tracer

A ratio's median has a distribution-free 95 % confidence interval (medians.py). Run it with a Python that has PyTorch
(Debian's: /usr/bin/python3).
"""
import argparse
import array
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from medians import confidence_of_median
from torch_layers import nanoseconds, resnet18
from trend import trend

from headroom_memory import MemoryTracer


def resident_kib():
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def cost(model, run, tracer, rounds, passes):
    """The medians of both sides, for each round."""

    def traced():
        with tracer.trace(model):
            run()  # Python's caches are reset when a class changes
            return nanoseconds(run, passes)

    def plain():
        run()
        return nanoseconds(run, passes)

    traced(), plain()
    found = []
    for _ in range(rounds):
        sides = [side() for side in (traced, plain, plain, traced)]
        found.append({"traced_ns": statistics.median(sides[0] + sides[3]), "plain_ns": statistics.median(sides[1] + sides[2])})
    return found


SOAK_BLOCKS = 100


def soak(passes, device):
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval().to(device)
    x, tracer = torch.ones(1, 16, device=device), MemoryTracer(max_events=10_000, device=device)
    # Arrays of their final size: a growing list would increase the resident memory.
    count = passes // 1000
    columns = {name: array.array("q", bytes(8 * count)) for name in ("resident_kib", "live_bytes", "traced_ns", "plain_ns")}

    def thousand():
        start = time.perf_counter_ns()
        for _ in range(1000):
            model(x)
        return time.perf_counter_ns() - start

    thousand()
    for index in range(count):
        with tracer.trace(model):
            model(x)  # Python's caches are reset when a class changes
            columns["traced_ns"][index] = thousand()
        model(x)
        columns["plain_ns"][index] = thousand()
        columns["resident_kib"][index] = resident_kib()
        columns["live_bytes"][index] = tracer.allocated()
    points = [dict({name: column[i] for name, column in columns.items()}, passes=(i + 1) * 1000) for i in range(count)]
    a_block = count // SOAK_BLOCKS
    blocks = [points[i * a_block:(i + 1) * a_block] for i in range(SOAK_BLOCKS)]
    traced, plain = ([statistics.median(p[side] / 1000 for p in block) for block in blocks] for side in ("traced_ns", "plain_ns"))
    ratios = [statistics.median(p["traced_ns"] / p["plain_ns"] for p in block) for block in blocks]
    stats = tracer.get_layer_stats()
    return {"points": points[:: max(1, len(points) // 100)] + points[-1:], "traced_ns": traced, "plain_ns": plain, "ratios": ratios,
            "trends": {"a traced pass": trend_over_soak(traced), "an untraced pass": trend_over_soak(plain), "their ratio": trend_over_soak(ratios)},
            "early": points[min(9, len(points) - 1)], "end": points[-1], "calls": stats["0"].calls,
            "allocated_bytes": stats["0"].allocated_bytes, "bytes_a_pass": 16 * 4}


def trend_over_soak(values):
    """The slope over the whole soak, as a share of the median."""
    found, scale = trend(values), len(values) / statistics.median(values)
    return {"p": found["p"], "slope": found["slope"] * scale, "low": found["low"] * scale, "high": found["high"] * scale}


def soak_lines(found):
    early, end = found["early"], found["end"]
    lines = ["", f"The soak, {end['passes']:,} passes of three modules in traces of 1000, and as many without between them: resident "
             f"{early['resident_kib']:,} KiB after {early['passes']:,} traced passes, {end['resident_kib']:,} KiB at the end; live tensors "
             f"{early['live_bytes']} bytes and {end['live_bytes']} bytes. Counted {found['calls']:,} calls of the first layer (one more for each trace), "
             f"{found['allocated_bytes']:,} bytes ({found['bytes_a_pass']} a pass).", "",
             f"Drift, over the whole soak in {SOAK_BLOCKS} blocks ([trend.py](../trend.py)):", "",
             "| time of | median | slope of Theil and Sen over the soak | 95 % | Mann and Kendall, p |", "|---|--:|--:|--:|--:|"]
    for name, values in (("a traced pass", found["traced_ns"]), ("an untraced pass", found["plain_ns"]), ("their ratio", found["ratios"])):
        median, t = statistics.median(values), found["trends"][name]
        shown = f"× {median:.4f}" if name == "their ratio" else f"{median / 1000:.2f} µs"
        lines.append(f"| {name} | {shown} | {100 * t['slope']:+.2f} % | {100 * t['low']:+.2f} to {100 * t['high']:+.2f} % | {t['p']:.3f} |")
    return lines


def compare(options):
    """Runs this script with both packages alternately."""
    sides = {"before": options.before, "now": os.environ["PYTHONPATH"]}
    found = {side: {} for side in sides}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.turns):
            for side in list(sides) if turn % 2 == 0 else reversed(sides):
                output = os.path.join(folder, "found")
                subprocess.run([sys.executable, __file__, "--rounds", str(options.rounds), "--passes", str(options.passes), "--soak", "0",
                                "--device", options.device, "--output", output], check=True, stdout=subprocess.DEVNULL,
                               env={**os.environ, "PYTHONPATH": sides[side]})
                with open(output + ".json", encoding="utf-8") as file:
                    for name, rounds in json.load(file)["rounds"].items():
                        found[side].setdefault(name, []).append(statistics.median(r["traced_ns"] / r["plain_ns"] for r in rounds))
    lines = [f"{options.turns} processes of {options.rounds} rounds each, alternating with the previous build: the median of their medians, and their range.", "",
             "| a pass of | traced before, of untraced | now |", "|---|--:|--:|"]
    for name in found["now"]:
        lines.append(f"| {name} | " + " | ".join(
            f"× {statistics.median(found[side][name]):.4f} ({min(found[side][name]):.4f}–{max(found[side][name]):.4f})" for side in sides) + " |")
    return found, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--passes", type=int, default=3, help="passes of resnet18 in a turn (default: 3)")
    parser.add_argument("--soak", type=int, default=1_000_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--before", metavar="FOLDER", help="PYTHONPATH of another build; only compares it with this build")
    parser.add_argument("--turns", type=int, default=5, help="processes of each build, with --before (default: 5)")
    parser.add_argument("--output", default="build/bench/memory_tracer")
    options = parser.parse_args()
    if options.soak and options.soak < 1000 * SOAK_BLOCKS:
        parser.error(f"--soak {options.soak}: must be 0 or at least {1000 * SOAK_BLOCKS}, a thousand for each block")
    load = os.getloadavg()[0]
    machine = f"{os.cpu_count()} processors, {platform.machine()}, Linux {platform.release()}; load when it began {load:.1f}"
    if options.before:
        found, lines = compare(options)
        return write(options.output, lines, {"machine": machine, "turns": found})
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    wait = torch.cuda.synchronize if options.device != "cpu" else lambda: None

    def runner(model, x):
        def run():
            model(x)
            wait()
        return run

    resnet = resnet18(torch).to(options.device)
    small = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(100)]).to(options.device)
    image, row = torch.rand(1, 3, 224, 224, device=options.device), torch.zeros(1, 4, device=options.device)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        plain, recording = MemoryTracer(device=options.device), MemoryTracer(device=options.device, record_to=os.path.join(folder, "a.hrec"))
        for name, model, x, passes in (("resnet18 b1", resnet, image, options.passes), ("100 Linear of 4 x 4", small, row, 30)):
            found[name] = cost(model, runner(model, x), plain, options.rounds, passes)
            found[name + ", recorded"] = cost(model, runner(model, x), recording, options.rounds, passes)
        recorded_bytes = os.path.getsize(os.path.join(folder, "a.hrec"))
    found_soak = soak(options.soak, options.device) if options.soak else None
    lines = ["# What MemoryTracer costs", "",
             f"Command: `PYTHONPATH=build/release/python benchmarks/memory_tracer.py --rounds {options.rounds} --passes {options.passes} --soak {options.soak} "
             f"--device {options.device}`. Machine: {machine}. PyTorch {torch.__version__}, Python {platform.python_version()}, one thread.", "",
             "| a pass of | untraced | traced, of it | 95 % of the median | rounds |", "|---|--:|--:|--:|--:|"]
    for name, rounds in found.items():
        ratios = [r["traced_ns"] / r["plain_ns"] for r in rounds]
        low, high = confidence_of_median(ratios)
        lines.append(f"| {name} | {statistics.median(r['plain_ns'] for r in rounds) / 1e6:.3f} ms | × {statistics.median(ratios):.4f} | {low:.4f}–{high:.4f} | {len(rounds)} |")
    if found_soak:
        lines += soak_lines(found_soak)
    write(options.output, lines, {"machine": machine, "torch": torch.__version__, "rounds": found, "recorded_bytes": recorded_bytes, "soak": found_soak})


def write(output, lines, figures):
    text = "\n".join(lines) + "\n"
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    with open(output + ".md", "w", encoding="utf-8") as file:
        file.write(text)
    with open(output + ".json", "w", encoding="utf-8") as file:
        json.dump(figures, file)
        file.write("\n")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
