#!/usr/bin/env python3
"""Measures what default mode adds to a pair of new and delete when nothing that they need is in the first-level caches. Runs
benchmarks/cold_allocations.cpp alone and under the preload library, alternating in one run, with more and more other code between two
pairs.

    benchmarks/trace_cold_cost.py --build build/release --rounds 15 --output benchmarks/results/trace_cold_cost [--other LIBRARY]

"Added" is a mode's time in a round minus the program's time alone in the same round. The median over the rounds has a
distribution-free 95 % interval. All processes run at the same addresses, if the machine has setarch -R. --other: another build's
libheadroom_trace.so, for comparison. Uses only the Python standard library.
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

from medians import confidence_of_median


def run(program, library, folder):
    environment = dict(os.environ)
    if library is not None:
        path = os.path.join(folder, "cold.hrec")
        environment |= {"LD_PRELOAD": library, "HEADROOM_TRACE_FILE": path, "HEADROOM_TRACE_OPTIONS": "full=0"}
        if os.path.exists(path):
            os.remove(path)
    fixed = ["setarch", platform.machine(), "-R"] if shutil.which("setarch") else []
    output = subprocess.run(fixed + program, env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout
    return json.loads(output)


def measure(arguments, blocks, libraries):
    program = [os.path.join(arguments.build, "tests/cold_allocations"), str(blocks), str(arguments.pairs), str(arguments.bytes), str(arguments.far)]
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            rounds.append({mode: run(program, library, folder) for mode, library in libraries.items()})
    print(f"trace_cold_cost: {blocks} functions between, {arguments.rounds} rounds", file=sys.stderr)
    return rounds


def row(blocks, mode, rounds):
    def added(key):
        values = [one[mode][key] - one["alone"][key] for one in rounds]
        low, high = confidence_of_median(values)
        return f"{statistics.median(values):.1f} ({low:.1f} to {high:.1f})"

    for one in rounds:
        for result in one.values():
            result["pair_ns"] = result["new_ns"] + result["delete_ns"]
    return f"| {blocks} | {mode} | {added('new_ns')} | {added('delete_ns')} | {added('pair_ns')} |"


def beside_other(blocks, rounds, other):
    """Compares the pair of this build with the other build's, round by round: the added time, and the total."""
    added = [(one["default"]["pair_ns"] - one["alone"]["pair_ns"]) / (one[other]["pair_ns"] - one["alone"]["pair_ns"]) for one in rounds]
    whole = [one["default"]["pair_ns"] / one[other]["pair_ns"] for one in rounds]
    words = [f"{statistics.median(values):.2f} ({low:.2f} to {high:.2f})" for values in (added, whole) for low, high in [confidence_of_median(values)]]
    return f"Relative to the other build, with {blocks} functions between: {words[0]} of the time added to the pair, {words[1]} of the whole pair."


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--other", help="another build's libheadroom_trace.so")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--pairs", type=int, default=10000)
    parser.add_argument("--blocks", type=int, nargs="+", default=[0, 10, 30, 100, 400], help="functions of about 500 bytes between two pairs")
    parser.add_argument("--bytes", type=int, default=64, help="size of an allocation; sizes of 4096 and more are recorded instead of only counted")
    parser.add_argument("--far", type=int, default=0, help="MiB that are read between two pairs")
    parser.add_argument("--output", help="path of the JSON and Markdown files, without extension")
    arguments = parser.parse_args()
    libraries = {"alone": None, "default": os.path.abspath(os.path.join(arguments.build, "bin/libheadroom_trace.so"))}
    if arguments.other:
        libraries["default, of the other build"] = os.path.abspath(arguments.other)
    load_before = os.getloadavg()[0]
    results = {blocks: measure(arguments, blocks, libraries) for blocks in arguments.blocks}
    page = "\n".join([
        "# Overhead of default mode for an allocation between other code", "",
        f"Command: `benchmarks/trace_cold_cost.py --rounds {arguments.rounds} --pairs {arguments.pairs}{'' if arguments.blocks == parser.get_default('blocks') else ' --blocks ' + ' '.join(map(str, arguments.blocks))}{f' --bytes {arguments.bytes} --far {arguments.far}' if arguments.bytes != 64 or arguments.far else ''}{' --other …' if arguments.other else ''}`. "
        f"Machine: {os.cpu_count()} processors, {platform.machine()}, Linux {platform.release()}; load when it began {load_before:.1f}, when it "
        f"ended {os.getloadavg()[0]:.1f}. Median over the rounds (95 % interval), in nanoseconds.", "",
        "| functions between | mode | added to new | added to delete | added to the pair |", "|--:|---|--:|--:|--:|",
        *[row(blocks, mode, rounds) for blocks, rounds in results.items() for mode in libraries if mode != "alone"], "",
        *[line for blocks, rounds in results.items() if arguments.other for line in (beside_other(blocks, rounds, "default, of the other build"), "")]])
    print(page)
    if arguments.output:
        with open(arguments.output + ".json", "w", encoding="utf-8") as file:
            json.dump({"load_before": load_before, "rounds": results}, file, indent=1)
            file.write("\n")
        with open(arguments.output + ".md", "w", encoding="utf-8") as file:
            file.write(page)


if __name__ == "__main__":
    main()
