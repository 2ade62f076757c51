"""Writes an ONNX model that consists only of weights: a chain of matrix products, written without any library. The weights are stored as
in PyTorch's Linear, and a node transposes each. ONNX Runtime does that once, while it loads the model; then both forms are in
memory.

    benchmarks/weighty_onnx.py FILE [LAYERS] [SIDE]

LAYERS (24) matrices of SIDE × SIDE (1024) floats: 4 MiB each."""
import struct
import sys


def varint(number):
    text = b""
    while True:
        low, number = number & 0x7F, number >> 7
        text += bytes([low | (0x80 if number else 0)])
        if not number:
            return text


def field(number, value):
    """A field of a protobuf message: an integer, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor_type(shape):
    dims = b"".join(field(1, field(1, side)) for side in shape)
    return field(1, field(1, 1) + field(2, dims))  # float


def value_info(name, shape):
    return field(1, name) + field(2, tensor_type(shape))


def write(path, layers=24, side=1024):
    graph = b""
    for i in range(layers):
        graph += field(1, field(1, f"w{i}") + field(2, f"t{i}") + field(3, f"transpose{i}") + field(4, "Transpose"))
        graph += field(1, field(1, f"x{i}") + field(1, f"t{i}") + field(2, f"x{i + 1}") + field(3, f"product{i}")
                       + field(4, "MatMul"))
    graph += field(2, "weighty")
    for i in range(layers):
        row = struct.pack(f"<{side}f", *[((i * 31 + j * 7) % 13 - 6) / side for j in range(side)])
        graph += field(5, field(1, side) + field(1, side) + field(2, 1) + field(8, f"w{i}") + field(9, row * side))
    graph += field(11, value_info("x0", [1, side])) + field(12, value_info(f"x{layers}", [1, side]))
    model = field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))
    with open(path, "wb") as file:
        file.write(model)


if __name__ == "__main__":
    write(sys.argv[1], *[int(word) for word in sys.argv[2:]])
