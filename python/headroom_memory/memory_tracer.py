"""Memory of a PyTorch model by layer.

    from headroom_memory import MemoryTracer

    tracer = MemoryTracer()
    with tracer.trace(model):
        output = model(input_tensor)
    tracer.print_summary()

It uses libheadroom_memory_tracer.so (library.py finds it), which must be built with the LibTorch of the imported torch.
"""
import contextlib
import ctypes
import json
import os
import threading
import warnings
from numbers import Integral
from dataclasses import dataclass
from typing import Dict, List, Optional

import torch

from . import library as tracer_library


@dataclass
class LayerMemoryStats:
    layer_name: str
    peak_allocated: int  # most bytes allocated on the whole device while the layer ran
    peak_reserved: int  # most bytes reserved by the allocator on the whole device while the layer ran
    total_allocations: int  # in the layer itself, without inner layers
    total_deallocations: int
    avg_fragmentation: float  # 0 to 1
    duration_ms: float  # sum of all its calls
    # Additional fields:
    calls: int = 0
    allocated_bytes: int = 0  # total, in the layer itself
    live_bytes: int = 0  # part of these that is not released yet
    at_peak_bytes: int = 0  # part of these that was live at the device's peak


@dataclass
class MemoryEvent:
    timestamp: float  # seconds since the first trace began
    event_type: str  # 'alloc', 'free', 'snapshot', 'layer_enter', 'layer_exit'
    size_bytes: int
    layer_name: Optional[str]
    allocated_bytes: int
    reserved_bytes: int
    fragmentation_ratio: float


def _load():
    path = tracer_library.find()
    try:
        # PyDLL: the functions are called with the GIL held.
        library = ctypes.PyDLL(path)
    except OSError as error:
        raise ImportError(
            f"cannot load {path} ({error}): build it with this torch {torch.__version__}: `headroom build-plugin libtorch`, or from "
            "Headroom's sources cmake -DHEADROOM_LIBTORCH_DIR=<folder of torch>"
        ) from None

    def declare(name, result, *arguments):
        function = getattr(library, "headroom_memory_tracer_" + name)
        function.restype, function.argtypes = result, arguments

    handle, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    declare("error", text)
    declare("has_cuda", number)
    declare("free", None, ctypes.c_void_p)
    declare("new", handle, ctypes.c_uint64, text, number, text)
    declare("delete", None, handle)
    declare("root", ctypes.c_uint32, handle, text, text)
    declare("layer", ctypes.c_uint32, handle, text, ctypes.c_uint32)
    declare("module", ctypes.c_uint32, handle, ctypes.c_void_p, ctypes.c_uint32)
    declare("begin", number, handle, ctypes.POINTER(ctypes.c_int64), ctypes.c_uint64)
    declare("end", None, handle)
    declare("hook", number, ctypes.py_object, text, number)
    declare("unhook", None, ctypes.py_object, text)
    declare("stats", ctypes.c_void_p, handle, text)
    declare("events", ctypes.c_void_p, handle)
    declare("summary", ctypes.c_void_p, handle)
    declare("export_flame_graph", number, handle, text)
    declare("export_timeline", number, handle, text)
    return library


_library = _load()


def _call(name, *arguments):
    return getattr(_library, "headroom_memory_tracer_" + name)(*arguments)


def _bytes_of(text):
    return os.fsencode(text) if not isinstance(text, bytes) else text


def _name_bytes(name):
    return str(name).encode("utf-8", "replace").replace(b"\0", b"?")


def _text(pointer):
    if not pointer:
        raise ValueError(_call("error").decode("utf-8", "replace"))
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        _call("free", pointer)


# Kinds of stand-ins; see src/memory_tracer/python_interface.cpp.
_MODULE_CALL, _BACKWARD, _OPTIMIZER_STEP = 0, 1, 2


def _subclasses(base):
    for subclass in base.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


