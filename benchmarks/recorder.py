#!/usr/bin/env python3
"""Measures `headroom trace --full` from the start to the report, with heaptrack beside it in the same run:

  * storm      what an event adds, with 20,000 stacks (trace_cost.py)
  * programs   what recording adds to the wall time of real programs (trace_programs.py, message_node.cpp)
  * reading    `headroom report` and `headroom export` of large recordings (recording_maker.py), on one core and on all
  * end        how long `headroom trace` takes from the end of the command to its own, and its memory

    benchmarks/recorder.py --build build/release --output build/bench/recorder.md [--only PART …] [--rounds 9] [--day]

All sides take turns: each round runs each side once. "Added" is a side's time in a round minus that of the program alone in the same
round. Heaptrack records only (`-r`); for reading, its `heaptrack_print` reads what it recorded of the same program. `--day` also reads
a recording of 1,000 million events (6 GB). Uses only the Python standard library.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import recording_maker
import trace_cost
import trace_programs

PARTS = ["storm", "programs", "reading", "end"]
STORM_PROGRAMS = {"trace_storm": "code with frame pointers", "trace_storm_without_fp": "code without frame pointers"}
STORM_MODES = ["full, no stacks", "full, frame pointers", "full, unwind"]
READ_KINDS = {
    "live": "15 M events, 1.45 M blocks live, 20,000 stacks", "short": "45 M events of short-lived small blocks",
    "python": "17 M events of Python's JSON", "day": "1,000 M events",
}
ENDS = {"short": "45 M events of short-lived small blocks", "python": "17 M events of Python's JSON",
        "tree": "tree of 100 processes, 50 M events"}


def median(values, digits=0):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def progress(text):
    print(f"recorder: {text}", file=sys.stderr, flush=True)


def library_of(arguments):
    return os.path.abspath(os.path.join(arguments.build, "bin/libheadroom_trace.so"))


# ---- storm

def storm_section(arguments):
    lines = ["## A storm of 20,000 stacks of 12 to 40 frames", "",
             "Any two stacks differ in most frames, and each is as likely as any other (`benchmarks/trace_storm.cpp`). Frame pointers can only be "
             "followed where code has them.", ""]
    for program, title in STORM_PROGRAMS.items():
        for threads in (1, 2):
            modes = [mode for mode in STORM_MODES if mode != "full, frame pointers" or program == "trace_storm"]
            options = argparse.Namespace(build=arguments.build, operations=arguments.operations, stacks=20_000, rounds=arguments.rounds,
                                         folder=arguments.folder, modes=modes, no_heaptrack=False)
            lines.append(trace_cost.table(trace_cost.measure(options, threads, program)).replace("thread(s)", f"thread(s), {title}"))
    return lines


# ---- real programs

def times_of(command, program, environment=None):
    """Wall and CPU milliseconds, those of child processes included."""
    with open(program.stdin, "rb") as stdin:
        begin, before = time.monotonic(), os.times()
        done = subprocess.run(command, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, **program.environment, **(environment or {})})
        seconds, after = time.monotonic() - begin, os.times()
    if done.returncode != 0:
        raise SystemExit(f"recorder: {' '.join(command)} ended with {done.returncode}")
    return 1000 * seconds, 1000 * (after.children_user + after.children_system - before.children_user - before.children_system)


def empty(folder):
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def real_programs(arguments, folder):
    made = []
    for tool, make in (("git", trace_programs.git_programs), ("sort", trace_programs.sort_programs), ("g++", trace_programs.compiler_programs)):
        path = shutil.which(tool)
        made += make(os.path.realpath(path), folder) if path else []
    made += trace_programs.python_programs(os.path.realpath(sys.executable), folder, 40_000)[1:]
    return made + trace_programs.message_programs(arguments.build)


def programs_section(arguments):
    lines = ["## Real programs, full mode", "",
             "What recording adds, in wall-clock time and in CPU time. The CPU time counts all processes of heaptrack. The ratio is Headroom's "
             "added time over heaptrack's, median of the rounds. On a busy machine only CPU time is comparable.", "",
             "| program | alone, wall ms | Headroom, wall | heaptrack, wall | ratio | alone, CPU ms | Headroom, CPU | heaptrack, CPU | ratio |",
             "|---|---|---|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder, tempfile.TemporaryDirectory(dir=arguments.folder) as output:
        traced = {"LD_PRELOAD": library_of(arguments), "HEADROOM_TRACE_FILE": os.path.join(output, "program.hrec"),
                  "HEADROOM_TRACE_OPTIONS": "full=1,stacks=unwind"}
        for program in real_programs(arguments, folder):
            rounds = []
            for _ in range(arguments.rounds):
                alone = times_of(program.command, program)
                headroom = times_of(program.command, program, traced)
                empty(output)
                heaptrack = times_of(["heaptrack", "-r", "-o", os.path.join(output, "program"), *program.command], program)
                empty(output)
                rounds.append((alone, headroom, heaptrack))
            cells = [f"{program.name}: {program.what}"]
            for clock in (0, 1):
                cells.append(median([one[0][clock] for one in rounds]))
                for side in (1, 2):
                    cells.append(median([100 * (one[side][clock] / one[0][clock] - 1) for one in rounds]) + " %")
                ratios = [(one[1][clock] - one[0][clock]) / (one[2][clock] - one[0][clock]) for one in rounds if one[2][clock] != one[0][clock]]
                cells.append(f"{statistics.median(ratios):.2f}" if ratios else "–")
            lines.append("| " + " | ".join(cells) + " |")
            progress(lines[-1])
    return lines + [""]


# ---- reading

def measured(command, cores=None):
    """Seconds, CPU seconds and peak memory in MiB of one command."""
    prepare = (lambda: os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))) if cores else None
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=prepare)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"recorder: {' '.join(command)} ended with {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def events_in(headroom, path):
    report = json.loads(subprocess.run([headroom, "report", path, "--json"], check=True, capture_output=True).stdout)
    return report["allocations"] + report["deallocations"]


def reading_section(arguments):
    headroom = os.path.join(arguments.build, "bin/headroom")
    lines = ["## Reading", "", f"M events/s (peak memory in MiB), median of {arguments.read_rounds} rounds. heaptrack_print reads on one core.", "",
             "| recording | events | bytes/event | report, 1 core | report, all cores | export, 1 core | heaptrack_print |",
             "|---|---|---|---|---|---|---|"]
    for kind in [name for name in READ_KINDS if name != "day" or arguments.day]:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            path = os.path.join(folder, "a.hrec")
            recording_maker.make(kind, path, arguments.build)
            events = events_in(headroom, path)
            commands = {"report": ([headroom, "report", path, "--json"], 1), "report, all": ([headroom, "report", path, "--json"], None),
                        "export": ([headroom, "export", path, "--to", "pprof", "--out", os.path.join(folder, "out.pb.gz")], 1)}
            if kind in ("short", "python"):
                raw = os.path.join(folder, "heaptrack")
                with tempfile.TemporaryDirectory() as inner:
                    command, environment = recording_maker.command_of(kind, arguments.build, None, inner)
                    subprocess.run(["heaptrack", "-o", raw, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, **environment})
                file = next(os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("heaptrack"))
                commands["heaptrack"] = (["heaptrack_print", file], 1)
            results = {name: [] for name in commands}
            for _ in range(arguments.read_rounds):
                for name, (command, cores) in commands.items():
                    results[name].append(measured(command, cores))

            def cell(name):
                if name not in results:
                    return "–"
                return (f"{events / 1e6 / statistics.median(one[0] for one in results[name]):.1f} "
                        f"({max(one[2] for one in results[name]):.0f})")

            stored = os.stat(path).st_blocks * 512 / events
            lines.append(f"| {READ_KINDS[kind]} | {events / 1e6:.1f} M | {stored:.2f} | {cell('report')} | {cell('report, all')} | "
                         f"{cell('export')} | {cell('heaptrack')} |")
            progress(lines[-1])
    return lines + [""]


# ---- the end of a trace

def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return file.read().split()
    except OSError:
        return []


def peak_memory_of(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            return next((int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def end_of_trace(command, environment):
    """Seconds of the whole command, seconds from the end of the traced command to the end, and Headroom's peak memory in MiB."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    last_child, peak = begin, 0.0
    while process.poll() is None:
        if children_of(process.pid):
            last_child = time.monotonic()
        peak = max(peak, peak_memory_of(process.pid))
        time.sleep(0.002)
    if process.returncode != 0:
        raise SystemExit(f"recorder: {' '.join(command)} ended with {process.returncode}")
    end = time.monotonic()
    return end - begin, end - last_child, peak


