#!/usr/bin/env python3
"""Makes the TorchScript modules for the tests of the LibTorch plug-in, and PyTorch's own results for each.

    torchscript_models.py FOLDER

NAME.pt is the module. NAME.expected has the float32 values of its outputs, in order, for an input of
filled(shape): element i is (i * 7919 % 251) / 251. The tests make the same input.
"""
import io
import json
import pathlib
import sys
import zipfile

import torch
from torch import nn


def filled(shape):
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 7919 % 251).float() / 251).reshape(shape)


class Net(nn.Module):
    """Convolutions, a normalisation with non-trivial statistics, a product: all that freezing folds and fuses."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=2)
        self.last = nn.Linear(16, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.second(x))
        return self.last(x.mean((2, 3)))


class Dictionary(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)

    def forward(self, x: torch.Tensor):
        y = self.conv(x)
        return {"features": y, "mean": y.mean()}


class Nested(nn.Module):
    """Returns a tuple with a list, and a value that is not a tensor."""

    def forward(self, x: torch.Tensor):
        return x + 1, [x * 2, x.sum()], 3


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 8)

    def forward(self, tokens: torch.Tensor):
        return self.embedding(tokens)


class Two(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor):
        return a + b


class Reading(nn.Module):
    """Reads a value on the host, which waits for a GPU."""

    def forward(self, x: torch.Tensor):
        return x * float(x.sum().item())


class Number(nn.Module):
    def forward(self, x: torch.Tensor, count: int):
        return x * count


class Counting(nn.Module):
    """Changes an attribute during a run, so it cannot be frozen completely."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x: torch.Tensor):
        self.runs += 1
        return self.conv(x)


class OnlyExport(nn.Module):
    @torch.jit.export
    def infer(self, x: torch.Tensor):
        return x


class Fixed(nn.Module):
    """Accepts only one picture size."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.last = nn.Linear(4 * 32 * 32, 5)

    def forward(self, x: torch.Tensor):
        return self.last(self.conv(x).flatten(1))


class Large(nn.Module):
    """Allocates 512 MiB during a run, from a picture of 64 x 64."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 1, 1)

    def forward(self, x: torch.Tensor):
        y = self.conv(x)
        return (y.repeat(1, 16384, 1, 1) + 1).mean((1, 2, 3))


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value.float().flatten()]
    if isinstance(value, dict):
        return [part for each in value.values() for part in flat(each)]
    if isinstance(value, (list, tuple)):
        return [part for each in value for part in flat(each)]
    return []


def save(folder, name, module, given=None, extra=None):
    module.save(str(folder / f"{name}.pt"), _extra_files=extra or {})
    if given is not None:
        with torch.inference_mode():
            read = torch.jit.load(str(folder / f"{name}.pt"))
            values = torch.cat(flat(read(given)))
        (folder / f"{name}.expected").write_bytes(values.numpy().tobytes())


def with_unknown_operator(source, target):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith(".py"):
                data = data.replace(b"torch.add(a, b)", b"ops.nowhere.blend(a, b)")
            new.writestr(entry, data)


def with_traced_shape(source, target, shape):
    """Adds the input of the trace without its data, as torch.jit.trace of PyTorch 2 saves it."""
    buffer = io.BytesIO()
    torch.save({"forward": [torch.zeros(shape)]}, buffer)
    with zipfile.ZipFile(buffer) as inputs:
        pickle = next(inputs.read(entry) for entry in inputs.infolist() if entry.filename.endswith("data.pkl"))
    # Python adds a single item of a list or dict with opcodes that LibTorch's own reader does not know.
    # LibTorch reads the opcodes for several items.
    for begin in (b"}", b"]"):
        at = pickle.index(begin) + 3  # after the number under which it is stored
        pickle = pickle[:at] + b"(" + pickle[at:]
    pickle = pickle.replace(b"as.", b"eu.")
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            new.writestr(entry, old.read(entry))
        root = old.infolist()[0].filename.split("/")[0]
        new.writestr(f"{root}/traced_inputs.pkl", pickle)
        new.writestr(f"{root}/traced_inputs/0", b"")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(11)
    picture = filled((1, 3, 64, 64))
    net = Net().eval()
    with torch.no_grad():
        net.norm.running_mean.uniform_(-1, 1)
        net.norm.running_var.uniform_(0.5, 2)
    script = torch.jit.script(net)
    save(folder, "script", script, picture)
    save(folder, "trace", torch.jit.trace(net, picture), picture)
    with_traced_shape(folder / "trace.pt", folder / "traced_shape.pt", (2, 3, 48, 80))
    save(folder, "frozen", torch.jit.freeze(script), picture)
    save(folder, "in_training", torch.jit.script(net.train()))
    net.eval()
    config = {"shape": [1, 3, 64, 64], "stride": 32, "names": ["cat", "dog"]}
    save(folder, "yolov5_config", torch.jit.trace(net, picture), picture, {"config.txt": json.dumps(config)})
    config = {"task": "classify", "batch": 1, "imgsz": [64, 96], "names": {str(i): f"class {i}" for i in range(10)}}
    save(folder, "ultralytics_config", torch.jit.trace(net, picture), filled((1, 3, 64, 96)), {"config.txt": json.dumps(config)})
    save(folder, "dictionary", torch.jit.script(Dictionary().eval()), filled((1, 1, 64, 64)))
    save(folder, "nested", torch.jit.script(Nested()), picture)
    save(folder, "tokens", torch.jit.script(Tokens()), torch.arange(16).reshape(1, 16) % 10)
    save(folder, "counting", torch.jit.script(Counting().eval()), picture)
    save(folder, "fixed", torch.jit.script(Fixed().eval()))
    save(folder, "large", torch.jit.script(Large().eval()))
    for name, module in {"two": Two(), "number": Number(), "no_forward": OnlyExport()}.items():
        save(folder, name, torch.jit.script(module))
    inputs = [{"name": "a", "type": "float32", "dims": [-1, 3]}, {"name": "b", "type": "int64", "dims": [-1, 3]}]
    save(folder, "two_recorded", torch.jit.script(Two()),
         extra={"headroom.inputs.json": json.dumps(inputs), "headroom.vos.manifest": "{}"})
    save(folder, "reading", torch.jit.script(Reading()), extra={"headroom.inputs.json": json.dumps(inputs[:1])})
    save(folder, "one_recorded", torch.jit.script(Two()), extra={"headroom.inputs.json": json.dumps(inputs[:1])})
    with_unknown_operator(folder / "two.pt", folder / "unknown_operator.pt")
    torch.save(net.state_dict(), folder / "weights.pt")
    torch.save(net.state_dict(), folder / "old_weights.pt", _use_new_zipfile_serialization=False)
    whole = (folder / "script.pt").read_bytes()
    (folder / "cut.pt").write_bytes(whole[: len(whole) * 2 // 3])
    # The ZIP directory is complete, but the pickle is truncated.
    buffer = io.BytesIO(whole)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(folder / "damaged.pt", "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            new.writestr(entry, data[:10] if entry.filename.endswith("data.pkl") else data)
    (folder / "made").write_text("")


if __name__ == "__main__":
    main()
