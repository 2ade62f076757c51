#!/usr/bin/env python3
"""What does `headroom trace` in its default mode add to a build with g++? Compiles some of Headroom's own sources one after
the other (each is a g++ driver, a cc1plus, an assembler: three recordings), in turns without Headroom, traced in default
mode, and traced without stacks.

    bench/trace_build_cost.py --build build/release --rounds 9 --output bench/results/trace_build_cost

Wall-clock and CPU time (of the whole tree, from wait4) per round against the untraced build of the same round; which mode goes
first changes from round to round. Only the Python standard library is used.
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

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = ["src/recording/recording.cpp", "src/tracer/stack_walk.cpp", "src/tracer/nvtx_hooks.cpp", "src/base/subprocess.cpp",
           "src/tracer/threads.cpp", "src/trace/program_check.cpp"]
MODES = {"default": [], "default, no stacks": ["--stacks", "off"]}


def build_script(folder, compiler):
    script = os.path.join(folder, "build.sh")
    with open(script, "w", encoding="utf-8") as file:
        file.write("set -e\n")
        for number, source in enumerate(SOURCES):
            words = [compiler, "-std=c++20", "-O2", f"-I{ROOT}/src", "-c", os.path.join(ROOT, source), "-o",
                     os.path.join(folder, f"{number}.o")]
            file.write(shlex.join(words) + "\n")
    return script


def run(command):
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"trace_build_cost: {shlex.join(command)} ended with status {status}:\n{said}")
    return {"wall_s": time.monotonic() - started, "cpu_s": usage.ru_utime + usage.ru_stime}


def traced(build, flags, script, folder):
    path = os.path.join(folder, "build.hrec")
    took = run([os.path.join(build, "bin/headroom"), "trace", *flags, "--out", path, "--", "/bin/sh", script])
    recordings = os.path.join(folder, "build.hrec.d")
    sizes = [os.stat(os.path.join(recordings, name)).st_blocks * 512 for name in os.listdir(recordings)]
    took |= {"recordings": len(sizes), "disk_bytes": sum(sizes)}
    os.remove(path)
    shutil.rmtree(recordings)
    return took


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--compiler", default=shutil.which("g++"))
    parser.add_argument("--folder", help="where recordings and objects lie while they are made (default: the temporary folder)")
    parser.add_argument("--output", help="path without ending of the JSON and Markdown files")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    rounds, load_before = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        script = build_script(folder, os.path.realpath(arguments.compiler))
        run(["/bin/sh", script])  # the sources and the compiler come into the page cache
        for number in range(arguments.rounds):
            modes = ["alone", *MODES]
            modes = modes[number % len(modes):] + modes[:number % len(modes)]
            rounds.append({mode: run(["/bin/sh", script]) if mode == "alone" else traced(build, MODES[mode], script, folder)
                           for mode in modes})
            print(f"trace_build_cost: round {number + 1} of {arguments.rounds}", file=sys.stderr)
    alone = [one["alone"] for one in rounds]
    lines = ["# What tracing adds to a build with g++", "",
             f"Command: `bench/trace_build_cost.py --rounds {arguments.rounds}`. Machine: {os.cpu_count()} processors, {platform.machine()}, "
             f"Linux {platform.release()}; load when it began {load_before:.1f}, when it ended {os.getloadavg()[0]:.1f}. {len(SOURCES)} files, -O2. "
             "Median (min–max) over the rounds; each mode against the untraced build of the same round.", "",
             f"Untraced: {spread([one['wall_s'] for one in alone])} s, {spread([one['cpu_s'] for one in alone])} s of CPU time.", "",
             "| mode | wall-clock time added, % | CPU time added, % | recordings | on disk, MiB |", "|---|---|---|---|---|"]
    for mode in MODES:
        added = {key: [100 * (one[mode][key] / one["alone"][key] - 1) for one in rounds] for key in ("wall_s", "cpu_s")}
        size = statistics.median(one[mode]["disk_bytes"] for one in rounds) / 2**20
        lines.append(f"| {mode} | {spread(added['wall_s'])} | {spread(added['cpu_s'])} | {rounds[0][mode]['recordings']} | {size:.1f} |")
    page = "\n".join(lines) + "\n"
    print(page)
    if arguments.output:
        with open(arguments.output + ".json", "w", encoding="utf-8") as file:
            json.dump({"load_before": load_before, "load_after": os.getloadavg()[0], "rounds": rounds}, file, indent=1)
            file.write("\n")
        with open(arguments.output + ".md", "w", encoding="utf-8") as file:
            file.write(page)


if __name__ == "__main__":
    main()
