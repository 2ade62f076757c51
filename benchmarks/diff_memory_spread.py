#!/usr/bin/env python3
"""Measures how much the memory of identical runs differs, and how the page cache influences it.

For each model: normal runs of headroom bench, and runs before which the runtime's libraries are evicted from the page cache
(posix_fadvise needs no privileges). The run itself then reads them back by page faults, or they are read completely before
the run, in steps of 4 KiB, 64 KiB or 4 MiB. The way in which a file enters the page cache determines the size of its folios,
and that determines how many of its pages a fault maps (fault-around).

    benchmarks/diff_memory_spread.py --model FILE [--model FILE …] [--build build/release] [--runs 12] [--folder DIR]

--diff also compares single runs with `headroom diff`, within and across cache states, and counts the false alarms. Prints
Markdown.
"""
import argparse
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

CACHE_STATES = {"as they come": None, "by page faults": 0, "read by 4 KiB": 4 << 10, "read by 64 KiB": 64 << 10,
        "read by 4 MiB": 4 << 20}


def libraries_of(build, program):
    """The libraries of the program and its plug-ins, as listed by ldd."""
    found = set()
    for start in [program, *build.glob("bin/*.so*")]:
        for line in subprocess.run(["ldd", str(start)], capture_output=True, text=True).stdout.splitlines():
            if match := re.search(r"=> (/\S+)", line):
                found.add(os.path.realpath(match[1]))
        found.add(os.path.realpath(start))
    return sorted(found)


def put_out(files):
    for name in files:
        file = os.open(name, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def read_in(files, step):
    for name in files:
        file = os.open(name, os.O_RDONLY)
        while os.read(file, step):
            pass
        os.close(file)


def run(arguments, model, folder):
    known = set(folder.iterdir()) if folder.exists() else set()
    command = [str(arguments.build / "bin/headroom"), "bench", "--task", "none", "--model", f"m={model}", "--max-frames",
               str(arguments.frames), "--threads", "1", "--quiet", "--output-dir", str(folder), "--prepared-dir",
               str(arguments.folder / "prepared")]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"headroom bench failed: {done.stderr}")
    return (set(folder.iterdir()) - known).pop()


def memory_of(folder):
    return json.loads((folder / "report.json").read_text())["models"][0]["memory"]


def mib(value):
    return f"{value / (1 << 20):.1f}"


def row(way, runs):
    memories = [memory_of(folder) for folder in runs]
    peak = [memory["run_peak_bytes"] for memory in memories]
    files = [memory["file_backed_peak_bytes"] for memory in memories]
    rest = [a - b for a, b in zip(peak, files)]
    spread = statistics.stdev(peak)
    print(f"| {way} | {len(runs)} | {mib(min(peak))} to {mib(max(peak))} | {mib(min(files))} to {mib(max(files))} | "
          f"{mib(min(rest))} to {mib(max(rest))} | {spread / 1024:.0f} KiB ({spread / statistics.mean(peak):.2%}) | "
          f"{statistics.stdev(rest) / 1024:.0f} KiB |", flush=True)


def is_changed(arguments, before, after):
    done = subprocess.run([str(arguments.build / "bin/headroom"), "diff", "--json", str(before), str(after)],
                          capture_output=True, text=True)
    document = json.loads(done.stdout)
    return any(metric["judged"] and metric["differs"] and metric["name"] in ("run_peak", "load_peak")
               for model in document["models"] for metric in model["metrics"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--runs", type=int, default=12, help="runs without changes to the cache; a third as many in each other state")
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--diff", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        arguments.folder = arguments.folder or pathlib.Path(temporary)
        files = libraries_of(arguments.build, arguments.build / "bin/headroom")
        for model in arguments.model:
            runs = {}
            print(f"\n{pathlib.Path(model).name}, MiB:\n\n| libraries' pages | runs | run peak | of files | the rest | "
                  "one standard deviation of the peak | of the rest |\n|---|---|---|---|---|---|---|")
            for way, step in CACHE_STATES.items():
                folder = arguments.folder / pathlib.Path(model).name / way.replace(" ", "-")
                runs[way] = []
                for _ in range(arguments.runs if step is None else max(2, arguments.runs // 3)):
                    if step is not None:
                        put_out(files)
                    if step:
                        read_in(files, step)
                    runs[way].append(run(arguments, model, folder))
                row(way, runs[way])
            if arguments.diff:
                pairs = list(itertools.combinations(runs["as they come"], 2))
                alarms = sum(is_changed(arguments, a, b) for a, b in pairs)
                mixed = [(a, b) for x, y in itertools.combinations(CACHE_STATES, 2) for a, b in zip(runs[x], runs[y])]
                of_mixed = sum(is_changed(arguments, a, b) for a, b in mixed)
                print(f"\nReported as changed memory with one run per side: {alarms} of {len(pairs)} pairs of runs as they come, "
                      f"{of_mixed} of {len(mixed)} pairs of two cache states.")


if __name__ == "__main__":
    main()
