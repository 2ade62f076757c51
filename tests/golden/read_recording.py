#!/usr/bin/env python3
"""Reads a Headroom recording (.hrec), following only docs/recording-format.md, and prints its content as JSON.

    read_recording.py FILE.hrec

Pure Python 3, standard library only. It proves that the document is sufficient, and is a starting point for a
reader in another language.
"""
import heapq
import json
import math
import struct
import sys

FILE_HEADER = struct.Struct("<8s6I5Q2i2I7Q2IQ")
SEGMENT_HEADER = struct.Struct("<2I2Q2I3QI")
METADATA_MAGIC, SEGMENT_MAGIC = 0x4154454D, 0x47455348
FULL, RING, CLOSED, SEALED, WITHOUT_HOST = 1, 2, 4, 8, 16
RECORDING_END = struct.Struct("<7Q")
ALLOCATE, RELEASE, MAP, UNMAP, SCOPE, STACK, SAMPLE, COUNTERS, GAP, THREAD = range(1, 11)
EXTENSION = 15
DEVICE_ALLOCATE, DEVICE_RELEASE, DEVICE_REFUSED, DEVICE_FIGURE = range(1, 5)  # kinds of extensions
DEVICE_HOLDER = 8
DEVICE_FIELDS = {DEVICE_ALLOCATE: 5, DEVICE_RELEASE: 3, DEVICE_REFUSED: 6, DEVICE_FIGURE: 3, DEVICE_HOLDER: 4}
RESERVE, MAKE_ACCESSIBLE, WEIGHT = 5, 6, 7  # more kinds of extensions
EXTENDED = 16  # internal event kind: 16 plus the kind of extension
# Kinds that use the device's own memory (if the GPU is not integrated).
DEVICE_TOTAL = range(1, 7)
PINNED_HOST = 7


class Damage(Exception):
    """The rest of a segment is invalid."""


P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                      0x27D4EB2F165667C5)
M64 = 2**64 - 1


def rotated(value, left):
    value &= M64
    return (value << left | value >> (64 - left)) & M64


