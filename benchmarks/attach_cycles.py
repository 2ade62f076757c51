#!/usr/bin/env python3
"""Attaches to busy programs and detaches again, many times, and checks that they do not notice.

    benchmarks/attach_cycles.py --build build/release --cycles 200 --output benchmarks/results/attach_cycles

The programs check each of their answers: a server of eight threads with eight clients (tests/cli/traced_server.cpp), a
Python program with two threads (tests/cli/traced_program.py), and a node of publishers and subscribers
(tests/cli/traced_node.cpp). Each cycle is one `headroom trace --pid PID --for TIME`; every second one has --full. A
cycle fails if headroom fails, if its recording has no allocations or is incomplete, or if the program makes no
progress afterwards. At the end the program must have no wrong answer and no system call that ended with EINTR. Then
no slot of its calls may point into Headroom's library, and it has no more open files and mappings of recordings than
before. Exits with 1 if any check fails. Uses only the Python standard library.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Program:
    """A running program that prints its progress on "?"."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.process.stdout.readline() == "ready\n", command

    @property
    def pid(self):
        return self.process.pid

    def progress(self):
        self.process.stdin.write("?")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def works(self):
        """Whether it gets on within 20 s."""
        before = self.progress()
        for _ in range(2000):
            if self.progress() > before:
                return True
            time.sleep(0.01)
        return False

    def finish(self):
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, json.loads(out.splitlines()[-1])

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def mappings_of(self, name):
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as file:
            return [line.split() for line in file if name in line]


def commands(build):
    return {"server": [str(build / "tests/traced_server")],
            "python": [sys.executable, str(ROOT / "tests/cli/traced_program.py")],
            "node": [str(build / "tests/traced_node")]}


def words_in(program, first, last):
    """All aligned words of the program's writable and relocated memory of files that lie in [first, last)."""
    found = []
    with open(f"/proc/{program.pid}/maps", encoding="utf-8") as maps, open(f"/proc/{program.pid}/mem", "rb", 0) as memory:
        for line in maps:
            fields = line.split()
            if len(fields) < 6 or not fields[5].startswith("/") or not fields[1].startswith("r") or "x" in fields[1]:
                continue
            # A recording names the library's addresses, too.
            if "libheadroom_trace_attach" in fields[5] or fields[5].endswith(".hrec"):
                continue
            start, end = (int(text, 16) for text in fields[0].split("-"))
            memory.seek(start)
            content = memory.read(end - start)
            for at in range(0, len(content) - 7, 8):
                if first <= int.from_bytes(content[at:at + 8], "little") < last:
                    found.append(start + at)
    return found


def slots_of_library(program):
    """Places in files' data that point into the recorder's library; None if it is not loaded."""
    mappings = program.mappings_of("libheadroom_trace_attach")
    if not mappings:
        return None
    return words_in(program, int(mappings[0][0].split("-")[0], 16), int(mappings[-1][0].split("-")[1], 16))


def cycle(headroom, program, folder, number, duration):
    recording = folder / "attached.hrec"
    flags = ["--full"] if number % 2 == 1 else []
    start = time.monotonic()
    traced = subprocess.run([headroom, "trace", "--pid", str(program.pid), "--for", duration, "--force", "--out", recording, *flags],
                            capture_output=True, text=True, timeout=120)
    wall = time.monotonic() - start
    if traced.returncode != 0:
        return wall, 0, f"headroom ended with {traced.returncode}: {traced.stderr}"
    report = subprocess.run([headroom, "report", recording, "--json"], capture_output=True, text=True, timeout=120)
    if report.returncode != 0:
        return wall, 0, f"report: {report.stderr}"
    figures = json.loads(report.stdout)
    if figures["allocations"] == 0:
        return wall, 0, "the recording has no allocations"
    if not figures["complete"]:
        return wall, 0, f"the recording is incomplete: {figures['problems']}"
    return wall, figures["allocations"], None if program.works() else "the program makes no progress"


def measure(headroom, name, command, cycles, duration):
    failures, walls, allocations = [], [], 0
    program = Program(command)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        try:
            if not program.works():  # all its threads have opened their files
                failures.append("the program gives wrong answers before anything attaches")
            files = program.open_files()
            for number in range(cycles):
                wall, recorded, failure = cycle(headroom, program, folder, number, duration)
                walls.append(wall)
                allocations += recorded
                if failure:
                    failures.append(f"cycle {number}: {failure}")
                    if program.process.poll() is not None or len(failures) > 5:
                        break
            if program.process.poll() is None:
                if program.open_files() != files:
                    failures.append(f"{program.open_files()} open files instead of {files}")
                if slots := slots_of_library(program):
                    failures.append(f"{len(slots)} slots still point into the library")
                if mapped := program.mappings_of(".hrec"):
                    failures.append(f"{len(mapped)} mappings of recordings remain")
            code, counted = program.finish()
            if code != 0:
                failures.append(f"the program ended with {code}")
        except (subprocess.TimeoutExpired, BrokenPipeError, ValueError, IndexError) as error:
            failures.append(f"the program hangs or has ended ({program.process.poll()}): {error}")
            counted = {"done": 0, "wrong": 0, "interrupted": 0}
        finally:
            program.kill()
    if counted["wrong"] or counted["interrupted"]:
        failures.append(f"{counted['wrong']} wrong answers, {counted['interrupted']} interrupted system calls")
    return {"program": name, "cycles": len(walls), "answers": counted["done"], "wrong": counted["wrong"],
            "interrupted": counted["interrupted"], "allocations_recorded": allocations,
            "median_wall_seconds": round(statistics.median(walls), 3) if walls else 0, "failures": failures}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--cycles", type=int, default=int(os.environ.get("HEADROOM_TEST_ATTACH_CYCLES", "10")))
    parser.add_argument("--for", dest="duration", default="100ms")
    parser.add_argument("--programs", default="server,python,node")
    parser.add_argument("--output", type=pathlib.Path, help="writes FILE.json and FILE.md")
    arguments = parser.parse_args()
    headroom = arguments.build.resolve() / "bin/headroom"
    results = []
    for name in arguments.programs.split(","):
        results.append(measure(headroom, name, commands(arguments.build.resolve())[name], arguments.cycles, arguments.duration))
        print(json.dumps(results[-1]), flush=True)
    if arguments.output:
        machine = f"{platform.machine()}, Linux {platform.release()}, glibc {platform.libc_ver()[1]}, {os.cpu_count()} cores"
        text = [f"# Attaching and detaching\n\n`benchmarks/attach_cycles.py --cycles {arguments.cycles} --for {arguments.duration}` on "
                f"{machine}.\n",
                "| program | cycles | answers checked | wrong | interrupted calls | allocations recorded | median time of a cycle | failures |",
                "|---|---|---|---|---|---|---|---|"]
        for r in results:
            text.append(f"| {r['program']} | {r['cycles']} | {r['answers']:,} | {r['wrong']} | {r['interrupted']} | "
                        f"{r['allocations_recorded']:,} | {r['median_wall_seconds']} s | {len(r['failures'])} |")
        arguments.output.with_suffix(".md").write_text("\n".join(text) + "\n", encoding="utf-8")
        arguments.output.with_suffix(".json").write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n", encoding="utf-8")
    return 1 if any(r["failures"] for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
