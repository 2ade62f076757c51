"""The name under which programs that use a build folder import headroom_memory: docs/memory-tracer.md."""
import warnings

from headroom_memory import LayerMemoryStats, MemoryEvent, MemoryTracer

__all__ = ["LayerMemoryStats", "MemoryEvent", "MemoryTracer"]
warnings.warn("import MemoryTracer from headroom_memory instead of headroom, another project's package on the Python index",
              DeprecationWarning, stacklevel=2)
