#!/usr/bin/env python3
"""Reads a Headroom recording (.hrec), following only docs/recording-format.md, and prints its content as JSON.

    read_recording.py FILE.hrec

Pure Python 3, standard library only. It proves that the document is sufficient, and is a starting point for a
reader in another language. recording_events.py reads the file; the figures are here.
"""
import json
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # also where this file is loaded as a module
from recording_events import *  # noqa: E402, F403

# Kinds that use the device's own memory (if the GPU is not integrated).
DEVICE_TOTAL = range(1, 7)
PINNED_HOST = 7


def mixed(bits):
    """SplitMix64."""
    bits = (bits + 0x9E3779B97F4A7C15) % 2**64
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
    return bits ^ bits >> 31


def weights_of(recording, segment, offset, size):
    """The weight of a sample: among all samples, in half A, and in half B."""
    chance = -math.expm1(-size / recording.sample_period)
    missed = math.sqrt(1 - chance)  # probability that one half misses it
    half_weight = (1 + missed) / chance
    coin = (mixed((mixed(recording.first_realtime_ns) + (segment << 32) + offset) % 2**64) >> 11) * 2.0**-53
    alone = missed / (1 + missed)
    in_a, in_b = coin < alone or coin >= 2 * alone, coin >= alone
    return 1 / chance, half_weight * in_a, half_weight * in_b


class Peak:
    """The largest live bytes. Without samples: exact, after an event. With samples: at half A's maximum, measured by half B."""

    def __init__(self):
        self.exact = (0, 0)  # bytes, nanoseconds
        self.sampled = False
        self.moments = [(0, 0, 0)]  # nanoseconds, and the bytes live from then on by half A and by half B

    def changed(self, time, live):
        if live[0] > self.exact[0]:
            self.exact = live[0], time
        if self.moments[-1][0] == time:
            self.moments.pop()
        self.moments.append((time, live[1], live[2]))

    def found(self, end):
        if not self.sampled:
            return self.exact
        highest, begin, until, i = -1, 0, 0, 0
        while i < len(self.moments):
            start, level, _ = self.moments[i]
            while i < len(self.moments) and self.moments[i][1] == level:
                i += 1
            if level > highest:
                highest, begin = level, start
                until = self.moments[i][0] if i < len(self.moments) else end + 1
        moment = begin + (until - begin) // 2
        return [live for time, _, live in self.moments if time <= moment][-1], moment


class Device:
    """The memory of one GPU: live bytes by kind and handle, the peak, and refusals."""

    def __init__(self, integrated):
        self.total_kinds = [*DEVICE_TOTAL, PINNED_HOST] if integrated else [*DEVICE_TOTAL]
        self.live, self.total, self.peak, self.refused_count, self.refused_bytes = {}, 0, 0, 0, 0
        self.figures, self.holders = {}, {}

    def visit(self, what, kind, fields):
        if what == DEVICE_ALLOCATE:
            self.release((kind, fields[0]))
            self.live[kind, fields[0]] = fields[1]
            if kind in self.total_kinds:
                self.total += fields[1]
                self.peak = max(self.peak, self.total)
        elif what == DEVICE_RELEASE:
            self.release((kind, fields[0]))
        elif what == DEVICE_REFUSED:
            self.refused_count += 1
            self.refused_bytes += fields[0]
        elif what == DEVICE_HOLDER:
            self.holders[kind] = fields[0]  # this extension stores the process in the field of the kind
        else:
            self.figures[kind] = fields[0]

    def release(self, block):
        size = self.live.pop(block, 0)
        if block[0] in self.total_kinds:
            self.total -= size

    def summary(self):
        return {"peak_bytes": self.peak, "live_bytes": self.total, "live_blocks": len(self.live),
                "refused_count": self.refused_count, "refused_bytes": self.refused_bytes, "figures": self.figures,
                "holders": self.holders}


