"""Makes hostile variants of one file, by fixed rules: the same file always gives the same variants.

variants(seed, text, huge) yields pairs (name, content). `content` is the bytes of the file, or a function that creates something at a
path: a folder, a FIFO, a link to a device. `huge` is the size of the largest variants in bytes.
"""
import bz2
import gzip
import lzma
import os
import random
import re
import socket
import zipfile
import io

NUMBERS = ["99999999999999999999", "-1", "0", "1e999", "nan", "9223372036854775807", "18446744073709551615", "1" * 5000, "0x7f", "1.5.2"]
# What a reader of live data waits for, or reads for ever.
ENDLESS = ["a FIFO without a writer", "/dev/zero", "/dev/full", "/dev/urandom", "an endless file of /proc"]
MAGICS = {"elf": b"\x7fELF\x02\x01\x01", "png": b"\x89PNG\r\n\x1a\n", "pickle": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
          "sqlite": b"SQLite format 3\0", "zip": b"PK\x03\x04", "recording": b"HEADROOM", "gzip": b"\x1f\x8b\x08\x00", "json": b'{"a":'}


def special_files():
    """Things that are not regular files, or that nobody can read."""
    def link_to(target):
        return lambda path: os.symlink(target, path)

    def closed(path):
        with open(path, "wb") as file:
            file.write(b"secret")
        os.chmod(path, 0)

    def listening(path):
        # A socket's address has at most 107 bytes, so it is bound by its name in the current folder.
        here = os.getcwd()
        os.chdir(os.path.dirname(path))
        try:
            socket.socket(socket.AF_UNIX).bind(os.path.basename(path))
        finally:
            os.chdir(here)

    def sparse(path):
        with open(path, "wb") as file:
            file.truncate(600 << 20)

    yield "missing", lambda path: None
    yield "a folder", os.mkdir
    yield "a FIFO without a writer", os.mkfifo
    yield "/dev/zero", link_to("/dev/zero")
    yield "/dev/null", link_to("/dev/null")
    yield "/dev/full", link_to("/dev/full")
    yield "/dev/urandom", link_to("/dev/urandom")
    yield "an endless file of /proc", link_to("/proc/self/pagemap")
    yield "a file of /proc without memory behind it", link_to("/proc/self/mem")
    yield "a link to itself", lambda path: os.symlink(os.path.basename(path), path)
    yield "a link to nothing", link_to("/nonexistent/file")
    yield "a socket", listening
    yield "no permission", closed
    yield "600 MiB of zeros without a block", sparse


