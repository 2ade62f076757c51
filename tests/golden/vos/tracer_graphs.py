"""Writes tracer graphs: models of the contract headroom.vos=1 that compute nothing but a record of what they were given,
so that a test reads from the logits which frames, slots and ages the memory bank has shown. Uses the standard library only.

    tests/golden/vos/tracer_graphs.py [FOLDER]

Sizes: S=64, C=8, D=2, h=4, T=16; logits have 16 × 16 pixels. The picture: the red plane is the number of the frame in all
pixels, the green plane a code. Logits of token t, by pixel: 2 + 1000 t +
  0..15    frame                                  16..31   code
  32 + 8q + s  of the memories in slot s: the sum of quantity q: 0 frame + 1, 1 count, 2 binarize, 3 pixels <= 0 of the mask,
               4 object score above 0, 5 token of the mask, 6 object
  88 + a   sum of frame + 1 of the pointers of age a/15, a = 0..31
  120..127 of all pointers: sum of object, count, sum of ages, places, (of memories) places, sum of visible, of token,
           of frame + 1
  128..    object, number of points, sum of labels, first label, first x, first y, no_memory, mask_on, mask_input[0][0],
           sum of x, sum of y
  255      below 0 (a hole) if the code is 200
The object is the first point's x, or mask_input[0][0]; later it is the mean of the pointers. Its score is -5 in frames whose
code is the object, else 5. The best token is 1 + frame mod 3; the score of token 0 is higher than all."""
import json
import pathlib
import struct
import sys

FLOAT, UINT8, INT32, INT64, HALF = 1, 2, 6, 7, 10
SIDE, CHANNELS, DEPTH, H = 64, 8, 2, 4
TOKENS, QUARTER = H * H, SIDE // 4


def varint(number):
    number &= (1 << 64) - 1
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


class Graph:
    """An ONNX graph that is written node by node. Methods return the name of a node's output."""

    def __init__(self, half):
        self.half, self.nodes, self.weights, self.inputs, self.outputs, self.count = half, b"", b"", b"", b"", 0

    def value_info(self, name, kind, dims):
        shape = b"".join(field(1, field(2, dim) if isinstance(dim, str) else field(1, dim)) for dim in dims)
        return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))

    def input(self, name, dims, kind=FLOAT, may_be_half=False):
        """The input as floats."""
        if may_be_half and self.half:
            kind = HALF
        self.inputs += field(11, self.value_info(name, kind, dims))
        return name if kind == FLOAT else self.cast(name)

    def output(self, name, value, dims, may_be_half=False):
        kind = HALF if may_be_half and self.half else FLOAT
        self.nodes += self.node_bytes("Cast", [value], name, {"to": kind})
        self.outputs += field(12, self.value_info(name, kind, dims))

    def node_bytes(self, op, inputs, output, attributes):
        body = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op)
        for name, value in attributes.items():
            body += field(5, field(1, name) + field(3, value) + field(20, 2))  # an integer
        return field(1, body)

    def node(self, op, *inputs, **attributes):
        self.count += 1
        output = f"v{self.count}"
        self.nodes += self.node_bytes(op, inputs, output, attributes)
        return output

    def constant(self, values, dims, kind=FLOAT):
        self.count += 1
        name = f"c{self.count}"
        raw = struct.pack(f"<{len(values)}{'f' if kind == FLOAT else 'q'}", *values)
        self.weights += field(5, b"".join(field(1, dim) for dim in dims) + field(2, kind) + field(8, name) + field(9, raw))
        return name

    def number(self, value):
        return self.constant([value], [])

    def integers(self, *values):
        return self.constant(values, [len(values)], INT64)

    def cast(self, value):
        return self.node("Cast", value, to=FLOAT)

    def pick(self, value, axis, index):
        """One index of an axis, which vanishes."""
        return self.node("Gather", value, self.constant([index], [], INT64), axis=axis)

    def reshape(self, value, *dims):
        return self.node("Reshape", value, self.integers(*dims))

    def sum(self, value, axis):
        return self.node("ReduceSum", value, self.integers(axis), keepdims=0)

    def add(self, a, b):
        return self.node("Add", a, b)

    def times(self, a, b):
        return self.node("Mul", a, b)

    def equal(self, a, b):
        return self.cast(self.node("Equal", a, b))

    def above(self, a, limit):
        return self.cast(self.node("Greater", a, self.number(limit)))

    def size_of(self, value, axis):
        """Size of an axis, as a float scalar."""
        return self.cast(self.pick(self.node("Shape", value), 0, axis))

    def columns(self, *values):
        """[B] each -> [B, n]."""
        return self.node("Concat", *(self.reshape(value, -1, 1) for value in values), axis=1)

    def like(self, scalar, column):
        """A scalar as [B], as long as `column`."""
        return self.add(self.times(column, self.number(0)), scalar)

    def write(self, path, manifest):
        graph = self.nodes + field(2, "tracer") + self.weights + self.inputs + self.outputs
        metadata = field(14, field(1, "headroom.vos.manifest") + field(2, json.dumps(manifest)))
        path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)) + metadata)


