"""The header, the names and the events of a Headroom recording (.hrec), following only docs/recording-format.md."""
import heapq
import struct

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


def defined(stacks, number):
    if number >= len(stacks):
        raise Damage("a stack is named before it is defined")
    return stacks[number]


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
                yield time, kind, (thread, scope, address * 8 % 2**64, size, defined(stacks, stack), offset)
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
                payload = Records(records.content[records.at:end])
                if what in DEVICE_FIELDS:
                    fields = [payload.varint() for _ in range(DEVICE_FIELDS[what])]
                    if what in (DEVICE_ALLOCATE, DEVICE_REFUSED):
                        fields[-1] = defined(stacks, fields[-1])
                    yield time, EXTENDED + what, (thread, scope, *fields)
                elif what in (RESERVE, MAKE_ACCESSIBLE):
                    eighths, size, stack = payload.varint(), payload.varint(), payload.varint()
                    yield time, EXTENDED + what, (thread, scope, eighths * 8 % 2**64, size, defined(stacks, stack))
                elif what == WEIGHT:
                    eighths, of = payload.varint(), payload.varint()
                    yield time, EXTENDED + what, (thread, of, eighths * 8 % 2**64)
                records.at = end
            else:
                raise Damage("a record of an unknown kind")
        if any(counted[:3]):  # counts since the last counters record
            yield time, COUNTERS, (thread, counted[3], *counted[:3])
