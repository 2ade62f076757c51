#!/usr/bin/env python3
"""Compares the counts of `headroom trace --full` with other tools. Runs real programs (benchmarks/trace_programs.py) under Headroom,
heaptrack and, for fast programs, valgrind's DHAT, in turns. Compares allocations, their bytes, the peak, and blocks that were never
released.

    benchmarks/trace_peers.py --build build/release --rounds 3 --output benchmarks/results/trace_peers

Headroom's figures are those of `headroom report --json`. heaptrack's are counted here from its raw file, because its interpreter can
die half-way and leave a short file. DHAT's are those that it prints. If Headroom and heaptrack differ, their event streams of the first
round are compared: every allocation that only one of them has is listed by its size and by the libraries in its stack, so that every
difference can be explained.

Only this benchmark needs heaptrack and valgrind: `apt-get install heaptrack valgrind zstd` on Debian or Ubuntu. Missing programs are
skipped and listed. Uses only the Python standard library.
"""
import argparse
import collections
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import trace_programs

FIGURES = {"allocations": "allocations", "total_allocated_bytes": "bytes in all", "peak_bytes": "peak bytes",
           "leaked_bytes": "bytes never released", "leaked_blocks": "blocks never released"}
MOST_LISTED = 12
EXPLANATIONS = """Layers are off, because ONNX Runtime would otherwise write the profile that Headroom joins. Addresses are fixed (`setarch -R`),
and the environments have equal lengths. The remaining differences, found from the events that only one side has (listed under each table):

- **heaptrack counts the start of its own library.** libheaptrack_preload.so is linked with libstdc++, whose pool for exceptions is one
  allocation of 72,704 bytes in programs without C++ (`libstdc++.so.6 < ld-linux`). DHAT does not have it. Programs that load
  libstdc++ themselves (node, ONNX Runtime) have it under every tool.
- **heaptrack releases that pool at the end** (the last `-` of its raw file is the pool's address). So node and ONNX Runtime keep
  72,704 bytes more under Headroom, which only records releases of the program. DHAT runs with `--run-cxx-freeres=no`.
- **heaptrack stops recording before the libraries' destructors run.** The 612 blocks of ONNX Runtime that only heaptrack reports as
  never released are static objects of libonnxruntime.so; Headroom's recording has their releases.
- **heaptrack's libraries are already in the process.** Python's `_lzma` loads liblzma, which heaptrack's libunwind has already loaded.
  So the dynamic linker's records of it (1,237 + 384 + … bytes, `ld-linux < libc < ld-linux`) are missing under heaptrack; DHAT has them.
- **One more library with thread-local data** increases the table that the dynamic linker allocates for each thread from 320 to 336
  bytes (`ld-linux < libc`, six threads of node, one of ONNX Runtime).
- **cc1plus hashes addresses.** Preloaded libraries shift its mappings, so some of its tables have other sizes. Each tool's figures are
  the same in all rounds. Without `setarch -R` Headroom's own figures vary by as much.
- **ONNX Runtime** has one string of 180 or 188 bytes, and once an allocation of 15 kB more, between runs under the same tool.
- **Not investigated:** one table that node itself allocates has 256 bytes instead of 128.

In all programs that DHAT ran, its allocations, bytes, peak and blocks at the end equal Headroom's to the byte.
"""


