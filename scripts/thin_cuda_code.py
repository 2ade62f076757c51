#!/usr/bin/env python3
"""Keeps only the machine code for one kind of GPU in a library, so that it compresses to a fraction of its size.

    thin_cuda_code.py LIBRARY ARCHITECTURE

ARCHITECTURE is the compute capability without the point: 90 for an H100 or H200. Code for other GPUs is overwritten with zeros. The
library keeps its layout and the headers from which the driver chooses, so it runs as before on that GPU and on no other. NVIDIA does
not document the layout of the containers ("fat binaries"): a library with unknown content is not changed.
"""
import struct
import sys

MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)  # start of a container: version 1, header of 16 bytes, then the total size of its entries


def entries(data):
    """(begin, end, architecture) of each piece of machine code."""
    at = data.find(MAGIC)
    while at >= 0:
        (size,) = struct.unpack_from("<Q", data, at + 8)
        entry, end = at + 16, at + 16 + size
        if end > len(data):
            raise ValueError(f"the container at {at} is larger than the library")
        while entry < end:
            _, _, header, size = struct.unpack_from("<HHIQ", data, entry)
            (architecture,) = struct.unpack_from("<I", data, entry + 28)
            if not 32 <= header <= 4096 or entry + header + size > end or not 20 <= architecture < 1000:
                raise ValueError(f"the entry at {entry} is of an unknown kind")
            yield entry + header, entry + header + size, architecture
            entry += header + size
        at = data.find(MAGIC, end)


def main():
    path, wanted = sys.argv[1], int(sys.argv[2])
    with open(path, "rb") as file:
        data = bytearray(file.read())
    found = list(entries(data))
    kept = sum(end - begin for begin, end, architecture in found if architecture == wanted)
    if kept == 0:
        sys.exit(f"thin_cuda_code: {path} has no code for {wanted}, only for {sorted({one[2] for one in found})}")
    for begin, end, architecture in found:
        if architecture != wanted:
            data[begin:end] = bytes(end - begin)
    with open(path, "wb") as file:
        file.write(data)
    print(f"{path}: {kept >> 20} MiB of code for {wanted} kept, {(sum(end - begin for begin, end, _ in found) - kept) >> 20} MiB for others zeroed",
          file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
