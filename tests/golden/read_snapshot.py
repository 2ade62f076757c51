#!/usr/bin/env python3
"""Computes the figures of a PyTorch memory snapshot independently, with Python's pickle and a different algorithm.

    read_snapshot.py SNAPSHOT                 prints its figures as JSON
    read_snapshot.py SNAPSHOT REPORT.json     compares them with `headroom report SNAPSHOT --json`; exits 1 if any differs

Uses only the standard library. Python's pickle executes code from the file: use it only with snapshots that you trust.
"""
import collections
import gzip
import json
import pickle
import sys


def load(path):
    with open(path, "rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    with (gzip.open if is_gzip else open)(path, "rb") as file:
        data = pickle.load(file)
    return {"segments": data, "device_traces": []} if isinstance(data, list) else data


def addressed(segment):
    """The blocks of a segment with their addresses, which torch before 2.3 omits."""
    at = segment["address"]
    for block in segment["blocks"]:
        yield at, block
        at += block["size"]


def requested_of(block):
    if block["state"] == "inactive":
        return 0
    if "history" in block:
        return block["history"][0]["real_size"]
    return block.get("requested_size", block["size"])


class Layout:
    """The blocks in segments: one list of [size, is_live] per segment, searched from its start. Slow and simple on purpose."""

    def __init__(self, segments):
        self.segments = {segment: (kind, blocks) for segment, kind, blocks in segments}

    def find(self, address):
        for start, (kind, blocks) in self.segments.items():
            if start <= address < start + sum(size for size, _ in blocks):
                at = start
                for index, (size, _) in enumerate(blocks):
                    if at == address:
                        return start, kind, blocks, index
                    at += size
        raise ValueError(f"no block at {address:#x}")

    def allocate(self, address, requested):
        start, kind, blocks, index = self.find(address)
        size = blocks[index][0]
        rounded = max(512, (requested + 511) // 512 * 512)
        rest = size - rounded
        assert not blocks[index][1] and rest >= 0, f"{address:#x} is not free"
        if rest >= 512 if kind == "small" else rest > 1 << 20:
            blocks[index:index + 1] = [[rounded, True], [rest, False]]
        else:
            blocks[index][1] = True
        return blocks[index][0]

    def release(self, address):
        _, _, blocks, index = self.find(address)
        blocks[index][1] = False
        if index + 1 < len(blocks) and not blocks[index + 1][1]:
            blocks[index][0] += blocks.pop(index + 1)[0]
        if index > 0 and not blocks[index - 1][1]:
            blocks[index - 1][0] += blocks.pop(index)[0]


def before_the_trace(segments, trace):
    """The layout before the first entry; None if it cannot be determined."""
    sizes = {s["address"]: (s["total_size"], s["segment_type"]) for s in segments}
    live = {at: block["size"] for s in segments for at, block in addressed(s) if block["state"] != "inactive"}
    for entry in reversed(trace):
        action, at = entry["action"], entry.get("addr")
        if action in ("segment_map", "segment_unmap"):
            return None, None
        if action == "segment_alloc":
            del sizes[at]
        elif action == "segment_free":
            sizes[at] = (entry["size"], "small" if entry["size"] <= 2 << 20 else "large")
        elif action == "alloc":
            live.pop(at, None)
        elif action == "free_completed":
            live[at] = None
    if any(size is None for size in live.values()):
        return None, None
    layout = []
    for start, (size, kind) in sizes.items():
        at, blocks = start, []
        for address in sorted(a for a in live if start <= a < start + size):
            if address > at:
                blocks.append([address - at, False])
            blocks.append([live[address], True])
            at = address + live[address]
        if at < start + size:
            blocks.append([start + size - at, False])
        layout.append((start, kind, blocks))
    return Layout(layout), sizes


def peaks_of(segments, trace):
    """Peaks of allocated and reserved bytes. None if the file does not determine the state before the trace."""
    layout, sizes = before_the_trace(segments, trace)
    if layout is None:
        return None
    block_sizes = {}
    for start, (_, blocks) in layout.segments.items():
        at = start
        for size, is_live in blocks:
            if is_live:
                block_sizes[at] = size
            at += size
    allocated, reserved = sum(block_sizes.values()), sum(size for size, _ in sizes.values())
    most_allocated, most_reserved = allocated, reserved
    for entry in trace:
        action, at = entry["action"], entry.get("addr")
        if action == "alloc":
            block_sizes[at] = layout.allocate(at, entry["size"])
            allocated += block_sizes[at]
        elif action == "free_requested":
            allocated -= block_sizes.pop(at)
        elif action == "free_completed":
            layout.release(at)
        elif action == "segment_alloc":
            layout.segments[at] = ("small" if entry["size"] <= 2 << 20 else "large", [[entry["size"], False]])
            reserved += entry["size"]
        elif action == "segment_free":
            del layout.segments[at]
            reserved -= entry["size"]
        most_allocated, most_reserved = max(most_allocated, allocated), max(most_reserved, reserved)
    return most_allocated, most_reserved


def frames_of(block):
    frames = block["history"][0].get("frames", []) if "history" in block else block.get("frames", [])
    return tuple((frame["filename"], frame["line"], frame["name"]) for frame in frames)


def figures_of(data):
    devices = sorted({s["device"] for s in data["segments"]} | {i for i, trace in enumerate(data.get("device_traces", [])) if trace})
    result = []
    for device in devices:
        segments = [s for s in data["segments"] if s["device"] == device]
        traces = data.get("device_traces", [])
        trace = traces[device] if device < len(traces) else []
        blocks = [block for s in segments for block in s["blocks"]]
        by_stack = collections.Counter()
        for block in blocks:
            if block["state"] == "active_allocated" and frames_of(block):
                by_stack[frames_of(block)] += block["size"]
        figures = {
            "device": device,
            "segments": len(segments),
            "reserved_bytes": sum(s["total_size"] for s in segments),
            "live_bytes": sum(b["size"] for b in blocks if b["state"] == "active_allocated"),
            "live_blocks": sum(b["state"] == "active_allocated" for b in blocks),
            "requested_bytes": sum(requested_of(b) for b in blocks),
            "free_bytes": sum(b["size"] for b in blocks if b["state"] == "inactive"),
            "largest_free_bytes": max((b["size"] for b in blocks if b["state"] == "inactive"), default=0),
            "entries": len(trace),
            "actions": dict(collections.Counter(entry["action"] for entry in trace)),
            "oom_count": sum(entry["action"] == "oom" for entry in trace),
            "by_stack": dict(by_stack),
        }
        peaks = peaks_of(segments, trace) if len(trace) < 20000 else None  # slow
        if peaks:
            figures["peak_allocated_bytes"], figures["peak_reserved_bytes"] = peaks
        result.append(figures)
    return result


def compare(figures, report):
    differences = []
    reported = {device["device"]: device for device in report["devices"]}
    if sorted(reported) != [device["device"] for device in figures]:
        differences.append(f"devices: {sorted(reported)}")
    for device in figures:
        other = reported.get(device["device"], {})
        for key, value in device.items():
            if key != "by_stack" and other.get(key) != value:
                differences.append(f"device {device['device']}: {key} is {value} here, {other.get(key)} in the report")
        if "peak_allocated_bytes" in device and not other.get("peak_is_exact"):
            differences.append(f"device {device['device']}: the peak can be computed exactly: {other.get('doubt')}")
        for place in other.get("stacks", []):
            if "frames" in place:
                stack = tuple((frame["filename"], frame["line"], frame["name"]) for frame in place["frames"])
                if device["by_stack"].get(stack, 0) != place["live_bytes"]:
                    differences.append(f"device {device['device']}: {stack[0]} has {device['by_stack'].get(stack, 0)} here, {place['live_bytes']} in the report")
    return differences


def main():
    figures = figures_of(load(sys.argv[1]))
    if len(sys.argv) == 2:
        for device in figures:
            device["by_stack"] = [{"bytes": size, "frames": stack} for stack, size in device["by_stack"].items()]
        print(json.dumps(figures, indent=2))
        return 0
    with open(sys.argv[2], encoding="utf-8") as file:
        differences = compare(figures, json.load(file))
    for difference in differences:
        print(difference)
    if not differences:
        print(f"{sum(len(device) - 2 for device in figures)} figures and {sum(len(device['by_stack']) for device in figures)} stacks are the same")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
