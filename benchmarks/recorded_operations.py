"""Compares a recording with what benchmarks/trace_victim.cpp did. The victim counts each operation in a mapped file after the operation.
So a recording must have every counted operation, and for each thread at most the one that was in progress. The content is counted by
tests/golden/read_recording.py, which shares no code with Headroom.
"""
import collections
import glob
import importlib.util
import os
import struct

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


READER = load_reader()


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


def read_tally(path):
    """(allocations, releases, bytes) of each thread."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return [(0, 0, 0)] * THREADS
    lines = [struct.unpack_from("<3Q", content, 64 * thread) for thread in range(THREADS) if len(content) >= 64 * (thread + 1)]
    return lines or [(0, 0, 0)] * THREADS


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




def allocations_in(path):
    """The number of allocations of any size in a recording of full mode."""
    with open(path, "rb") as file:
        recording = READER.Recording(file.read())
    return sum(1 for *_, kind, _fields in recording.events() if kind == READER.ALLOCATE)


def operations_of(tallies):
    """[allocations, releases, bytes] that the victims counted."""
    lines = [line for tally in tallies for line in read_tally(tally)]
    return [sum(line[i] for line in lines) for i in range(3)]


def recordings_of(root):
    """The recording and those of the other processes. A process that is killed before it writes the header leaves an empty file."""
    found = [path for path in [root, *glob.glob(root + ".d/*.hrec")] if os.path.exists(path)]
    return [path for path in found if os.path.getsize(path) > 0]


def compare(root, tallies):
    """(number of counted operations, problems) of a recording and the recordings of its other processes."""
    recorded, wrong = [0, 0, 0], []
    for path in recordings_of(root):
        counts, problems = own_events(READER, path)
        recorded = [recorded[i] + sum(line[i] for line in counts) for i in range(3)]
        wrong += problems
    done = operations_of(tallies)
    if any(have < want for have, want in zip(recorded, done)):
        wrong.append(f"operations are lost: done {done}, recorded {recorded}")
    if recorded[0] + recorded[1] > done[0] + done[1] + THREADS * len(tallies):
        wrong.append(f"more operations than were in progress: done {done}, recorded {recorded}")
    return done[0] + done[1], wrong
