"""Checks a Perfetto trace against https://github.com/google/perfetto/tree/main/protos/perfetto/trace (trace_packet.proto and
track_event/): fields, types and the rules in its comments. Tracks are described before they are used, counters are only on
counter tracks, and slices nest."""
from protobuf_schema import SchemaError, read_message

SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4
UNIT_SIZE_BYTES = 3
STATE_CLEARED = 1
SCHEMA = {
    "Trace": {1: ("packet", ["TracePacket"])},
    "TracePacket": {8: ("timestamp", "uint64"), 10: ("trusted_packet_sequence_id", "uint32"), 11: ("track_event", "TrackEvent"),
                    13: ("sequence_flags", "uint32"), 60: ("track_descriptor", "TrackDescriptor")},
    "TrackDescriptor": {1: ("uuid", "uint64"), 2: ("name", "string"), 3: ("process", "ProcessDescriptor"),
                        4: ("thread", "ThreadDescriptor"), 5: ("parent_uuid", "uint64"), 8: ("counter", "CounterDescriptor")},
    "ProcessDescriptor": {1: ("pid", "int32"), 2: ("cmdline", ["string"]), 6: ("process_name", "string"),
                          7: ("start_timestamp_ns", "int64")},
    "ThreadDescriptor": {1: ("pid", "int32"), 2: ("tid", "int32"), 5: ("thread_name", "string")},
    "CounterDescriptor": {2: ("categories", ["string"]), 3: ("unit", ("enum", {0, 1, 2, 3})), 4: ("unit_multiplier", "int64"),
                          5: ("is_incremental", "bool")},
    "TrackEvent": {9: ("type", ("enum", {0, 1, 2, 3, 4})), 11: ("track_uuid", "uint64"), 22: ("categories", ["string"]),
                   23: ("name", "string"), 30: ("counter_value", "int64")},
}


def require(holds, what):
    if not holds:
        raise SchemaError(what)


class Tracks:
    def __init__(self):
        self.described, self.open, self.last = {}, {}, {}
        self.counters, self.slices = {}, {}

    def describe(self, track):
        uuid = track.get("uuid", 0)
        require(uuid not in (0, *self.described), f"track {uuid} is described twice or has the reserved id 0")
        parent = track.get("parent_uuid", 0)
        require(parent == 0 or parent in self.described, f"track {uuid} has an unknown parent")
        require(sum(kind in track for kind in ("process", "thread", "counter")) <= 1, f"track {uuid} has two kinds")
        self.described[uuid] = track

    def event(self, time, event):
        uuid, kind = event.get("track_uuid", 0), event.get("type", 0)
        require(uuid in self.described, f"an event is on track {uuid}, which has no description")
        require(time >= self.last.get(uuid, 0), f"time runs backwards on track {uuid}")
        self.last[uuid] = time
        track = self.described[uuid]
        require((kind == COUNTER) == ("counter" in track), f"an event of type {kind} is on track {track.get('name', uuid)}")
        require((kind == COUNTER) == ("counter_value" in event), "a counter has no value, or another event has one")
        if kind == COUNTER:
            require(not track["counter"].get("is_incremental"), "values must be absolute")
            self.counters.setdefault(track["name"], []).append(event["counter_value"])
        elif kind == SLICE_BEGIN:
            require(event.get("name"), "a slice has no name")
            self.open.setdefault(uuid, []).append(event["name"])
            self.slices[event["name"]] = self.slices.get(event["name"], 0) + 1
        else:
            require(kind == SLICE_END and self.open.get(uuid), f"an event of type {kind} ends no slice")
            self.open[uuid].pop()


def read_trace(file):
    """The checked trace: its tracks with `counters` {name: values} and `slices` {name: how often it was entered}."""
    with open(file, "rb") as stream:
        packets = read_message(SCHEMA, "Trace", stream.read()).get("packet", [])
    require(packets, "there is no packet")
    require(packets[0].get("sequence_flags", 0) & STATE_CLEARED, "the first packet does not start the sequence")
    tracks = Tracks()
    for packet in packets:
        require(packet.get("trusted_packet_sequence_id", 0) != 0, "a packet has no sequence")
        require(("track_event" in packet) != ("track_descriptor" in packet), "a packet has two kinds of content, or none")
        if "track_descriptor" in packet:
            tracks.describe(packet["track_descriptor"])
        else:
            require("timestamp" in packet, "an event has no time")
            tracks.event(packet["timestamp"], packet["track_event"])
    return tracks
