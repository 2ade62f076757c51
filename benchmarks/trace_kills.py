#!/usr/bin/env python3
"""Checks what remains of a recording when the program dies at a random time. Traces benchmarks/trace_victim.cpp and ends it, in turns,

  * by SIGKILL,
  * by the kernel's out-of-memory killer, in a separate memory control group (if none can be created: by a failing allocation under
    RLIMIT_AS and the abort() that follows; the result says so),
  * by its own abort().

    benchmarks/trace_kills.py --build build/release --times 200 --seed 20261121 --output benchmarks/results/trace_kills

The victim counts each operation in a mapped file after the operation. `headroom report --json` must open each recording and report
`complete: false`. The recording must have every counted operation and, for each thread, at most the one that was in progress.
tests/golden/read_recording.py counts its content and shares no code with Headroom. Exits with 1 if any check fails. Full and default
mode alternate. Uses only the Python standard library.
"""
import argparse
import collections
import importlib.util
import json
import os
import platform
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
THREADS = 4
SMALLEST, LARGEST = 30_011, 30_074
LIMIT = 48 << 20


def load_reader():
    path = os.path.join(ROOT, "tests/golden/read_recording.py")
    specification = importlib.util.spec_from_file_location("read_recording", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class MemoryGroup:
    """A control group below our own with a memory limit, version 2 or 1. path is None if it cannot be created."""

    def __init__(self):
        self.path = None
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            lines = [line.strip().split(":", 2) for line in file]
        for _, controllers, own in lines:
            if controllers == "":
                self.make("/sys/fs/cgroup" + own, "memory.max")
            elif "memory" in controllers.split(","):
                self.make("/sys/fs/cgroup/memory" + own, "memory.limit_in_bytes")
            if self.path:
                return

    def make(self, parent, limit):
        path = os.path.join(parent, f"headroom-kills-{os.getpid()}")
        try:
            os.mkdir(path)
        except OSError:
            return
        try:
            with open(os.path.join(path, limit), "w", encoding="utf-8") as file:
                file.write(str(LIMIT))
            self.path = path
        except OSError:
            os.rmdir(path)

    def remove(self):
        if self.path:
            os.rmdir(self.path)


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def read_tally(path):
    """(allocations, releases, bytes) of each thread."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return [(0, 0, 0)] * THREADS
    lines = [struct.unpack_from("<3Q", content, 64 * thread) for thread in range(THREADS) if len(content) >= 64 * (thread + 1)]
    return lines or [(0, 0, 0)] * THREADS


def wait_until_it_works(tally, process):
    while process.poll() is None and sum(line[0] for line in read_tally(tally)) == 0:
        time.sleep(0.001)


def kill_victim(arguments, way, group, folder, chance, full):
    """Traces a victim until it dies. Returns (exit status of headroom, the recording, the tally)."""
    recording, tally = os.path.join(folder, "victim.hrec"), os.path.join(folder, "tally")
    victim = [os.path.join(arguments.build, "tests/trace_victim"), tally, str(THREADS)]
    before = None
    if way == "OOM kill" and group.path:
        victim += ["hoard", os.path.join(group.path, "cgroup.procs")]
    elif way == "OOM kill":
        victim += ["hoard", os.devnull]
        before = lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    elif way == "abort":
        victim += ["abort", str(int(chance * 40_000))]
    else:
        victim += ["run", "0"]
    command = [os.path.join(arguments.build, "bin/headroom"), "trace", *(["--full"] if full else []), "--out", recording, "--", *victim]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=before)
    if way == "SIGKILL":
        wait_until_it_works(tally, process)
        time.sleep(chance * 0.04)
        for child in children_of(process.pid):
            os.kill(child, signal.SIGKILL)
    process.stderr.read()
    return process.wait(), recording, tally


def own_events(reader, path):
    """[(allocations, releases, bytes)] of the victim's blocks, for each thread that has any, and the reader's problems."""
    with open(path, "rb") as file:
        recording = reader.Recording(file.read())
    counts = collections.defaultdict(lambda: [0, 0, 0])
    live, live_twice = {}, 0
    for *_, kind, fields in recording.events():
        if kind == reader.ALLOCATE:
            thread, _scope, address, size, *_ = fields
            live_twice += address in live
            live[address] = size
            if SMALLEST <= size <= LARGEST:
                counts[thread][0] += 1
                counts[thread][2] += size
        elif kind == reader.RELEASE:
            thread, _scope, address = fields
            if SMALLEST <= live.pop(address, 0) <= LARGEST:
                counts[thread][1] += 1
    problems = recording.problems + (["an address was live twice"] if live_twice else [])
    return [tuple(one) for one in counts.values()], problems


def judge(arguments, reader, recording, tally):
    """Problems of a recording (an empty list if none), and the number of its operations."""
    wrong = []
    report = subprocess.run([os.path.join(arguments.build, "bin/headroom"), "report", recording, "--json"], capture_output=True)
    if report.returncode != 0:
        return [f"headroom report ended with {report.returncode}: {report.stderr.decode()[:200]}"], 0, 0, 0
    parsed = json.loads(report.stdout)
    if parsed["complete"] is not False:
        wrong.append("it is reported as complete")
    recorded, problems = own_events(reader, recording)
    wrong += problems
    done = read_tally(tally)
    done_sum = [sum(line[i] for line in done) for i in range(3)]
    recorded_sum = [sum(line[i] for line in recorded) for i in range(3)]
    operations, held = done_sum[0] + done_sum[1], recorded_sum[0] + recorded_sum[1]
    lost = max(0, done_sum[0] - recorded_sum[0]) + max(0, done_sum[1] - recorded_sum[1])
    if lost or recorded_sum[2] < done_sum[2]:
        wrong.append(f"{lost} operations are lost: done {done_sum}, recorded {recorded_sum}")
    if held > operations + THREADS:
        wrong.append(f"it has {held} operations; expected are {operations} and at most {THREADS} in progress")
    return wrong, operations, held - operations, lost


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--times", type=int, default=200, help="number of kills: two fifths SIGKILL, a fifth OOM kill, two fifths abort")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--folder", help="folder for recordings during the run (default: the temporary folder)")
    parser.add_argument("--output", help="path of the JSON and Markdown files, without extension")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    reader, chance, group = load_reader(), random.Random(arguments.seed), MemoryGroup()
    expected = {"SIGKILL": 128 + signal.SIGKILL, "OOM kill": 128 + (signal.SIGKILL if group.path else signal.SIGABRT),
                "abort": 128 + signal.SIGABRT}
    order = ["SIGKILL", "abort", "OOM kill", "SIGKILL", "abort"]
    results = []
    try:
        for number in range(arguments.times):
            way, full = order[number % len(order)], number // len(order) % 2 == 0
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                status, recording, tally = kill_victim(arguments, way, group, folder, chance.random(), full)
                wrong, operations, under_way, lost = judge(arguments, reader, recording, tally)
                if status != expected[way]:
                    wrong.append(f"headroom trace ended with {status}, not {expected[way]}")
            results.append({"way": way, "full": full, "operations": operations, "under_way": under_way, "lost": lost, "wrong": wrong})
            if wrong:
                print(f"trace_kills: number {number} ({way}): {'; '.join(wrong)}", file=sys.stderr)
    finally:
        group.remove()
    failed = sum(1 for one in results if one["wrong"])
    page = render(arguments, results, group.path is not None, failed)
    print(page)
    if arguments.output:
        with open(arguments.output + ".json", "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
            file.write("\n")
        with open(arguments.output + ".md", "w", encoding="utf-8") as file:
            file.write(page)
    return 1 if failed else 0


def render(arguments, results, has_group, failed):
    lines = ["# Recordings of killed programs", "",
             f"Command: `benchmarks/trace_kills.py --times {arguments.times} --seed {arguments.seed}`. Machine: {os.cpu_count()} processors, "
             f"{platform.machine()}, Linux {platform.release()}. The victim has {THREADS} threads; full and default mode alternate. OOM kill: "
             + (f"by the kernel, in a control group of {LIMIT >> 20} MiB." if has_group else
                "no control group could be created, so by a failed allocation under RLIMIT_AS and abort()."), "",
             "| death | times | opened, incomplete, nothing lost | operations done, median (min–max) | lost | recorded in progress at death, at most |",
             "|---|---|---|---|---|---|"]
    for way in ("SIGKILL", "OOM kill", "abort"):
        ones = [one for one in results if one["way"] == way]
        if not ones:
            continue
        operations = sorted(one["operations"] for one in ones)
        lines.append(f"| {way} | {len(ones)} | {sum(1 for one in ones if not one['wrong'])} | {operations[len(operations) // 2]:,} "
                     f"({operations[0]:,}–{operations[-1]:,}) | {sum(one['lost'] for one in ones)} | {max(one['under_way'] for one in ones)} |")
    return "\n".join(lines + ["", f"{len(results) - failed} of {len(results)} correct.", ""])


if __name__ == "__main__":
    sys.exit(main())
