"""Finds libheadroom_memory_tracer.so by the rule by which the program finds its plug-ins: docs/install.md."""
import os

LIBRARY = "libheadroom_memory_tracer.so"


def folders():
    """Where the library is searched, in order."""
    here = os.path.dirname(os.path.abspath(__file__))
    listed = [folder for folder in os.environ.get("HEADROOM_BACKEND_PATH", "").split(":") if folder]
    beside = [os.path.join(here, "lib", "headroom")]  # in the wheel
    beside.append(os.path.join(os.path.abspath(os.path.join(here, "../../../..")), "lib", "headroom"))  # of PREFIX/share/headroom/python
    return [*listed, *beside, here, os.path.expanduser("~/.local/lib/headroom"), "/usr/lib/headroom"]


def find():
    """Path of the library; ImportError with the way to get it if there is none."""
    named = os.environ.get("HEADROOM_MEMORY_TRACER_LIBRARY")
    if named:
        return named
    for folder in folders():
        path = os.path.join(folder, LIBRARY)
        if os.path.exists(path):
            return path
    raise ImportError(f"MemoryTracer needs {LIBRARY}, which must be built with your PyTorch: run `headroom build-plugin libtorch`, "
                      f"or set HEADROOM_MEMORY_TRACER_LIBRARY to its path (searched: {', '.join(folders())})")