def image_encoder(half, pixels=False):
    g = Graph(half)
    image = g.input("image", [1, 3, SIDE, SIDE], UINT8 if pixels else FLOAT, may_be_half=not pixels)
    level = g.times(g.pick(g.pick(image, 3, 0), 2, 0), g.number(1 if pixels else 255))  # [1,3]
    level = g.node("Round", level)
    for name, channels, side in (("image_embed", CHANNELS, H), ("high_res_0", 1, 4 * H), ("high_res_1", 2, 2 * H)):
        parts = [g.pick(level, 1, i) if i < 2 else g.like(g.number(0), g.pick(level, 1, 0)) for i in range(channels)]
        value = g.reshape(g.columns(*parts), 1, channels, 1, 1)
        value = g.add(value, g.constant([0.0] * side * side, [1, 1, side, side]))
        g.output(name, value, [1, channels, side, side], may_be_half=True)
    return g


def mask_decoder(half, batch, points):
    g = Graph(half)
    embed = g.input("image_embed", [batch, CHANNELS, H, H], may_be_half=True)
    for name, channels, side in (("high_res_0", 1, 4 * H), ("high_res_1", 2, 2 * H)):
        g.input(name, [1, channels, side, side], may_be_half=True)
    coords = g.input("point_coords", [batch, points, 2])
    labels = g.input("point_labels", [batch, points], INT32)
    mask_input = g.input("mask_input", [batch, 1, QUARTER, QUARTER])
    mask_on = g.reshape(g.input("mask_on", [batch, 1, 1, 1]), -1)
    no_memory = g.reshape(g.input("no_memory", [batch, 1, 1, 1]), -1)
    flat = g.reshape(embed, -1, CHANNELS * H * H)
    frame, code = g.pick(flat, 1, 0), g.pick(flat, 1, H * H)
    first = g.pick(coords, 1, 0)
    x, y = g.pick(first, 1, 0), g.pick(first, 1, 1)
    corner = g.pick(g.reshape(mask_input, -1, QUARTER * QUARTER), 1, 0)
    pointers = g.node("Max", g.pick(flat, 1, 121), g.number(1))
    tracked = g.node("Div", g.pick(flat, 1, 120), pointers)
    is_prompt = g.add(mask_on, no_memory)
    of_prompt = g.add(g.times(mask_on, corner), g.times(no_memory, x))
    thing = g.add(of_prompt, g.times(g.node("Sub", g.number(1), is_prompt), tracked))
    score = g.node("Sub", g.number(5), g.times(g.number(10), g.equal(code, thing)))
    count = g.like(g.size_of(coords, 1), x)
    sums = g.sum(coords, 1)
    extra = g.columns(thing, count, g.sum(labels, 1), g.pick(labels, 1, 0), x, y, no_memory, mask_on, corner,
                      g.pick(sums, 1, 0), g.pick(sums, 1, 1))
    rest = QUARTER * QUARTER - CHANNELS * H * H - 11 - 1
    zeros = g.add(g.times(g.reshape(x, -1, 1), g.number(0)), g.constant([0.0] * rest, [1, rest]))
    hole = g.times(g.equal(code, g.number(200)), g.number(-4000))
    payload = g.node("Concat", flat, extra, zeros, g.reshape(hole, -1, 1), axis=1)
    payload = g.reshape(g.add(payload, g.number(2)), -1, 1, QUARTER, QUARTER)
    g.output("masks", g.add(payload, g.constant([0.0, 1000.0, 2000.0, 3000.0], [1, 4, 1, 1])),
             [batch, 4, QUARTER, QUARTER])
    best = g.node("Mod", frame, g.number(3), fmod=1)
    g.output("ious", g.columns(g.like(g.number(2), x), *(g.equal(best, g.number(i)) for i in range(3))), [batch, 4])
    tokens = []
    nothing = g.like(g.number(0), x)
    for token in range(4):
        values = [g.add(frame, g.number(1)), thing, g.like(g.number(token), x), g.above(score, 0)]
        tokens.append(g.reshape(g.columns(*values, *[nothing] * (CHANNELS - 4)), -1, 1, CHANNELS))
    g.output("obj_ptrs", g.node("Concat", *tokens, axis=1), [batch, 4, CHANNELS], may_be_half=True)
    g.output("object_score", g.reshape(score, -1, 1), [batch, 1])
    return g