def load_reader():
    path = os.path.join(trace_programs.ROOT, "tests/golden/read_recording.py")
    specification = importlib.util.spec_from_file_location("read_recording", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def run(command, program, environment=None):
    # Addresses must not influence allocations (Python's arenas, node's hash tables of addresses).
    with open(program.stdin, "rb") as stdin:
        done = subprocess.run(["setarch", "-R", *command], stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, env={**os.environ, **program.environment, **(environment or {})})
    if done.returncode != 0:
        raise SystemExit(f"trace_peers: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stderr


# ---- a stack as a list of its libraries, innermost first

class Libraries:
    def __init__(self):
        self.ranges, self.known = [], {}

    def add(self, start, end, path):
        self.ranges.append((start, end, os.path.basename(path)))

    def name(self, address):
        name = self.known.get(address)
        if name is None:
            name = next((path for start, end, path in self.ranges if start <= address < end), "?")
            self.known[address] = name
        return name

    def through(self, frames):
        names = []
        for frame in frames:
            name = self.name(frame)
            if not names or names[-1] != name:
                names.append(name)
        return " < ".join(names[:4]) or "no stack"


# ---- the tools

def variables_of_headroom(build, folder):
    """The variables that `headroom trace` adds to a program's environment. Programs copy their environment, so heaptrack's runs get the
    same variables (under another name for the one that the tracer removes again). Valgrind adds four variables, Headroom three: one more
    makes the numbers equal."""
    command = [os.path.join(build, "bin/headroom"), "trace", "--full", "--layers", "off", "--force", "--out",
               os.path.join(folder, "program.hrec"), "--", shutil.which("env")]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    added = dict(line.split("=", 1) for line in lines if line.startswith(("LD_PRELOAD=", "HEADROOM_TRACE_")))
    preload = added.pop("LD_PRELOAD")
    return {"STAND_IN": "1"}, {**added, "LD_STAND_I": preload, "STAND_IN": "1"}


def under_headroom(build, program, folder, environment):
    path = os.path.join(folder, "program.hrec")
    headroom = os.path.join(build, "bin/headroom")
    # Layers of ONNX Runtime would enable its profiler, which allocates memory itself.
    run([headroom, "trace", "--full", "--layers", "off", "--force", "--out", path, "--", *program.command], program, environment)
    report = json.loads(subprocess.run([headroom, "report", path, "--json"], check=True, capture_output=True).stdout)
    if not report["complete"]:
        raise SystemExit(f"trace_peers: the recording of {program.name} is not complete: {report['problems']}")
    return {key: report[key] for key in FIGURES}, path


class Blocks:
    """Number of allocations, and of live blocks at the end, by size and by libraries of the stack."""

    def __init__(self, allocated, live, libraries):
        self.allocated, self.live = named(allocated, libraries), named(live, libraries)


def named(found, libraries):
    by_size = collections.defaultdict(collections.Counter)
    for (size, frames), count in found.items():
        by_size[size][libraries.through(frames)] += count
    return by_size


def blocks_of_recording(path):
    reader = load_reader()
    with open(path, "rb") as file:
        recording = reader.Recording(file.read())
    libraries = Libraries()
    for module in recording.modules:
        libraries.add(module["start"], module["end"], module["path"])
    allocated, live = collections.Counter(), {}
    for *_, kind, fields in recording.events():
        if kind == reader.ALLOCATE:
            _thread, _scope, address, size, frames, *_ = fields
            allocated[size, frames] += 1
            live[address] = size, frames
        elif kind == reader.RELEASE:
            live.pop(fields[2], None)
    return Blocks(allocated, collections.Counter(live.values()), libraries)


def under_heaptrack(program, folder, environment):
    path = os.path.join(folder, "program")
    run(["heaptrack", "-r", "-o", path, *program.command], program, environment)
    return count_heaptrack(path + ".raw.zst")[0], path + ".raw.zst"


def count_heaptrack(path):
    """The raw file as text: t trace, + allocation, - release, m modules. All numbers are hexadecimal."""
    live, allocated = {}, collections.Counter()
    allocations = total = now = peak = 0
    parents, libraries, executable = [(0, 0)], Libraries(), ""
    process = subprocess.Popen(["zstd", "-dc", path], stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="replace")
    for line in process.stdout:
        kind = line[0]
        if kind == "+":
            size, trace, address = (int(word, 16) for word in line[2:].split())
            allocations += 1
            total += size
            now += size - live.pop(address, (0, 0))[0]
            live[address] = size, trace
            peak = max(peak, now)
            allocated[size, trace] += 1
        elif kind == "-":
            now -= live.pop(int(line[2:], 16), (0, 0))[0]
        elif kind == "t":
            address, parent = (int(word, 16) for word in line[2:].split())
            parents.append((address, parent))
        elif kind == "x":
            executable = line.split(" ", 2)[2].strip()
        elif kind == "m":
            add_heaptrack_module(libraries, line, executable)
    if process.wait() != 0:
        raise SystemExit(f"trace_peers: {path} cannot be unpacked")
    figures = {"allocations": allocations, "total_allocated_bytes": total, "peak_bytes": peak, "leaked_bytes": now,
               "leaked_blocks": len(live)}

    def frames(trace):
        while trace:
            address, trace = parents[trace]
            yield address

    def with_frames(found):
        return {(size, tuple(frames(trace))): count for (size, trace), count in found.items()}

    return figures, Blocks(with_frames(allocated), with_frames(collections.Counter(live.values())), libraries)


def add_heaptrack_module(libraries, line, executable):
    """m LENGTH PATH BASE (OFFSET BYTES)…; the path may have spaces; the program's own is named x."""
    words = line.split()
    if len(words) < 4:
        return
    length = int(words[1], 16)
    path = line[line.index(words[1], 1) + len(words[1]) + 1:][:length]
    numbers = [int(word, 16) for word in line[line.index(path) + length:].split()]
    for offset, size in zip(numbers[1::2], numbers[2::2]):
        libraries.add(numbers[0] + offset, numbers[0] + offset + size, executable if path == "x" else path)


def under_dhat(program, folder):
    # Memory that the C and C++ libraries would free for valgrind at exit is not the program's.
    text = run(["valgrind", "--tool=dhat", "--run-libc-freeres=no", "--run-cxx-freeres=no",
                "--dhat-out-file=" + os.path.join(folder, "dhat.json"), *program.command], program)

    def figures(label):
        found = re.search(label + r":\s+([\d,]+) bytes in ([\d,]+) blocks", text)
        return (int(word.replace(",", "")) for word in found.groups())

    total, allocations = figures("Total")
    peak, _ = figures("At t-gmax")
    leaked, leaked_blocks = figures("At t-end")
    return {"allocations": allocations, "total_allocated_bytes": total, "peak_bytes": peak, "leaked_bytes": leaked,
            "leaked_blocks": leaked_blocks}


# ---- allocations that only one tool has

def only_in(ours, theirs):
    """[(size, difference, libraries)] for sizes with more allocations in `ours`, largest bytes first."""
    rows = []
    for size, through in ours.items():
        more = sum(through.values()) - sum(theirs.get(size, {}).values())
        if more > 0:
            # Of the stacks with this size, those with the largest difference.
            stacks = through - theirs.get(size, collections.Counter())
            rows.append((size, more, stacks.most_common(1)[0][0]))
    return sorted(rows, key=lambda row: -row[0] * row[1])


def measure(arguments, program):
    rounds, explained = collections.defaultdict(list), {}
    for number in range(arguments.rounds):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            for_headroom, for_heaptrack = variables_of_headroom(arguments.build, folder)
            figures, recording = under_headroom(arguments.build, program, folder, for_headroom)
            rounds["headroom"].append(figures)
            figures, raw = under_heaptrack(program, folder, for_heaptrack)
            rounds["heaptrack"].append(figures)
            if program.dhat and arguments.dhat:
                rounds["dhat"].append(under_dhat(program, folder))
            if number == 0:
                ours, theirs = blocks_of_recording(recording), count_heaptrack(raw)[1]
                explained = {"allocated only in Headroom": only_in(ours.allocated, theirs.allocated),
                             "allocated only in heaptrack": only_in(theirs.allocated, ours.allocated),
                             "never released only in Headroom": only_in(ours.live, theirs.live),
                             "never released only in heaptrack": only_in(theirs.live, ours.live)}
        print(f"trace_peers: {program.name}, round {number + 1} of {arguments.rounds}", file=sys.stderr)
    # Remove the paths of this machine.
    command = [os.path.basename(word) if word.startswith("/") else word for word in program.command]
    return {"program": program.name, "command": command, "what": program.what, "rounds": rounds,
            "first_round": explained}


# ---- the page

def spread(values):
    low, middle, high = min(values), sorted(values)[len(values) // 2], max(values)
    return f"{middle:,}" if low == high else f"{middle:,} ({low:,}–{high:,})"


def table(result, folder):
    tools = list(result["rounds"])
    command = " ".join(os.path.basename(word) if word.startswith(("/", folder)) else word for word in result["command"])
    lines = [f"### {result['program']}", "", f"{result['what']}: `{command if len(command) < 160 else command[:157] + '…'}`", "",
             "| | " + " | ".join(tools) + " | Headroom − heaptrack |", "|---" * (len(tools) + 2) + "|"]
    for key, label in FIGURES.items():
        values = {tool: [one[key] for one in result["rounds"][tool]] for tool in tools}
        differences = [a - b for a, b in zip(values["headroom"], values["heaptrack"])]
        lines.append(f"| {label} | " + " | ".join(spread(values[tool]) for tool in tools) + f" | {spread(differences)} |")
    lines.append("")
    for side, rows in result["first_round"].items():
        if not rows:
            continue
        listed = "; ".join(f"{count:,} × {size:,} B ({through})" for size, count, through in rows[:MOST_LISTED])
        rest = rows[MOST_LISTED:]
        if rest:
            listed += f"; and {sum(row[1] for row in rest):,} more, {sum(row[0] * row[1] for row in rest):,} B"
        count, size = sum(row[1] for row in rows), sum(row[0] * row[1] for row in rows)
        lines += [f"{side[0].upper()}{side[1:]}, first round: {count:,} blocks, {size:,} B: {listed}.", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="only programs whose names begin with one of these")
    parser.add_argument("--folder", help="folder for recordings during the run (default: the temporary folder)")
    parser.add_argument("--no-dhat", dest="dhat", action="store_false")
    parser.add_argument("--output", help="path of the JSON and Markdown files, without extension")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    needed = ["heaptrack", "zstd"] + (["valgrind"] if arguments.dhat else [])
    missing = [tool for tool in needed if shutil.which(tool) is None]
    if missing:
        raise SystemExit(f"trace_peers: {', '.join(missing)} not found: apt-get install heaptrack valgrind zstd (--no-dhat needs no valgrind)")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        found, absent = trace_programs.find_programs(arguments.build, folder)
        if arguments.only:
            found = [program for program in found if program.name.startswith(tuple(arguments.only))]
        results = [measure(arguments, program) for program in found]
        tables = [table(result, folder) for result in results]
    versions = [subprocess.run([tool, "--version"], capture_output=True, text=True).stdout.strip().splitlines()[-1]
                for tool in ("heaptrack", "valgrind") if shutil.which(tool)]
    page = "\n".join([
        "# The same figures as heaptrack and DHAT", "",
        f"Command: `benchmarks/trace_peers.py --rounds {arguments.rounds}`. Machine: {platform.machine()}, {platform.freedesktop_os_release()['PRETTY_NAME']}, "
        f"Linux {platform.release()}; {', '.join(versions)}. Median (min–max) over the rounds, one number where all agree; each round runs every tool once."
        + (f" Absent: {', '.join(absent)}." if absent else ""), "", EXPLANATIONS, *tables])
    print(page)
    if arguments.output:
        with open(arguments.output + ".json", "w", encoding="utf-8") as file:
            json.dump({"results": results, "absent": absent}, file, indent=1)
            file.write("\n")
        with open(arguments.output + ".md", "w", encoding="utf-8") as file:
            file.write(page)


if __name__ == "__main__":
    main()
