#!/usr/bin/env python3
"""What does headroom.MemoryTracer cost, and does it stay as it is? In one process and one thread, with the model in eager mode:

- The cost: rounds of traced, plain, plain, traced passes of a model; plain is outside of any trace, where nothing is
  replaced. A round's ratio is of the medians of its sides. resnet18 and a small one whose calls are short (100 Linear of 4 x 4),
  each also with a recording.
- The soak: --soak passes of a small model in traces of 1000, with max_events=10000: what the process resides in, and
  how long a thousand passes take, at the beginning and at the end.

    PYTHONPATH=build/release/python bench/memory_tracer.py --rounds 40 --soak 1000000 --output bench/results/memory_tracer

A ratio's median has a distribution-free 95 % confidence interval (medians.py). Run by the Python that has PyTorch
(Debian's: /usr/bin/python3).
"""
import argparse
import array
import json
import os
import platform
import statistics
import sys
import tempfile
import time

import torch
from medians import confidence_of_median
from torch_layers import nanoseconds, resnet18

from headroom import MemoryTracer


def resident_kib():
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def cost(model, run, tracer, rounds, passes):
    """Of each round: the medians of both sides."""

    def traced():
        with tracer.trace(model):
            run()  # Python's caches begin anew after a change of a class
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


def soak(passes, device):
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval().to(device)
    x, tracer = torch.ones(1, 16, device=device), MemoryTracer(max_events=10_000, device=device)
    # In arrays of their final size: a list that grows would be found in what the process resides in.
    count = passes // 1000
    columns = {name: array.array("q", bytes(8 * count)) for name in ("resident_kib", "live_bytes", "ns_a_pass")}
    for index in range(count):
        start = time.perf_counter_ns()
        with tracer.trace(model):
            for _ in range(1000):
                model(x)
        taken = time.perf_counter_ns() - start
        for name, value in (("resident_kib", resident_kib()), ("live_bytes", tracer.allocated()), ("ns_a_pass", taken // 1000)):
            columns[name][index] = value
    points = [dict({name: column[i] for name, column in columns.items()}, passes=(i + 1) * 1000) for i in range(count)]
    stats = tracer.get_layer_stats()
    return {"points": points[:: max(1, len(points) // 100)] + points[-1:], "first_ns": statistics.median(p["ns_a_pass"] for p in points[5:55]),
            "last_ns": statistics.median(p["ns_a_pass"] for p in points[-50:]), "early": points[min(9, len(points) - 1)], "end": points[-1],
            "calls": stats["0"].calls, "allocated_bytes": stats["0"].allocated_bytes, "bytes_a_pass": 16 * 4}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--passes", type=int, default=3, help="of resnet18, in a turn (default: 3)")
    parser.add_argument("--soak", type=int, default=1_000_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", default="build/bench/memory_tracer")
    options = parser.parse_args()
    load = os.getloadavg()[0]
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
    found_soak = soak(options.soak, options.device)
    machine = f"{os.cpu_count()} processors, {platform.machine()}, Linux {platform.release()}; load when it began {load:.1f}"
    lines = ["# What MemoryTracer costs", "",
             f"Command: `PYTHONPATH=build/release/python bench/memory_tracer.py --rounds {options.rounds} --passes {options.passes} --soak {options.soak} "
             f"--device {options.device}`. Machine: {machine}. PyTorch {torch.__version__}, Python {platform.python_version()}, one thread.", "",
             "| a pass of | untraced | traced, of it | 95 % of the median | rounds |", "|---|--:|--:|--:|--:|"]
    for name, rounds in found.items():
        ratios = [r["traced_ns"] / r["plain_ns"] for r in rounds]
        low, high = confidence_of_median(ratios)
        lines.append(f"| {name} | {statistics.median(r['plain_ns'] for r in rounds) / 1e6:.3f} ms | × {statistics.median(ratios):.4f} | {low:.4f}–{high:.4f} | {len(rounds)} |")
    early, end = found_soak["early"], found_soak["end"]
    lines += ["", f"The soak, {options.soak:,} passes of three modules: resident {early['resident_kib']:,} KiB after {early['passes']:,} passes, "
              f"{end['resident_kib']:,} KiB at the end; live tensors {early['live_bytes']} bytes and {end['live_bytes']} bytes; a pass "
              f"{found_soak['first_ns'] / 1000:.1f} µs in the beginning and {found_soak['last_ns'] / 1000:.1f} µs at the end. Counted {found_soak['calls']:,} calls "
              f"of the first layer, {found_soak['allocated_bytes']:,} bytes ({found_soak['bytes_a_pass']} a pass)."]
    text = "\n".join(lines) + "\n"
    os.makedirs(os.path.dirname(options.output) or ".", exist_ok=True)
    with open(options.output + ".md", "w", encoding="utf-8") as file:
        file.write(text)
    with open(options.output + ".json", "w", encoding="utf-8") as file:
        json.dump({"machine": machine, "torch": torch.__version__, "rounds": found, "recorded_bytes": recorded_bytes, "soak": found_soak}, file)
        file.write("\n")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