def memory_attention(half, batch, memories, pointers, valid):
    g = Graph(half)
    embed = g.input("image_embed", [1, CHANNELS, H, H], may_be_half=True)
    features = g.input("mem_features", [batch, memories, TOKENS, DEPTH], may_be_half=True)
    slot = g.input("mem_slot", [batch, memories], INT64)
    ptrs = g.input("obj_ptrs", [batch, pointers, CHANNELS], may_be_half=True)
    age = g.input("ptr_age", [batch, pointers])
    one = [g.add(g.times(x, g.number(0)), g.number(1)) for x in (slot, age)]
    if valid:
        one = [g.input("mem_valid", [batch, memories]), g.input("ptr_valid", [batch, pointers])]
    of_memory = g.pick(features, 3, 0)  # [B,M,T]
    in_slot = g.equal(g.reshape(slot, 0, -1, 1), g.constant(list(range(8)), [1, 1, 8]))
    in_slot = g.times(in_slot, g.reshape(one[0], 0, -1, 1))
    tables = []
    for q in range(7):
        quantity = one[0] if q == 1 else g.pick(of_memory, 2, q)
        tables.append(g.sum(g.times(in_slot, g.reshape(quantity, 0, -1, 1)), 1))
    steps = g.node("Round", g.times(age, g.number(15)))
    of_age = g.equal(g.reshape(steps, 0, -1, 1), g.constant(list(range(32)), [1, 1, 32]))
    of_age = g.times(of_age, g.reshape(one[1], 0, -1, 1))
    frames = g.pick(ptrs, 2, 0)
    tables.append(g.sum(g.times(of_age, g.reshape(frames, 0, -1, 1)), 1))
    count = g.sum(one[1], 1)
    of_ptrs = lambda value: g.sum(g.times(value, one[1]), 1)
    tables.append(g.columns(of_ptrs(g.pick(ptrs, 2, 1)), count, of_ptrs(age), g.like(g.size_of(age, 1), count),
                            g.like(g.size_of(slot, 1), count), of_ptrs(g.pick(ptrs, 2, 3)),
                            of_ptrs(g.pick(ptrs, 2, 2)), of_ptrs(frames)))
    table = g.reshape(g.node("Concat", *tables, axis=1), -1, CHANNELS - 2, H, H)
    image = g.node("Slice", embed, g.integers(0), g.integers(2), g.integers(1))
    image = g.add(image, g.times(g.reshape(count, -1, 1, 1, 1), g.number(0)))
    g.output("fused", g.node("Concat", image, table, axis=1), [batch, CHANNELS, H, H], may_be_half=True)
    return g