def repeated_to(piece, size):
    return (piece * (size // max(1, len(piece)) + 1))[:size]


def with_numbers(seed, text, number):
    """Replaces every number: in text by this one, in binary data each third word of 32 bits by the same bits."""
    if text:
        return re.sub(rb"\d+(\.\d+)?", number.encode(), seed)[:16 << 20]
    try:
        bits = (int(float(number)) & 0xFFFFFFFF).to_bytes(4, "little")
    except (OverflowError, ValueError):
        bits = number.encode()[:4].ljust(4, b"0")
    begin = seed[:65536]  # headers are there
    words = [begin[i:i + 4] for i in range(0, len(begin), 4)]
    return b"".join(bits if i % 3 == len(number) % 3 else word for i, word in enumerate(words)) + seed[65536:]


def cut(seed):
    for size in [0, 1, 2, 3, 4, 7, 8, 15, 16, 100]:
        yield f"cut after {size} bytes", seed[:size]
    for percent in [10, 25, 50, 75, 90]:
        yield f"cut after {percent} %", seed[:len(seed) * percent // 100]
    yield "without its last byte", seed[:-1]
    yield "without its first byte", seed[1:]
    yield "without its first half", seed[len(seed) // 2:]


def rearranged(seed, chance):
    half = len(seed) // 2
    yield "doubled", seed + seed
    yield "ten times", seed * 10
    yield "halves swapped", seed[half:] + seed[:half]
    yield "reversed", seed[::-1]
    lines = seed.split(b"\n")
    chance.shuffle(lines)
    yield "lines shuffled", b"\n".join(lines)
    yield "each line twice", b"".join(line + b"\n" + line + b"\n" for line in seed.split(b"\n"))
    at = chance.randrange(max(1, half))
    yield "a piece removed", seed[:at] + seed[at + 64:]
    yield "a piece doubled", seed[:at + 512] + seed[at:]
    yield "a piece of zeros", seed[:at] + bytes(256) + seed[at + 256:]


def encoded(seed):
    text = seed.decode("latin-1")
    for name in ["utf-16-le", "utf-16-be", "utf-32", "cp500", "utf-7"]:
        marks = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
        yield f"as {name}", marks.get(name, b"") + text[:1 << 20].encode(name)
    yield "with a byte order mark", b"\xef\xbb\xbf" + seed
    yield "with letters of Latin-1", seed.replace(b"a", b"\xe4").replace(b"e", b"\xff")
    yield "with overlong UTF-8", seed.replace(b"a", b"\xc1\xa1")
    yield "with surrogates", seed.replace(b"e", b"\xed\xa0\x80")
    yield "with terminal codes", seed.replace(b"e", b"\x1b[2J\x1b]0;x\x07")
    yield "with text from right to left", seed.replace(b"e", "\u202e\u0301".encode())


def other_line_ends(seed):
    yield "line ends CR LF", seed.replace(b"\n", b"\r\n")
    yield "line ends CR", seed.replace(b"\n", b"\r")
    yield "line ends NEL", seed.replace(b"\n", b"\xc2\x85")
    yield "line ends U+2028", seed.replace(b"\n", "\u2028".encode())
    yield "line ends NUL", seed.replace(b"\n", b"\0")
    yield "without line ends", seed.replace(b"\n", b" ")


def compressed(seed, huge):
    packed = gzip.compress(seed, mtime=0)
    yield "gzip", packed
    yield "gzip twice", gzip.compress(packed, mtime=0)
    yield "gzip, cut", packed[:len(packed) // 2]
    yield "gzip, header only", packed[:10]
    yield "gzip, wrong checksum", packed[:-8] + b"\0\0\0\0" + packed[-4:]
    yield "gzip, damaged", packed[:len(packed) // 2] + b"\xff" * 16 + packed[len(packed) // 2 + 16:]
    yield "gzip, garbage behind it", packed + b"garbage"
    yield "gzip of each half", gzip.compress(seed[:len(seed) // 2], mtime=0) + gzip.compress(seed[len(seed) // 2:], mtime=0)
    zeros = gzip.compress(bytes(1 << 20), mtime=0)
    yield "gzip of 4 GiB of zeros", zeros * (4 << 10)
    yield "gzip of it, then 4 GiB of zeros", packed + zeros * (4 << 10)
    yield "gzip of it, again and again", packed * max(1, min(20000, (huge >> 2) // len(packed)))
    yield "xz", lzma.compress(seed)
    yield "bzip2", bz2.compress(seed)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(zipfile.ZipInfo("file"), seed)
    yield "zip", archive.getvalue()


def nested(seed, text):
    deep = 100_000
    bare = {"lists": b"[" * deep, "closed lists": b"[" * deep + b"]" * deep, "objects": b'{"a":' * deep, "parentheses": b"(" * deep,
            "TOML lists": b"a = " + b"[" * deep, "TOML tables": b"a = " + b"{ a = " * deep, "TOML keys": b"a." * deep + b"a = 1",
            "TOML headers": b"".join(b"[" + b"a." * i + b"a]\n" for i in range(1, 400))}
    for name, content in bare.items():
        yield f"deep {name}", content
    if text:
        for name, deep_value in [("list", b"[" * deep + b"]" * deep), ("string", b'"' + b"\\" * deep + b'"')]:
            yield f"a deep {name} for a number", re.sub(rb"\d+", lambda _: deep_value, seed, count=1)


def with_bytes(seed, chance):
    yield "NUL in front", b"\0" + seed
    yield "NULs at the end", seed + bytes(65536)
    yield "NUL between all bytes", b"\0".join(seed[i:i + 1] for i in range(min(len(seed), 1 << 18)))
    yield "NUL for each space", seed.replace(b" ", b"\0")
    yield "zeros only", bytes(max(len(seed), 4096))
    yield "0xff only", b"\xff" * max(len(seed), 4096)
    for name, magic in MAGICS.items():
        yield f"begins as {name}", magic + seed[len(magic):]
    for flips in [1, 3, 10, 30, 100, 300, 1000]:
        damaged = bytearray(seed)
        for _ in range(flips):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        yield f"{flips} bits flipped", bytes(damaged)
    yield "random bytes", chance.randbytes(max(len(seed), 4096))
    yield "random bytes behind the first 64", seed[:64] + chance.randbytes(max(len(seed), 4096))
    yield "random printable text", bytes(chance.choice(b"0123456789 aez{}[]:,.\"=-\n") for _ in range(65536))


def damaged_headers(seed):
    for at in range(0, min(len(seed) - 4, 160), 4):
        for name, word in [("0xffffffff", b"\xff" * 4), ("0x01000000", b"\0\0\0\1")]:
            yield f"{name} at byte {at}", seed[:at] + word + seed[at + 4:]


def huge_files(seed, text, size):
    if text:
        yield "repeated to a huge file", repeated_to(seed, size)
        yield "one endless line of it", repeated_to(seed.replace(b"\n", b" "), size)
        body, _, last = seed.rpartition(b"}")
        yield "a huge string at the end", body + b', "z": "' + b"a" * size + b'"}' + last
        yield "a huge list at the end", body + b', "z": [' + repeated_to(b"0,", size // 2 * 2) + b"0]}" + last
        yield "a huge number of keys", b"{" + b",".join(b'"%d":0' % i for i in range(size // 12)) + b"}"
        yield "huge lists of empty lists", b"[" + repeated_to(b"[],", size // 3 * 3) + b"[]]"
        yield "huge lists of empty objects", b"[" + repeated_to(b"{},", size // 3 * 3) + b"{}]"
        yield "many TOML tables", b"".join(b"[[component]]\nname = \"n%d\"\n" % i for i in range(size // 30))
        yield "an open string", b'{"a": "' + b"a" * size
        yield "many columns", repeated_to(b"memory.used [MiB], ", size) + b"\n" + repeated_to(b"1 MiB, ", size)
    yield "one endless line", b"a" * size
    yield "empty lines only", b"\n" * size
    yield "followed by zeros", seed + bytes(size)
    yield "followed by random bytes", seed + random.Random(7).randbytes(size)


def variants(seed, text, huge):
    chance = random.Random(len(seed))
    yield from special_files()
    yield from cut(seed)
    yield from rearranged(seed, chance)
    yield from encoded(seed)
    yield from other_line_ends(seed)
    yield from compressed(seed, huge)
    for number in NUMBERS:
        yield f"numbers {number[:20]}", with_numbers(seed, text, number)
    if not text:
        yield from damaged_headers(seed)
    yield from nested(seed, text)
    yield from with_bytes(seed, chance)
    yield from huge_files(seed, text, huge)
