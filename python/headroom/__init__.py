"""Headroom's memory tracer for PyTorch: docs/memory-tracer.md."""
from .memory_tracer import LayerMemoryStats, MemoryEvent, MemoryTracer

__all__ = ["LayerMemoryStats", "MemoryEvent", "MemoryTracer"]
