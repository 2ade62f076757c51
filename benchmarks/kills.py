#!/usr/bin/env python3
"""Kills Headroom's processes at random moments, and fills disks while they write. Then checks that

  * every figure that was finished before is readable,
  * the next run works without a manual clean-up, and removes or reuses what the killed run left behind.

    benchmarks/kills.py --build build/release --kills 1000 --disks 100 --output benchmarks/results/kills.md
    benchmarks/kills.py --build build/release --kills 10 --disks 1 --only watch,history

kill_targets.py has the processes that are killed, full_disks.py the writers whose disk is full. A kill comes at a moment between
the start of the process and five percent after its usual duration. Disks are a tmpfs (root) with a random rest of free space; every
second one is a limit on file sizes instead (RLIMIT_FSIZE). Exits with 1 if any check fails. Uses only the Python standard library.
"""
import argparse
import collections
import concurrent.futures
import os
import platform
import random
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import full_disks
import kill_targets
from kill_support import Place

SHARE = 100  # numbers of one target that are done in a row


def run_share(build, folder, name, numbers, seed, deadline):
    """Runs one target for these numbers until the deadline, and returns the outcomes."""
    target, outcomes = None, []
    if time.time() > deadline:
        return outcomes
    chance, started = random.Random(f"{seed} {name} {numbers.start}"), time.monotonic()
    place = Place(build, os.path.join(folder, f"{name}-{numbers.start}".replace(" ", "-")))
    try:
        target = {**kill_targets.TARGETS, **full_disks.WRITERS}[name](place)
        for number in numbers:
            if time.time() > deadline:
                break
            outcomes.append(target.once(number, chance))
            for fault in outcomes[-1].faults():
                print(f"kills: {name}, number {number}: {fault}", file=sys.stderr, flush=True)
    finally:
        getattr(target, "close", lambda: None)()
    faults = sum(1 for one in outcomes if one.faults())
    print(f"{name}: {len(outcomes)} in {time.monotonic() - started:.0f} s, {faults} with a fault", file=sys.stderr, flush=True)
    return outcomes


def run_all(arguments, folder, wanted):
    """Runs each target so many times, in shares by turns. Returns {name: its outcomes}."""
    shares = [(begin, name, range(begin, min(begin + SHARE, times))) for name, times in wanted.items() for begin in range(0, times, SHARE)]
    shares.sort(key=lambda share: share[0])
    build, deadline = os.path.abspath(arguments.build), time.time() + 60 * arguments.minutes
    results = {name: [] for name in wanted}
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        done = [pool.submit(run_share, build, folder, name, numbers, arguments.seed, deadline) for _, name, numbers in shares]
        for (_, name, _), outcomes in zip(shares, done):
            results[name] += outcomes.result()
    return results


def table(head, results):
    lines = [f"| {head} | times | had ended before | figures finished | lost | next run failed | left behind after the next run |",
             "|---|---|---|---|---|---|---|"]
    for name, outcomes in results.items():
        lines.append(f"| {name} | {len(outcomes):,} | {sum(one.ended for one in outcomes):,} | {sum(one.finished for one in outcomes):,} | "
                     f"{sum(len(one.lost) for one in outcomes)} | {sum(1 for one in outcomes if one.next_failed)} | "
                     f"{sum(1 for one in outcomes if one.left)} |")
    return lines


def render(arguments, killed, filled):
    lines = ["# Kills and full disks", "",
             f"Command: `benchmarks/kills.py --kills {arguments.kills} --disks {arguments.disks} --seed {arguments.seed}`"
             + (f" `--only {arguments.only}`" if arguments.only else "") + ".",
             f"Machine: {os.cpu_count()} processors, {platform.machine()}, Linux {platform.release()}.", ""]
    if killed:
        lines += ["## SIGKILL at a random moment", "", *table("killed", killed), "", kill_targets.NOTES, ""]
    if filled:
        lines += ["## Full disks", "", *table("writer", filled), "", full_disks.NOTES, ""]
    faults = collections.Counter(fault for outcomes in [*killed.values(), *filled.values()] for one in outcomes for fault in one.faults())
    if faults:
        lines += ["## Faults", "", *[f"- {number} × {fault}" for fault, number in faults.most_common()], ""]
    return "\n".join(lines), bool(faults)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--kills", type=int, default=1000, help="kills of each process; 0: none")
    parser.add_argument("--disks", type=int, default=100, help="full disks of each writer; 0: none")
    parser.add_argument("--only", default="", help="names of processes and writers, separated by commas")
    parser.add_argument("--jobs", type=int, default=1, help="processes that work at once")
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after this time; the table shows how many were done")
    parser.add_argument("--seed", type=int, default=20261129)
    parser.add_argument("--folder", help="folder for files during the run (default: the temporary folder)")
    parser.add_argument("--output", help="path of the Markdown page")
    arguments = parser.parse_args()
    wanted = [name for name in arguments.only.split(",") if name]
    unknown = set(wanted) - set(kill_targets.TARGETS) - set(full_disks.WRITERS)
    if unknown:
        parser.error(f"unknown name {', '.join(sorted(unknown))}; choose from {', '.join([*kill_targets.TARGETS, *full_disks.WRITERS])}")
    times = {**dict.fromkeys(kill_targets.TARGETS, arguments.kills), **dict.fromkeys(full_disks.WRITERS, arguments.disks)}
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="kills-") as folder:
        results = run_all(arguments, folder, {name: number for name, number in times.items() if number and (not wanted or name in wanted)})
    killed = {name: outcomes for name, outcomes in results.items() if name in kill_targets.TARGETS}
    filled = {name: outcomes for name, outcomes in results.items() if name in full_disks.WRITERS}
    page, failed = render(arguments, killed, filled)
    print(page)
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(page)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