class _Hooks:
    """The functions that are replaced while at least one trace is open."""

    def __init__(self):
        self._lock = threading.Lock()
        self._users = 0
        self._hooked = []

    def acquire(self):
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._hook(torch.nn.Module, "__call__", _MODULE_CALL)
                self._hook(torch.autograd, "backward", _BACKWARD)
                self._hook(torch.autograd, "grad", _BACKWARD)
            # A nested trace may be the first to see an optimizer class.
            for optimizer in set(_subclasses(torch.optim.Optimizer)):
                if "step" in vars(optimizer) and all(owner is not optimizer for owner, _, _ in self._hooked):
                    self._hook(optimizer, "step", _OPTIMIZER_STEP)

    def release(self):
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
            for owner, name, original in reversed(self._hooked):
                stand_in = vars(owner).get(name)
                _call("unhook", owner, name.encode())
                if stand_in is vars(owner).get(name) and stand_in is not original and name == "step":
                    _unwrap(owner, original)
            self._hooked.clear()

    def _hook(self, owner, name, what):
        # Remove a stale stand-in that other code put back after its trace ended: torch.fx does that in another thread.
        _call("unhook", owner, name.encode())
        original = vars(owner)[name]
        if _call("hook", owner, name.encode(), what) == 0:
            self._hooked.append((owner, name, original))


def _unwrap(optimizer, original):
    """If the first optimizer of its class was created during the trace, PyTorch has wrapped the stand-in into its profiler
    function. This makes PyTorch wrap the original instead."""
    optimizer.step = original
    instance = object.__new__(optimizer)
    (getattr(instance, "_patch_step_function", None) or instance._hook_for_profile)()


_hooks = _Hooks()


def _weights_of(model):
    """Address, bytes and device of each storage of the parameters and buffers."""
    seen, numbers = set(), []
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.layout != torch.strided or tensor.device.type not in ("cpu", "cuda"):
            continue
        try:
            storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()._storage
        except (RuntimeError, NotImplementedError, AttributeError):
            continue  # a tensor without its own storage: fake, or quantized by a subclass
        address = storage.data_ptr()
        if address == 0 or address in seen:
            continue
        seen.add(address)
        device = tensor.device.index or 0 if tensor.device.type == "cuda" else -1
        numbers += [address, storage.nbytes(), device]
    return numbers