def end_section(arguments):
    headroom = os.path.join(arguments.build, "bin/headroom")
    lines = ["## The end of a trace", "",
             f"`headroom trace --full -- COMMAND`, median of {arguments.read_rounds} rounds. heaptrack records only, and only the first "
             "process of a tree.", "",
             "| command | alone, s | Headroom, s | of that after the command's end | Headroom's memory, MiB | heaptrack, s |", "|---|---|---|---|---|---|"]
    for kind, title in ENDS.items():
        rounds = []
        for _ in range(arguments.read_rounds):
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                command, variables = recording_maker.command_of(kind, arguments.build, None, folder)
                environment = {**os.environ, **variables}
                alone = end_of_trace(command, environment)[0]
                traced = end_of_trace([headroom, "trace", "--full", "--out", os.path.join(folder, "a.hrec"), "--", *command], environment)
                heaptrack = end_of_trace(["heaptrack", "-r", "-o", os.path.join(folder, "h"), *command], environment)[0]
                rounds.append((alone, *traced, heaptrack))
        columns = [statistics.median(one[i] for one in rounds) for i in range(5)]
        lines.append(f"| {title} | {columns[0]:.2f} | {columns[1]:.2f} | {columns[2]:.2f} s | {columns[3]:.0f} | {columns[4]:.2f} |")
        progress(lines[-1])
    return lines + [""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--output", help="path of the Markdown file")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--read-rounds", type=int, default=3)
    parser.add_argument("--operations", type=int, default=8_000_000, help="of each thread of the storm")
    parser.add_argument("--folder", help="folder for recordings during the run (default: the temporary folder)")
    parser.add_argument("--day", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("heaptrack") is None:
        raise SystemExit("recorder: heaptrack not found: apt-get install heaptrack zstd")
    sections = {"storm": storm_section, "programs": programs_section, "reading": reading_section, "end": end_section}
    load_before = os.getloadavg()[0]
    body = [line for part in arguments.only for line in sections[part](arguments)]
    page = "\n".join([
        "# Recording, and reading what was recorded", "",
        f"Command: `make bench-recorder`. Machine: {trace_cost.machine_name()}; load when it began {load_before:.1f}, when it ended "
        f"{os.getloadavg()[0]:.1f}. {subprocess.run(['heaptrack', '--version'], capture_output=True, text=True).stdout.strip()}. "
        f"Median (min–max) of {arguments.rounds} rounds.", "", *body])
    print(page)
    if arguments.output:
        os.makedirs(os.path.dirname(os.path.abspath(arguments.output)), exist_ok=True)
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(page)


if __name__ == "__main__":
    main()
