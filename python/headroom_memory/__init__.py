"""Headroom's memory tracer for PyTorch: docs/memory-tracer.md.

The names below need PyTorch and libheadroom_memory_tracer.so. They are imported at their first use, so that `import
headroom_memory` and the command `headroom` need neither.
"""
import importlib

__all__ = ["LayerMemoryStats", "MemoryEvent", "MemoryTracer"]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".memory_tracer", __name__), name)


def __dir__():
    return sorted([*globals(), *__all__])
