#!/usr/bin/env python3
"""Measures what `headroom trace` in default mode adds to a build with g++. Compiles some of Headroom's own sources (each is a g++
driver, a cc1plus and an assembler: three recordings). For each file it alternates between untraced, traced in default mode, and
traced without stacks.

    benchmarks/trace_build_cost.py --build build/release --rounds 20 --output benchmarks/results/trace_build_cost

The ratio is that of a file's compilation traced and untraced in the same round, measured by the shell that starts it. Its median over
all files and rounds has a distribution-free 95 % confidence interval (order statistics of a sign test). On a shared machine, build
times vary by several per cent within seconds, so pairs are short and many. The time of `headroom trace` itself before and after the
program is reported separately: it is paid once per build. Uses only the Python standard library.
"""
import argparse
import json
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from medians import confidence_of_median

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = ["src/recording/recording.cpp", "src/preload/stack_walk.cpp", "src/preload/scope_hooks.cpp", "src/base/subprocess.cpp",
           "src/preload/threads.cpp", "src/trace/traced_command.cpp"]
MODES = {"default": [], "default, no stacks": ["--stacks", "off"]}


def build_scripts(folder, compiler):
    """One script per source: compiles it and writes the nanoseconds into `took`."""
    scripts = []
    for number, source in enumerate(SOURCES):
        words = [compiler, "-std=c++20", "-O2", f"-I{ROOT}/src", "-c", os.path.join(ROOT, source), "-o",
                 os.path.join(folder, f"{number}.o")]
        scripts.append(os.path.join(folder, f"{number}.sh"))
        with open(scripts[-1], "w", encoding="utf-8") as file:
            file.write(f"set -e\nbegan=$(date +%s%N)\n{shlex.join(words)}\nended=$(date +%s%N)\n"
                       f"echo $((ended - began)) > {shlex.quote(os.path.join(folder, 'took'))}\n")
    return scripts


def run(command, folder):
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"trace_build_cost: {shlex.join(command)} ended with status {status}:\n{said}")
    whole = time.monotonic() - started
    with open(os.path.join(folder, "took"), encoding="ascii") as file:
        compiled = int(file.read()) * 1e-9
    return {"compile_s": compiled, "whole_s": whole, "cpu_s": usage.ru_utime + usage.ru_stime}


def traced(build, flags, script, folder):
    path = os.path.join(folder, "build.hrec")
    took = run([os.path.join(build, "bin/headroom"), "trace", *flags, "--out", path, "--", "/bin/sh", script], folder)
    recordings = os.path.join(folder, "build.hrec.d")
    sizes = [os.stat(os.path.join(recordings, name)).st_blocks * 512 for name in os.listdir(recordings)]
    took |= {"recordings": len(sizes), "disk_bytes": sum(sizes)}
    os.remove(path)
    shutil.rmtree(recordings)
    return took


def spread(values, digits=2):
    first, middle, third = statistics.quantiles(values, n=4)
    return f"{middle:.{digits}f} ({first:.{digits}f}–{third:.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--compiler", default=shutil.which("g++"))
    parser.add_argument("--folder", help="folder for recordings and objects during the run (default: the temporary folder)")
    parser.add_argument("--output", help="path of the JSON and Markdown files, without extension")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    pairs, load_before = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        scripts = build_scripts(folder, os.path.realpath(arguments.compiler))
        for script in scripts:  # reads the sources and the compiler into the page cache
            run(["/bin/sh", script], folder)
        for number in range(arguments.rounds):
            for source, script in zip(SOURCES, scripts):
                modes = ["alone", *MODES]
                modes = modes[len(pairs) % len(modes):] + modes[:len(pairs) % len(modes)]
                pairs.append({"source": source} | {
                    mode: run(["/bin/sh", script], folder) if mode == "alone" else traced(build, MODES[mode], script, folder)
                    for mode in modes})
            print(f"trace_build_cost: round {number + 1} of {arguments.rounds}", file=sys.stderr)
    alone = [one["alone"] for one in pairs]
    lines = ["# Overhead of tracing a build with g++", "",
             f"Command: `benchmarks/trace_build_cost.py --rounds {arguments.rounds}`. Machine: {os.cpu_count()} processors, {platform.machine()}, "
             f"Linux {platform.release()}; load when it began {load_before:.1f}, when it ended {os.getloadavg()[0]:.1f}. {len(SOURCES)} files, -O2, "
             f"{len(pairs)} pairs. Median (quartiles) over all pairs of a traced and an untraced compilation in the same round.", "",
             f"Untraced, a file takes {spread([one['compile_s'] for one in alone])} s.", "",
             "| mode | time added, % | 95 % of its median | `headroom trace` itself, ms | recordings per file | MiB on disk per file |", "|---|---|---|---|---|---|"]
    for mode in MODES:
        added = [100 * (one[mode]["compile_s"] / one["alone"]["compile_s"] - 1) for one in pairs]
        itself = [1000 * (one[mode]["whole_s"] - one[mode]["compile_s"] - one["alone"]["whole_s"] + one["alone"]["compile_s"]) for one in pairs]
        size = statistics.median(one[mode]["disk_bytes"] for one in pairs) / 2**20
        low, high = confidence_of_median(added)
        lines.append(f"| {mode} | {spread(added)} | {low:.2f}–{high:.2f} | {spread(itself, 0)} | {pairs[0][mode]['recordings']} | {size:.1f} |")
    page = "\n".join(lines) + "\n"
    print(page)
    if arguments.output:
        with open(arguments.output + ".json", "w", encoding="utf-8") as file:
            json.dump({"load_before": load_before, "load_after": os.getloadavg()[0], "pairs": pairs}, file, indent=1)
            file.write("\n")
        with open(arguments.output + ".md", "w", encoding="utf-8") as file:
            file.write(page)


if __name__ == "__main__":
    main()