def xxh64(content, seed=0):
    def rounded(lane, word):
        lane = (lane + word * P2) & M64
        return (lane << 31 | lane >> 33) * P1 & M64

    at, size = 0, len(content)
    value = seed + P5
    if size >= 32:
        a, b, c, d = (seed + P1 + P2) & M64, (seed + P2) & M64, seed, (seed - P1) & M64
        for v, w, x, y in struct.iter_unpack("<4Q", content[:size // 32 * 32]):
            a, b, c, d = rounded(a, v), rounded(b, w), rounded(c, x), rounded(d, y)
        at = size // 32 * 32
        value = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18)
        for lane in (a, b, c, d):
            value = (value ^ rounded(0, lane)) * P1 + P4 & M64
    value = value + size & M64
    while at + 8 <= size:
        value = rotated(value ^ rounded(0, int.from_bytes(content[at:at + 8], "little")), 27) * P1 + P4 & M64
        at += 8
    if at + 4 <= size:
        value = rotated(value ^ int.from_bytes(content[at:at + 4], "little") * P1, 23) * P2 + P3 & M64
        at += 4
    for byte in content[at:]:
        value = rotated(value ^ byte * P5, 11) * P1 & M64
    value = (value ^ value >> 33) * P2 & M64
    value = (value ^ value >> 29) * P3 & M64
    return value ^ value >> 32


def low32(value):
    return value % 2**32 or 1


def segment_checksum(header, records):
    """The checksum of a segment: its header without the last 4 of 64 bytes, and its records."""
    return low32(xxh64(records, xxh64(header[:60])))


def text_of(content):
    return content.decode("utf-8", "replace")


def words_of(content):
    return [text_of(word) for word in content.split(b"\0")[:-1]]


class Records:
    """The committed bytes of a segment, read from start to end."""

    def __init__(self, content):
        self.content, self.at = content, 0

    def byte(self):
        if self.at >= len(self.content):
            raise Damage("a record is cut off")
        self.at += 1
        return self.content[self.at - 1]

    def varint(self):
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (2**64 - 1)
        raise Damage("a number is not terminated")

    def signed(self):
        value = self.varint()
        return value >> 1 if value % 2 == 0 else -(value >> 1) - 1


class Recording:
    def __init__(self, content):
        self.content = content
        self.problems = []
        self.read_header()
        self.check_header()
        self.read_metadata()

    def read_header(self):
        if len(self.content) < 4096:
            raise SystemExit("shorter than a header")
        (magic, self.version, self.header_bytes, self.metadata_bytes, self.segment_bytes, flags, self.time_shift,
         first_ticks, first_ns, self.first_realtime_ns, last_ticks, last_ns, self.pid, self.parent_pid,
         self.page_bytes, self.machine, self.large_bytes, self.sample_period, self.segments_limit,
         self.segments_claimed, self.metadata_used, self.threads_seen, self.events_dropped,
         self.generation, self.checksum, self.file_bytes) = FILE_HEADER.unpack_from(self.content)
        if magic != b"HEADROOM" or self.version != 1:
            raise SystemExit("not a recording of version 1")
        self.full, self.ring, self.closed = bool(flags & FULL), bool(flags & RING), bool(flags & CLOSED)
        self.sealed = bool(flags & SEALED)
        self.host_recorded = not flags & WITHOUT_HOST
        self.first_monotonic_ns = first_ns
        self.seals, self.end = {}, None
        self.find_end()
        if self.end and self.closed:
            _, last_ticks, last_ns, claimed, seen, dropped, _ = self.end
            if self.segments_claimed < claimed:
                self.problems.append("the header counts fewer segments than were written")
            self.segments_claimed = max(self.segments_claimed, claimed)
            self.threads_seen = max(self.threads_seen, seen)
            self.events_dropped = max(self.events_dropped, dropped)
        ticks = last_ticks - first_ticks
        self.ns_per_unit = ((last_ns - first_ns) / ticks if ticks else 1.0) * 2**self.time_shift

    def check_header(self):
        if not self.checksum:
            return  # written by an earlier version
        fixed = bytearray(self.content[:160])
        fixed[24] &= ~(CLOSED | SEALED)
        for begin, end in ((56, 72), (112, 144), (148, 160)):
            fixed[begin:end] = bytes(end - begin)
        if low32(xxh64(bytes(fixed))) != self.checksum:
            self.problems.append("the file's header does not match its checksum")

    def metadata_records(self):
        """(offset in the area, kind, id, payload)"""
        end = min(self.header_bytes + min(self.metadata_used, self.metadata_bytes), len(self.content))
        at = self.header_bytes
        while at + 16 <= end:
            magic, size, kind, number = struct.unpack_from("<4I", self.content, at)
            if magic != METADATA_MAGIC or at + 16 + size > end:
                at += 8  # a hole: the next record starts at a multiple of eight
                continue
            yield at - self.header_bytes, kind, number, self.content[at + 16:at + 16 + size]
            at += 16 + (size + 7) // 8 * 8

    def find_end(self):
        is_right = not self.sealed
        for at, kind, number, payload in self.metadata_records():
            if kind == 13 and len(payload) >= 64:
                self.seals[number] = payload[:64]
            elif kind == 14 and len(payload) >= 56:
                end = RECORDING_END.unpack_from(payload)
                area = self.content[self.header_bytes:self.header_bytes + end[0]]
                is_right = end[0] <= at and xxh64(payload[:48], xxh64(area)) == end[6]
                self.end = end if is_right else None
        if not is_right:
            self.problems.append("names and modules do not match their checksum")

    def counts_at_the_end(self, slot, header, records):
        """Checks a segment. Returns its counts: those of the sealed copy if its thread wrote no record since."""
        own, = struct.unpack_from("<I", header, 60)
        if own:
            if segment_checksum(header, records) != own:
                self.problems.append(f"the segment in slot {slot} does not match its checksum")
        elif slot in self.seals:
            seal = self.seals[slot]
            _, thread, number, base_time, scope, committed, *counted = SEGMENT_HEADER.unpack_from(seal)
            _, _, number_now, base_time_now, *_ = SEGMENT_HEADER.unpack_from(header)
            if self.ring and number_now > number and base_time_now > base_time:
                pass  # the slot was reused after the end
            elif header[:28] != seal[:28] or committed > len(records):
                self.problems.append(f"the header of the segment in slot {slot} differs from its sealed copy")
            else:
                if segment_checksum(seal, records[:committed]) != struct.unpack_from("<I", seal, 60)[0]:
                    self.problems.append(f"the segment in slot {slot} does not match its checksum")
                if self.closed and committed == len(records):
                    return counted
        return SEGMENT_HEADER.unpack_from(header)[6:]

    def read_metadata(self):
        self.command, self.modules, self.notes = [], [], []
        self.scopes, self.threads, self.devices, self.processes = {}, {}, {}, {}
        for _, kind, number, payload in self.metadata_records():
            self.read_metadata_record(kind, number, payload)

    def read_metadata_record(self, kind, number, payload):
        if kind == 1:
            self.command = words_of(payload)
        elif kind == 4:
            bias, start, end, _ticks, id_bytes, _ = struct.unpack_from("<4Q2I", payload)
            self.modules.append({"path": text_of(payload[40 + id_bytes:]), "build_id": payload[40:40 + id_bytes].hex(),
                                 "start": start, "end": end, "load_bias": bias})
        elif kind == 6:
            parent, _source = struct.unpack_from("<2I", payload)
            self.scopes[number] = (parent, text_of(payload[8:]))
        elif kind == 7:
            self.threads[number] = (struct.unpack_from("<I", payload)[0], text_of(payload[8:]))
        elif kind == 10:
            self.notes.append(text_of(payload))
        elif kind == 11:
            total, limit, flags, granule = struct.unpack_from("<2Q2I", payload)
            self.devices[number] = {"name": text_of(payload[40:]), "uuid": payload[24:40].hex(), "total_bytes": total,
                                    "integrated": bool(flags & 1), "shared_limit": bool(flags & 4),
                                    "granule_bytes": granule,
                                    **({"limit_bytes": limit} if flags & 2 else {})}
        elif kind == 15:
            self.processes[number] = text_of(payload)

    def path_of(self, scope):
        names = []
        while scope in self.scopes:
            scope, name = self.scopes[scope]
            names.append(name)
        return "/".join(reversed(names))

    def events(self):
        """(time in units, segment number, position, kind, fields) of all segments, ordered by time."""
        segments = []
        begin = self.header_bytes + self.metadata_bytes
        slots = min(self.segments_claimed, self.segments_limit) if self.ring else self.segments_claimed
        for slot in range(slots):
            at = begin + slot * self.segment_bytes
            if at + 64 > len(self.content):
                if at < self.file_bytes:
                    self.problems.append("segments are missing")
                break
            magic, thread, number, base_time, scope, committed, *_ = SEGMENT_HEADER.unpack_from(self.content, at)
            if magic != SEGMENT_MAGIC:
                continue
            content = self.content[at + 64:at + min(64 + committed, self.segment_bytes)]
            counted = self.counts_at_the_end(slot, self.content[at:at + 64], content)
            decoded = self.decode(Records(content), base_time, thread, scope, counted)
            segments.append(self.segment_events(number, decoded))
        return heapq.merge(*segments, key=lambda event: event[:4])

    def segment_events(self, number, decoded):
        try:
            for position, (time, kind, fields) in enumerate(decoded):
                # At equal times a release comes first; within a segment the order is kept.
                yield time, kind not in (RELEASE, EXTENDED + DEVICE_RELEASE), number, position, kind, fields
        except Damage as damage:
            self.problems.append(f"segment {number}: {damage}")

    def decode(self, records, time, thread, scope, counted):
        address, stacks, before = 0, [()], ()
        while records.at < len(records.content):
            offset = records.at
            tag = records.byte()
            kind, delta = tag & 15, tag >> 4
            time += delta if delta < 15 else 15 + records.varint()
            if kind in (ALLOCATE, MAP, SAMPLE):
                address += records.signed()
                size, stack = records.varint(), records.varint()
                if stack >= len(stacks):
                    raise Damage("a stack is named before it is defined")
                yield time, kind, (thread, scope, address * 8 % 2**64, size, stacks[stack], offset)
            elif kind == RELEASE:
                address += records.signed()
                yield time, kind, (thread, scope, address * 8 % 2**64)
            elif kind == UNMAP:
                address += records.signed()
                yield time, kind, (thread, scope, address * 8 % 2**64, records.varint())
            elif kind == SCOPE:
                scope = records.varint()
                yield time, kind, (thread, scope)
            elif kind == STACK:
                count, shared = records.varint(), records.varint()
                if shared > count or shared > len(before) or count > 64:
                    raise Damage("a stack cannot be read")
                frames = list(before[len(before) - shared:])  # outer frames, innermost first
                caller = frames[0] if frames else 0
                for _ in range(count - shared):
                    caller = (caller + records.signed()) % 2**64
                    frames.insert(0, caller)
                before = tuple(frames)
                stacks.append(before)
            elif kind == COUNTERS:
                of, allocations, size, releases = (records.varint() for _ in range(4))
                yield time, kind, (thread, of, allocations, size, releases)
            elif kind == GAP:
                yield time, kind, (thread, records.varint())
            elif kind == THREAD:
                thread, scope = records.varint(), 0
            elif kind == EXTENSION:
                what, size = records.varint(), records.varint()
                end = records.at + size
                if end > len(records.content):
                    raise Damage("a record of a later version is cut off")
                if what in DEVICE_FIELDS:
                    payload = Records(records.content[records.at:end])
                    fields = [payload.varint() for _ in range(DEVICE_FIELDS[what])]
                    if what in (DEVICE_ALLOCATE, DEVICE_REFUSED):
                        if fields[-1] >= len(stacks):
                            raise Damage("a stack is named before it is defined")
                        fields[-1] = stacks[fields[-1]]
                    yield time, EXTENDED + what, (thread, scope, *fields)
                elif what in (RESERVE, MAKE_ACCESSIBLE):
                    payload = Records(records.content[records.at:end])
                    eighths, size, stack = payload.varint(), payload.varint(), payload.varint()
                    if stack >= len(stacks):
                        raise Damage("a stack is named before it is defined")
                    yield time, EXTENDED + what, (thread, scope, eighths * 8 % 2**64, size, stacks[stack])
                elif what == WEIGHT:
                    payload = Records(records.content[records.at:end])
                    eighths, of = payload.varint(), payload.varint()
                    yield time, EXTENDED + what, (thread, of, eighths * 8 % 2**64)
                records.at = end
            else:
                raise Damage("a record of an unknown kind")
        if any(counted[:3]):  # counts since the last counters record
            yield time, COUNTERS, (thread, counted[3], *counted[:3])


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
            # A sample represents this many unrecorded bytes. The counters contain the counted
            # ones.
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
