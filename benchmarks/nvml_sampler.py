"""Samples the memory of a process on device 0 with NVML, ten times a second, with CLOCK_MONOTONIC times. gpu_ledger_compare.py compares
the ledger of a recording with these samples."""
import ctypes
import json
import os
import threading
import time


class NvmlProcess(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]


class Sampler(threading.Thread):
    """Samples this process, or `pid`."""

    def __init__(self, pid=None):
        super().__init__(daemon=True)
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.nvml.nvmlInit_v2()
        self.device = ctypes.c_void_p()
        self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))
        self.pid = pid or os.getpid()
        self.samples, self.phases, self.stop = [], [], False
        self.phase = None

    def take(self):
        phase, count, processes, mine = self.phase, ctypes.c_uint(16), (NvmlProcess * 16)(), None
        before = time.monotonic_ns()
        code = self.nvml.nvmlDeviceGetComputeRunningProcesses_v3(self.device, ctypes.byref(count), processes)
        after = time.monotonic_ns()
        if code == 0:
            # In a container the process may have another number. Then its memory is known only if
            # it is the only process.
            figures = [one.used for one in processes[:count.value] if one.pid == self.pid or count.value == 1]
            if figures and figures[0] < 2**62:
                mine = figures[0]
        return {"before_ns": before, "after_ns": after, "process_bytes": mine, "phase": phase if phase == self.phase else None}

    def run(self):
        while not self.stop:
            self.samples.append(self.take())
            time.sleep(0.1)

    def rest(self, phase, driver_grows=False, seconds=0.6):
        """Records that the program is at rest. `driver_grows`: since the last phase it has created a context, loaded a module, used a stream or
        launched something new, so the driver may have allocated memory for itself."""
        time.sleep(1.1)  # the driver's own memory is read once a second
        self.phases.append({"name": phase, "driver_grows": driver_grows})
        self.phase = phase
        time.sleep(seconds)
        self.phase = None

    def save(self, path, **about):
        self.stop = True
        self.join()
        with open(path, "w") as file:
            json.dump({**about, "phases": self.phases, "samples": self.samples}, file)
