#!/usr/bin/env python3
"""Writes pickles of random plain data with Python's own pickle, in protocols 2 to 5, each with a text of its content.

    python_pickles.py FOLDER COUNT

Writes N.pickle and N.text: tests/unit/snapshot/pickle_reader_test.cpp must make the same text from the pickle.
"""
import pathlib
import pickle
import random
import struct
import sys


def written(value):
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return str(value) if -2**63 <= value < 2**63 else str(value - 2**64) if 0 <= value < 2**64 else "huge"
    if isinstance(value, float):
        return "f" + struct.pack(">d", value).hex()
    if isinstance(value, str):
        return "t" + value.encode().hex()
    if isinstance(value, bytes):
        return "b" + value.hex()
    if isinstance(value, dict):
        return "{" + ",".join(f"{written(key)}:{written(item)}" for key, item in value.items()) + "}"
    inside = ",".join(written(item) for item in value)
    return f"[{inside}]" if isinstance(value, list) else f"({inside})"


class Maker:
    def __init__(self, seed, with_bytes):
        self.random = random.Random(seed)
        self.with_bytes = with_bytes  # protocol 2 writes bytes as a call of a function
        self.made = []

    def scalar(self):
        r = self.random
        kinds = [
            lambda: None, lambda: True, lambda: False,
            lambda: r.randrange(-300, 300), lambda: r.randrange(-2**16, 2**17), lambda: r.randrange(-2**32, 2**33),
            lambda: r.choice([1, -1]) * 2**r.randrange(0, 70) + r.randrange(-1, 2),
            lambda: r.uniform(-1e9, 1e9), lambda: r.choice([0.0, -0.0, 1e308, 5e-324]),
            lambda: "".join(r.choice("ab'\"\\\n\r\t\0é→𝄞 ") for _ in range(r.randrange(0, 12))), lambda: "k" * r.randrange(0, 600),
        ]
        if self.with_bytes:
            kinds.append(lambda: r.randbytes(r.randrange(0, 400)))
        return r.choice(kinds)()

    def value(self, depth):
        r = self.random
        if self.made and r.random() < 0.2:
            return r.choice(self.made)  # the same object again: through the memo
        kind = r.randrange(0, 6) if depth > 0 else 0
        if kind < 3:
            made = self.scalar()
        elif kind == 3:
            made = [self.value(depth - 1) for _ in range(r.choice([0, 1, 2, 5, 1003]) if depth == 1 else r.randrange(0, 5))]
        elif kind == 4:
            made = tuple(self.value(depth - 1) for _ in range(r.randrange(0, 6)))
        else:
            keys = [self.scalar() for _ in range(r.choice([0, 1, 2, 5, 1003]) if depth == 1 else r.randrange(0, 5))]
            made = {key: self.value(depth - 1) for key in keys}
        self.made.append(made)
        return made


def main():
    folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    for number in range(count):
        protocol = 2 + number % (pickle.HIGHEST_PROTOCOL - 1)
        data = Maker(number, protocol >= 3).value(5)
        (folder / f"{number}.pickle").write_bytes(pickle.dumps(data, protocol=protocol))
        (folder / f"{number}.text").write_text(written(data))


if __name__ == "__main__":
    main()
