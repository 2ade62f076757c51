#!/usr/bin/env python3
"""Makes a memory snapshot of PyTorch of any size, in the format of torch 2.11: of a loop that allocates and frees, and keeps a little.

    benchmarks/make_pytorch_snapshot.py --mib 1024 --frames 12 snapshot.pickle

The bytes are those of Python's own pickler (protocol 4: every list and dict is numbered, every text is stored once). They are written
directly, so that making a gigabyte does not need gigabytes of memory. Allocations follow the caching allocator's rules: sizes are
rounded up to 512 bytes, and blocks are cut from the front of one large segment. Prints the expected figures as JSON.
"""
import argparse
import gzip
import json
import random
import struct

SEGMENT, ADDRESS = 32 << 30, 0x7F0000000000
LAYERS = 40
KEEP_EVERY = 50  # iterations; after these, one block is kept: a leak


class Pickler:
    """The opcodes that pickle protocol 4 uses for plain data."""

    def __init__(self, file):
        self.file, self.parts, self.size, self.memo, self.texts = file, [], 0, 0, {}
        self.put(b"\x80\x04")

    def put(self, part):
        self.parts.append(part)
        self.size += len(part)
        if len(self.parts) > 100_000:
            self.file.write(b"".join(self.parts))
            self.parts = []

    def get(self, number):
        return b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)

    def memoize(self):
        self.memo += 1
        return self.memo - 1

    def text(self, text):
        if text in self.texts:
            return self.put(self.get(self.texts[text]))
        raw = text.encode()
        self.put((b"\x8c" + bytes([len(raw)]) if len(raw) < 256 else b"X" + struct.pack("<I", len(raw))) + raw + b"\x94")
        self.texts[text] = self.memoize()

    def integer(self, value):
        if 0 <= value < 256:
            return self.put(b"K" + bytes([value]))
        if 0 <= value < 65536:
            return self.put(b"M" + struct.pack("<H", value))
        if -2**31 <= value < 2**31:
            return self.put(b"J" + struct.pack("<i", value))
        raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        self.put(b"\x8a" + bytes([len(raw)]) + raw)

    def value(self, value):
        if isinstance(value, bool):
            self.put(b"\x88" if value else b"\x89")
        elif isinstance(value, int):
            self.integer(value)
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, Shared):
            value.write(self)
        elif isinstance(value, list):
            self.begin_list()
            for start in range(0, len(value), 1000):
                self.put(b"(")
                for item in value[start:start + 1000]:
                    self.value(item)
                self.put(b"e")
        elif isinstance(value, tuple):
            for item in value:
                self.value(item)
            self.put(b"\x86\x94")
            self.memoize()
        else:
            self.put(b"}\x94(")
            self.memoize()
            for key, item in value.items():
                self.text(key)
                self.value(item)
            self.put(b"u")

    def begin_list(self):
        self.put(b"]\x94")
        self.memoize()

    def end(self):
        self.put(b".")
        self.file.write(b"".join(self.parts))


class Shared:
    """A value that is written once and then referenced."""

    def __init__(self, value):
        self.data, self.number = value, None

    def write(self, pickler):
        if self.number is not None:
            return pickler.put(pickler.get(self.number))
        self.number = pickler.memo
        pickler.value(self.data)


class Loop:
    """Forward passes: allocates LAYERS blocks from the front of the free memory, then frees them in reverse order."""

    def __init__(self, frames, seed=1):
        self.random = random.Random(seed)
        self.sizes = [self.random.choice([1, 3, 100, 600]) * 1024 + self.random.randrange(1, 512) for _ in range(LAYERS)]
        self.depth = frames
        self.frames = [Shared({"name": f"forward_{i}", "filename": f"/srv/model/layers/block_{i % 7}.py", "line": 10 + i}) for i in range(LAYERS + frames)]
        self.kept, self.front, self.time, self.iteration = [], 0, 1_795_225_412_000_000, 0
        self.peak = self.allocated = 0
        self.actions = {"segment_alloc": 1}

    def stack_of(self, layer):
        return {"frames": [self.frames[layer + i] for i in range(self.depth)]} if self.depth else {}

    def entry(self, action, address, size, layer):
        self.time += self.random.randrange(2, 90)
        self.actions[action] = self.actions.get(action, 0) + 1
        return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": self.time, "compile_context": "N/A",
                "user_metadata": "", **self.stack_of(layer)}

    def entries(self):
        """One iteration."""
        self.iteration += 1
        at, live = self.front, []
        for layer, size in enumerate(self.sizes):
            rounded = (size + 511) // 512 * 512
            yield self.entry("alloc", ADDRESS + at, size, layer)
            live.append((at, rounded, size, layer))
            at += rounded
            self.allocated += rounded
        self.peak = max(self.peak, self.allocated)
        if self.iteration % KEEP_EVERY == 0:
            self.kept.append(live.pop(0))
            self.front += self.kept[-1][1]
        for at, rounded, size, layer in reversed(live):
            yield self.entry("free_requested", ADDRESS + at, size, layer)
            yield self.entry("free_completed", ADDRESS + at, size, layer)
            self.allocated -= rounded


def segment_of(loop):
    blocks = [{"address": ADDRESS + at, "size": rounded, "requested_size": size, "state": "active_allocated", **({"frames": []} | loop.stack_of(layer))}
              for at, rounded, size, layer in loop.kept]
    blocks.append({"address": ADDRESS + loop.front, "size": SEGMENT - loop.front, "requested_size": 0, "state": "inactive", "frames": []})
    return {"device": 0, "address": ADDRESS, "total_size": SEGMENT, "allocated_size": loop.allocated, "active_size": loop.allocated,
            "requested_size": sum(block[2] for block in loop.kept), "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
            "is_expandable": False, "frames": [], "blocks": blocks}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=float, default=64)
    parser.add_argument("--frames", type=int, default=12, help="frames of each stack; 0: no stacks")
    parser.add_argument("file", help="output file; compressed if its name ends in .gz")
    options = parser.parse_args()
    loop = Loop(options.frames)
    with (gzip.open(options.file, "wb", compresslevel=6) if options.file.endswith(".gz") else open(options.file, "wb")) as file:
        pickler = Pickler(file)
        pickler.put(b"}\x94(")
        pickler.memoize()
        pickler.text("device_traces")
        pickler.begin_list()
        pickler.begin_list()
        batch = 0
        def add(entry):
            nonlocal batch
            pickler.put(b"(" if batch == 0 else b"")
            pickler.value(entry)
            batch = (batch + 1) % 1000
            pickler.put(b"e" if batch == 0 else b"")
        add(loop.entry("segment_alloc", ADDRESS, SEGMENT, 0))
        loop.actions["segment_alloc"] = 1
        while pickler.size < options.mib * (1 << 20):
            for entry in loop.entries():
                add(entry)
        pickler.put((b"e" if batch else b"") + b"a")
        pickler.value("segments")
        pickler.value([segment_of(loop)])
        pickler.put(b"u")
        pickler.end()
    print(json.dumps({"segments": 1, "reserved_bytes": SEGMENT, "live_bytes": loop.allocated, "peak_allocated_bytes": loop.peak,
                      "requested_bytes": sum(block[2] for block in loop.kept), "actions": loop.actions, "pickle_bytes": pickler.size}))


if __name__ == "__main__":
    main()
