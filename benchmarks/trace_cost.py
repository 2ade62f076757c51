#!/usr/bin/env python3
"""Measures what recording adds to an allocation. Runs a storm of small allocations (benchmarks/trace_storm.cpp: stacks 10 deep, 4096
live slots, 16 to 2063 bytes), alternating in one run between

  * the program alone;
  * the preload library in full mode: without stacks, with frame pointers, and with unwinding;
  * the preload library in default mode;
  * the library for GPU memory only (--only gpu), and the full library with recording off, so that its hooks only forward;
  * heaptrack, if installed, recording only (its interpreter runs later).

    benchmarks/trace_cost.py --build build/release --rounds 9 --output benchmarks/results/trace_cost

An event is an allocation or a release. "Added" is a mode's time in a round minus the program's time alone in the same round, per event
of one thread. CPU time is that of the process (with two threads, both figures are for two). Every single value is in OUTPUT.json, the
table in OUTPUT.md. Uses only the Python standard library.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

MODES = {
    "full, no stacks": "full=1,stacks=off",
    "full, frame pointers": "full=1,stacks=fp",
    "full, unwind": "full=1,stacks=unwind",
    "default": "full=0",
    "GPU memory alone": "full=0",
    "hooks that only forward": None,
}


def run(command, environment):
    """Nanoseconds per operation by the storm's own clock, CPU nanoseconds per operation, and its totals."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"trace_cost: {' '.join(command)} ended with status {status}")
    storm = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    cpu = (usage.ru_utime + usage.ru_stime) * 1e9 / storm["operations"]
    return storm["ns_per_operation"], cpu, storm


def traced(storm, library, options, folder):
    path = os.path.join(folder, "storm.hrec")
    if options is None:
        return *run(storm, dict(os.environ, LD_PRELOAD=library))[:2], 0
    environment = dict(os.environ, LD_PRELOAD=library, HEADROOM_TRACE_FILE=path, HEADROOM_TRACE_OPTIONS=options)
    wall, cpu, did = run(storm, environment)
    size = os.stat(path).st_blocks * 512
    os.remove(path)
    return wall, cpu, size / did["operations"]


def under_heaptrack(storm, folder):
    wall, cpu, did = run(["heaptrack", "-r", "-o", os.path.join(folder, "storm")] + storm, dict(os.environ))
    size = sum(os.stat(os.path.join(folder, name)).st_size for name in os.listdir(folder))
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))
    return wall, cpu, size / did["operations"]


def measure(arguments, threads, program="trace_storm"):
    storm = [os.path.join(arguments.build, "tests", program), str(arguments.operations), str(threads), str(arguments.stacks)]
    library = os.path.abspath(os.path.join(arguments.build, "bin/libheadroom_trace.so"))
    libraries = {"GPU memory alone": library.replace("headroom_trace", "headroom_trace_gpu")}
    modes = (arguments.modes or list(MODES)) + (["heaptrack"] if shutil.which("heaptrack") and not arguments.no_heaptrack else [])
    rounds = []
    for number in range(arguments.rounds):
        wall, cpu, _ = run(storm, dict(os.environ))
        one = {"alone": {"wall_ns": wall, "cpu_ns": cpu}}
        for mode in modes:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                wall, cpu, size = (under_heaptrack(storm, folder) if mode == "heaptrack"
                                   else traced(storm, libraries.get(mode, library), MODES[mode], folder))
            one[mode] = {"wall_ns": wall, "cpu_ns": cpu, "bytes_per_event": size}
        rounds.append(one)
        print(f"trace_cost: {threads} thread(s), round {number + 1} of {arguments.rounds}", file=sys.stderr)
    return {"program": program, "threads": threads, "stacks": arguments.stacks, "operations_per_thread": arguments.operations, "rounds": rounds}


def spread(values, digits=1):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def table(result):
    rounds = result["rounds"]

    def added(mode, key):
        return [one[mode][key] - one["alone"][key] for one in rounds]

    lines = [f"### {result['threads']} thread(s)", "",
             "| mode | added ns/event | added CPU ns/event | bytes/event | of heaptrack's added time | of its CPU time |", "|---|---|---|---|---|---|"]
    alone = [one["alone"]["wall_ns"] for one in rounds]
    lines.append(f"| alone: {spread(alone)} ns/event | | | | | |")
    for mode in rounds[0]:
        if mode == "alone":
            continue
        ratio = "– | –"
        if "heaptrack" in rounds[0] and mode != "heaptrack":
            ratio = " | ".join(f"{statistics.median(added(mode, key)) / statistics.median(added('heaptrack', key)):.3f}" for key in ("wall_ns", "cpu_ns"))
        size = statistics.median([one[mode]["bytes_per_event"] for one in rounds])
        lines.append(f"| {mode} | {spread(added(mode, 'wall_ns'))} | {spread(added(mode, 'cpu_ns'))} | {size:.2f} | {ratio} |")
    return "\n".join(lines) + "\n"


def machine_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine())
    except OSError:
        cpu = platform.machine()
    return f"{os.cpu_count()} × {cpu}, Linux {platform.release()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--operations", type=int, default=8_000_000)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--stacks", type=int, default=64, help="distinct stacks (trace_storm.cpp)")
    parser.add_argument("--folder", help="folder for recordings during the run (default: the temporary folder)")
    parser.add_argument("--no-heaptrack", action="store_true")
    parser.add_argument("--modes", nargs="+", choices=list(MODES), help="these alone")
    parser.add_argument("--output", help="path of the JSON and Markdown files, without extension")
    arguments = parser.parse_args()
    machine = machine_name()
    load_before = os.getloadavg()[0]
    results = [measure(arguments, threads) for threads in arguments.threads]
    page = "\n".join([
        "# Cost of recording an allocation", "",
        f"Command: `benchmarks/trace_cost.py --rounds {arguments.rounds} --operations {arguments.operations}`. Machine: {machine}; load when it began "
        f"{load_before:.1f}, when it ended {os.getloadavg()[0]:.1f}. Median (min–max) over the rounds; each round runs every mode once.", "",
        *[table(result) for result in results]])
    print(page)
    if arguments.output:
        with open(arguments.output + ".json", "w", encoding="utf-8") as file:
            json.dump({"machine": machine, "load_before": load_before, "load_after": os.getloadavg()[0], "results": results}, file, indent=1)
            file.write("\n")
        with open(arguments.output + ".md", "w", encoding="utf-8") as file:
            file.write(page)


if __name__ == "__main__":
    main()