class MemoryTracer:
    def __init__(
        self,
        max_events: int = 100000,
        device: str = "cuda:0",
        enable_fragmentation_tracking: bool = True,
        *,
        record_to: Optional[str] = None,
    ):
        """max_events: number of newest events to store; figures count all events. device: the default device of the figures;
        all devices are traced. record_to: writes a recording (.hrec) for `headroom report`, which survives a crash."""
        self._handle = None
        # ctypes would truncate numbers above 64 bits. 2^40 events of 48 bytes are more than any machine can store.
        if isinstance(max_events, bool) or not isinstance(max_events, Integral) or not 0 <= max_events < 1 << 40:
            raise ValueError(f"invalid max_events {max_events!r}: it must be a whole number of at least 0")
        self._handle = _call(
            "new", int(max_events), _name_bytes(device), bool(enable_fragmentation_tracking), _bytes_of(record_to or ""))
        if not self._handle:
            raise ValueError(_call("error").decode("utf-8", "replace"))
        self.max_events = max_events
        self.device = str(device)
        self.enable_fragmentation_tracking = bool(enable_fragmentation_tracking)
        if self.device != "cpu" and not _call("has_cuda"):
            warnings.warn(f"no traceable CUDA device: showing figures of the CPU instead of {self.device}", stacklevel=2)
            self.device = "cpu"
        self._root = None

    def __del__(self):
        if getattr(self, "_handle", None):
            _call("delete", self._handle)
            self._handle = None

    @contextlib.contextmanager
    def trace(self, model: torch.nn.Module):
        """Traces allocations and releases inside the block; calls of the model's modules become layers."""
        if not isinstance(model, torch.nn.Module):
            raise ValueError(f"cannot trace a {type(model).__name__}: pass a torch.nn.Module")
        if self.device != "cpu" and not torch.cuda.is_initialized():
            torch.cuda.init()  # the CUDA allocator does not exist before this
        weights = _weights_of(model)
        numbers = (ctypes.c_int64 * len(weights))(*weights)
        if _call("begin", self._handle, numbers, len(weights) // 3) != 0:
            raise RuntimeError(_call("error").decode("utf-8", "replace"))
        before = []
        try:
            self._name_layers(model, before)
            _hooks.acquire()
            try:
                yield self
            finally:
                _hooks.release()
        finally:
            # The model may be deleted now, and its addresses reused, while an enclosing trace continues.
            for module, layer in reversed(before):
                _call("module", self._handle, module, layer)
            _call("end", self._handle)

    def _name_layers(self, model, before):
        """before: receives the previous layer of each module, by identity."""

        def set_layer(module, layer):
            before.append((id(module), _call("module", self._handle, id(module), layer)))

        root = getattr(model, "original_name", None) or type(model).__name__
        if self._root is None:
            self._root = root
        # Names are those of named_modules(). For a second model of another class, they begin with the class name.
        prefix = "" if root == self._root else root + "."
        inner = [(name, module) for name, module in model.named_modules() if name]
        names = {name for name, _ in inner}
        numbers = {"": _call("root", self._handle, _name_bytes(root if root not in names else root + " (model)"), _name_bytes(prefix))}
        set_layer(model, numbers[""])
        for name, module in inner:
            around = name
            while around and around not in numbers:
                around = around.rpartition(".")[0]
            numbers[name] = _call("layer", self._handle, _name_bytes(prefix + name), numbers[around])
            set_layer(module, numbers[name])

    def _stats(self, device=None):
        return json.loads(_text(_call("stats", self._handle, None if device is None else _name_bytes(device))))

    def get_layer_stats(self, device: Optional[str] = None) -> Dict[str, LayerMemoryStats]:
        return {name: LayerMemoryStats(**layer) for name, layer in self._stats(device)["layers"].items()}

    def get_peak_memory_per_layer(self, device: Optional[str] = None) -> Dict[str, int]:
        return {name: layer["peak_allocated"] for name, layer in self._stats(device)["layers"].items()}

    def get_fragmentation_stats(self, device: Optional[str] = None) -> Dict[str, float]:
        if not self.enable_fragmentation_tracking:
            return {}
        return {name: layer["avg_fragmentation"] for name, layer in self._stats(device)["layers"].items()}

    def get_memory_at_peak(self, device: Optional[str] = None) -> Dict[str, int]:
        """Bytes at the peak by layer, with "(before the trace)" and "(outside of layers)". They add up to peak_allocated()."""
        return self._stats(device)["memory_at_peak"]

    def get_memory_by_use(self, device: Optional[str] = None) -> Dict[str, int]:
        """Bytes at the peak by use: weights, activations, gradients, optimizer_state, workspace and other."""
        return self._stats(device)["memory_by_use_at_peak"]

    def get_growth(self, device: Optional[str] = None) -> List[dict]:
        """Layers that kept more memory after each of the last five or more traces: leaks."""
        return self._stats(device)["growth"]

    def peak_allocated(self, device: Optional[str] = None) -> int:
        return self._stats(device)["peak_allocated"]

    def allocated(self, device: Optional[str] = None) -> int:
        return self._stats(device)["allocated_bytes"]

    @property
    def events(self) -> List[MemoryEvent]:
        """The newest max_events events of all devices."""
        return [MemoryEvent(**event) for event in json.loads(_text(_call("events", self._handle)))]

    def export_flame_graph(self, output_path: str) -> None:
        """Writes a profile for https://www.speedscope.app."""
        self._export("export_flame_graph", output_path)

    def export_timeline(self, output_path: str) -> None:
        """Writes JSON with "events", "layer_stats" and "summary"."""
        self._export("export_timeline", output_path)

    def _export(self, what, output_path):
        if _call(what, self._handle, _bytes_of(output_path)) != 0:
            raise OSError(_call("error").decode("utf-8", "replace"))

    def print_summary(self) -> None:
        print(_text(_call("summary", self._handle)), end="")