def memory_encoder(half, batch):
    g = Graph(half)
    embed = g.input("image_embed", [1, CHANNELS, H, H], may_be_half=True)
    logits = g.reshape(g.input("mask_logits", [batch, 1, QUARTER, QUARTER]), -1, QUARTER * QUARTER)
    binarize = g.reshape(g.input("binarize", [batch, 1, 1, 1]), -1)
    score = g.reshape(g.input("object_score", [batch, 1]), -1)
    frame = g.pick(g.reshape(embed, 1, -1), 1, 0)
    number = g.node("Max", g.pick(logits, 1, 128), g.number(0))
    token = g.node("Floor", g.node("Div", number, g.number(1000)))
    thing = g.node("Max", g.node("Sub", g.node("Sub", number, g.times(token, g.number(1000))), g.number(2)), g.number(0))
    holes = g.sum(g.node("Sub", g.number(1), g.above(logits, 0)), 1)
    nothing = g.like(g.number(0), score)
    values = [g.like(g.add(frame, g.number(1)), score), nothing, binarize, holes, g.above(score, 0), token, thing]
    first = g.reshape(g.columns(*values, *[nothing] * (TOKENS - 7)), -1, TOKENS, 1)
    features = g.node("Concat", first, g.times(first, g.number(0)), axis=2)
    g.output("mem_features", features, [batch, TOKENS, DEPTH], may_be_half=True)
    return g


def write(folder, family="sam2.1", half=False, batch="B", points="P", memories="M", pointers="K", valid=False,
          ptr_tpos=True, file=True, pixels=False):
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"headroom.vos": 1, "family": family, "size": SIDE, "mean": [0, 0, 0], "std": [1, 1, 1], "num_maskmem": 7,
                "max_obj_ptrs": 16, "multimask_min_points": 0, "multimask_max_points": 1,
                "stability": {"delta": 0.05, "threshold": 0.98}, "ptr_tpos": ptr_tpos,
                "mask_downsample": [1] + [0] * 15 + [40]}
    image_encoder(half, pixels).write(folder / "image_encoder.onnx", manifest)
    mask_decoder(half, batch, points).write(folder / "mask_decoder.onnx", manifest)
    memory_attention(half, batch, memories, pointers, valid).write(folder / "memory_attention.onnx", manifest)
    memory_encoder(half, batch).write(folder / "memory_encoder.onnx", manifest)
    if file:
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def write_family_a(folder):
    """Graphs with the interface of family A. Attention fails unless memory_pos_embed has a row for each token."""
    folder.mkdir(parents=True, exist_ok=True)
    g = Graph(False)
    level = g.pick(g.pick(g.pick(g.input("image", [1, 3, SIDE, SIDE]), 3, 0), 2, 0), 1, 0)  # [1]
    for name, dims in (("pix_feat", [1, CHANNELS, H, H]), ("high_res_feat0", [1, 1, 4 * H, 4 * H]),
                       ("high_res_feat1", [1, 2, 2 * H, 2 * H]), ("vision_feats", [TOKENS, 1, CHANNELS]),
                       ("vision_pos_embed", [TOKENS, 1, CHANNELS])):
        size = 1
        for dim in dims:
            size *= dim
        g.output(name, g.reshape(g.add(g.constant([0.0] * size, [size]), level), *dims), dims)
    g.write(folder / "image_encoder.onnx", {})

    g = Graph(False)
    feat = g.input("current_vision_feat", [TOKENS, 1, CHANNELS])
    pos = g.input("current_vision_pos_embed", [TOKENS, 1, CHANNELS])
    memories = g.reshape(g.input("memory_1", ["m", DEPTH, H, H]), -1, 1, DEPTH)
    pointers = g.reshape(g.input("memory_0", ["n", CHANNELS]), -1, 1, DEPTH)
    # An Add would stretch a single row, so the rows are compared with an offset.
    padding = g.constant([0.0] * DEPTH, [1, 1, DEPTH])
    tokens = g.node("Concat", memories, pointers, padding, axis=0)
    embed = g.node("Concat", g.input("memory_pos_embed", ["rows", 1, DEPTH]), padding, axis=0)
    total = g.node("ReduceMean", g.add(tokens, embed), keepdims=0)
    g.output("image_embed", g.reshape(g.add(g.add(feat, pos), total), 1, CHANNELS, H, H), [1, CHANNELS, H, H])
    g.write(folder / "memory_attention.onnx", {})

    g = Graph(False)
    coords = g.input("point_coords", ["labels", "points", 2])
    g.input("point_labels", ["labels", "points"])
    g.input("frame_size", [2], INT32)
    image = g.input("image_embed", [1, CHANNELS, H, H])
    for name, channels, side in (("high_res_feats_0", 1, 4 * H), ("high_res_feats_1", 2, 2 * H)):
        g.input(name, [1, channels, side, side])
    mean = g.add(g.node("ReduceMean", image, keepdims=0), g.times(g.node("ReduceMean", coords, keepdims=0), g.number(0)))
    for name, dims in (("obj_ptr", [1, CHANNELS]), ("mask_for_mem", [1, 1, SIDE, SIDE]),
                       ("pred_mask", [1, 1, QUARTER, QUARTER])):
        size = 1
        for dim in dims:
            size *= dim
        g.output(name, g.reshape(g.add(g.constant([0.0] * size, [size]), mean), *dims), dims)
    g.write(folder / "image_decoder.onnx", {})

    g = Graph(False)
    mask = g.input("mask_for_mem", [1, 1, SIDE, SIDE])
    pix = g.input("pix_feat", [1, CHANNELS, H, H])
    mean = g.add(g.node("ReduceMean", mask, keepdims=0), g.node("ReduceMean", pix, keepdims=0))
    zeros = g.constant([0.0] * DEPTH * TOKENS, [1, DEPTH, H, H])
    g.output("maskmem_features", g.add(zeros, mean), [1, DEPTH, H, H])
    g.output("maskmem_pos_enc", g.reshape(g.add(zeros, mean), TOKENS, 1, DEPTH), [TOKENS, 1, DEPTH])
    g.output("temporal_code", g.constant([0.0] * 7 * DEPTH, [7, 1, 1, DEPTH]), [7, 1, 1, DEPTH])
    g.write(folder / "memory_encoder.onnx", {})


