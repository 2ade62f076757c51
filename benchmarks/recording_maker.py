#!/usr/bin/env python3
"""Makes recordings to measure how fast they are read, each in full mode, from a real process:

    benchmarks/recording_maker.py KIND FILE [--build build/release] [--events N]

  live     15 M events of blocks of 16 to 2063 bytes, 1.45 M of them live, 20,000 stacks
  short    45 M events of blocks of 16 to 512 bytes, 32 of them live, 64 stacks
  stacks   8 M events, 20,000 stacks of 12 to 40 frames, 2,048 blocks live
  threads  8 M events of each of 2 threads, 64 stacks
  python   17 M events of Python's json and re, with PYTHONMALLOC=malloc
  tree     a shell that runs 99 such storms, of 500,000 events each: FILE and the folder FILE.d
  day      1,000 M events of blocks of 16 to 512 bytes, 20,000 of them live, 2,000 stacks (about 6 GB)

A recording is as the preload library leaves it at the process's end; `headroom trace` adds nothing but the summary that it prints.
`--events` changes the number of events (of each process for `tree`). Uses only the Python standard library.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

import trace_programs

# events, and the further arguments of trace_storm: threads, stacks, slots (about half are live), largest block
STORMS = {
    "live": (15_000_000, 1, 20_000, 2_900_000, 2063),
    "short": (45_000_000, 1, 64, 64, 512),
    "stacks": (8_000_000, 1, 20_000, 4096, 2063),
    "threads": (8_000_000, 2, 64, 4096, 2063),
    "day": (1_000_000_000, 1, 2_000, 40_000, 512),
}
PYTHON_EVENTS_PER_RECORD = 122  # two thirds of them while the JSON text is written and parsed


def command_of(kind, build, events, folder):
    """The command, and variables for its environment."""
    if kind in STORMS:
        default, *rest = STORMS[kind]
        return [os.path.join(build, "tests/trace_storm"), str(events or default), *map(str, rest)], {}
    if kind == "python":
        records = (events or 17_000_000) // PYTHON_EVENTS_PER_RECORD
        program = trace_programs.python_programs(os.path.realpath(sys.executable), folder, records)[1]
        return program.command, program.environment
    storm = f"{os.path.join(build, 'tests/trace_storm')} {events or 500_000}"
    return [shutil.which("sh"), "-c", f"i=1; while [ $i -lt 100 ]; do {storm}; i=$((i + 1)); done"], {}


def make(kind, path, build, events=None):
    """Makes the recording and returns the seconds that its program took."""
    path = os.path.abspath(path)
    for old in (path, path + ".d"):
        if os.path.isdir(old):
            shutil.rmtree(old)
        elif os.path.exists(old):
            os.remove(old)
    library = os.path.abspath(os.path.join(build, "bin/libheadroom_trace.so"))
    with tempfile.TemporaryDirectory() as folder:
        command, environment = command_of(kind, build, events, folder)
        begin = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={
            **os.environ, **environment, "LD_PRELOAD": library, "HEADROOM_TRACE_FILE": path,
            "HEADROOM_TRACE_OPTIONS": "full=1,stacks=unwind"})
        return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=[*STORMS, "python", "tree"])
    parser.add_argument("file")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--events", type=int)
    arguments = parser.parse_args()
    seconds = make(arguments.kind, arguments.file, arguments.build, arguments.events)
    files = [arguments.file]
    if os.path.isdir(arguments.file + ".d"):
        files += [os.path.join(arguments.file + ".d", name) for name in os.listdir(arguments.file + ".d")]
    stored = sum(os.stat(file).st_blocks * 512 for file in files)
    print(f"{arguments.kind}: {len(files)} file(s), {stored / 2**20:.1f} MiB on disk, {seconds:.1f} s")


if __name__ == "__main__":
    main()