def weights_in(recording):
    """The scope of each allocation that is a weight, by its address and time."""
    live, scopes = {}, {}
    for time, _, _segment, _, kind, fields in recording.events():
        if kind in (ALLOCATE, SAMPLE):
            live[fields[2]] = time
        elif kind == RELEASE:
            live.pop(fields[2], None)
        elif kind == EXTENDED + WEIGHT and fields[2] in live:
            scopes.setdefault((fields[2], live[fields[2]]), fields[1])
    return scopes


def summary(recording):
    """The figures that every reader must agree on."""
    counts = {"events": 0, "allocations": 0, "deallocations": 0, "total_allocated_bytes": 0, "gap_events": 0}
    live, live_bytes, peak, now = {}, [0, 0, 0], Peak(), 0
    stacks, by_scope, devices = set(), {}, {}
    weight_scopes = weights_in(recording)

    def count(scope, allocations, size):
        counts["allocations"] += allocations
        counts["total_allocated_bytes"] += size
        path = recording.path_of(scope)
        by_scope[path] = by_scope.get(path, 0) + size

    def change(sign, bytes_by_half):
        for i in range(3):
            live_bytes[i] += sign * bytes_by_half[i]

    for time, _, segment, _, kind, fields in recording.events():
        if kind == EXTENDED + WEIGHT:
            continue
        counts["events"] += 1
        now = int(time * recording.ns_per_unit)
        if kind in (ALLOCATE, SAMPLE):
            thread, scope, address, size, stack, offset = fields
            # A sample represents this many unrecorded bytes. The counters contain the counted ones.
            weights = (1, 1, 1)
            if kind == SAMPLE and recording.sample_period and size:
                weights = weights_of(recording, segment, offset, size)
                peak.sampled = True
            change(-1, live.get(address, (0, 0, 0)))
            live[address] = tuple(int(size * weight + 0.5) for weight in weights)
            change(1, live[address])
            stacks.add(stack)
            count(weight_scopes.get((address, time), scope), 1, size)
            peak.changed(now, live_bytes)
        elif kind == RELEASE:
            counts["deallocations"] += 1
            change(-1, live.pop(fields[2], (0, 0, 0)))
            peak.changed(now, live_bytes)
        elif kind == COUNTERS:
            _thread, scope, allocations, size, releases = fields
            counts["deallocations"] += releases
            count(scope, allocations, size)
        elif kind in (MAP, EXTENDED + RESERVE, EXTENDED + MAKE_ACCESSIBLE):
            stacks.add(fields[4])
        elif kind > EXTENDED:
            _thread, _scope, ordinal, memory, *rest = fields
            if ordinal not in devices:
                devices[ordinal] = Device(recording.devices.get(ordinal, {}).get("integrated", False))
            devices[ordinal].visit(kind - EXTENDED, memory, rest)
            if kind - EXTENDED in (DEVICE_ALLOCATE, DEVICE_REFUSED):
                stacks.add(rest[-1])
        elif kind == GAP:
            counts["gap_events"] += fields[1]
    stacks.discard(())
    peak_bytes, peak_ns = peak.found(now)
    return {
        **counts,
        "peak_bytes": peak_bytes,
        "peak_time_seconds": peak_ns * 1e-9,
        "leaked_bytes": live_bytes[0],
        "leaked_blocks": len(live),
        "stacks": len(stacks),
        "bytes_by_scope": by_scope,
        "command": recording.command,
        "pid": recording.pid,
        "host_recorded": recording.host_recorded,
        "full": recording.full,
        "closed": recording.closed,
        "dropped_events": recording.events_dropped,
        "modules": recording.modules,
        "devices": {number: {**recording.devices.get(number, {}), **device.summary()} for number, device in devices.items()},
        "threads": {number: name for number, (_, name) in recording.threads.items()},
        "notes": recording.notes,
        "problems": recording.problems,
    }


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with open(sys.argv[1], "rb") as file:
        recording = Recording(file.read())
    json.dump(summary(recording), sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