def write_image_only(folder):
    """Graphs with the interface of samexporter's files: encoder and decoder of single pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    shapes = (("high_res_feats_0", [1, 1, 4 * H, 4 * H]), ("high_res_feats_1", [1, 2, 2 * H, 2 * H]),
              ("image_embed", [1, CHANNELS, H, H]))

    def output(g, name, dims, value):
        size = 1
        for dim in dims:
            size *= dim
        g.output(name, g.reshape(g.add(g.constant([0.0] * size, [size]), value), *dims), dims)

    g = Graph(False)
    level = g.pick(g.pick(g.pick(g.input("image", [1, 3, SIDE, SIDE]), 3, 0), 2, 0), 1, 0)
    for name, dims in shapes:
        output(g, name, dims, level)
    g.write(folder / "encoder.onnx", {})

    g = Graph(False)
    for name, dims in shapes[:2]:
        g.input(name, dims)
    mean = g.node("ReduceMean", g.input("image_embed", shapes[2][1]), keepdims=0)
    for name, dims in (("point_coords", ["labels", "points", 2]), ("point_labels", ["labels", "points"]),
                       ("mask_input", ["labels", 1, QUARTER, QUARTER]), ("has_mask_input", ["labels"])):
        g.input(name, dims)
    output(g, "masks", [1, 4, QUARTER, QUARTER], mean)
    output(g, "iou_predictions", [1, 4], mean)
    g.write(folder / "decoder.onnx", {})


if __name__ == "__main__":
    to = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "tracer"
    write(to / "dynamic", file=False)
    write(to / "fixed", batch=2, points=3, memories=8, pointers=17, valid=True)
    write(to / "half", family="edgetam", half=True, ptr_tpos=False)
    write(to / "pixels", family="edgetam", half=True, ptr_tpos=False, pixels=True)
    write_family_a(to / "family_a")
    write_image_only(to / "image_only")
