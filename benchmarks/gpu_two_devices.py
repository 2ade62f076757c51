#!/usr/bin/env python3
"""Checks with two GPUs that each byte is charged to the device on which it is, whichever device is current.

    gpu_two_devices.py --headroom BIN/headroom --out FOLDER

Runs itself under `headroom trace --gpu-mem-limit 0=2GiB,1=1GiB` and allocates on the second device until a request is refused, while
the first device is current. It does this by cuMemCreate with the second device's location, from a pool of the second device, as memory
nodes of a graph, and by cuMemAlloc in the second device's context with peer access. After each step it compares three figures for both
devices: the granted bytes, the free memory reported by cuMemGetInfo, and the growth of NVML's used memory. Writes two_devices.json and
two_devices.md. Skips with a message if there is only one GPU. Uses only the Python standard library.
"""
import argparse
import ctypes
import json
import pathlib
import shutil
import subprocess
import sys
import time

GIB, MIB = 1 << 30, 1 << 20
LIMITS = (2 * GIB, 1 * GIB)
STEP = 38 * MIB  # a multiple of the driver's granules
OUT_OF_MEMORY = 2


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class AllocationProperties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", Location), ("windows", ctypes.c_void_p),
                ("flags", ctypes.c_ubyte * 8)]


class PoolProperties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", Location), ("windows", ctypes.c_void_p),
                ("max_size", ctypes.c_size_t), ("reserved", ctypes.c_ubyte * 56)]


class AllocationNode(ctypes.Structure):
    _fields_ = [("pool", PoolProperties), ("access", ctypes.c_void_p), ("access_count", ctypes.c_size_t), ("bytes", ctypes.c_size_t),
                ("address", ctypes.c_uint64)]


class NvmlMemory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class CudaProgram:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.check(self.cuda.cuInit(0), "cuInit")
        self.nvml.nvmlInit_v2()
        self.handles = [self.nvml_handle(device) for device in (0, 1)]
        self.contexts = []
        for device in (0, 1):
            context = ctypes.c_void_p()
            self.check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "retain")
            self.contexts.append(context)
        self.use(0)

    def nvml_handle(self, device):
        """Finds the GPU by its bus id, because CUDA and NVML number devices differently."""
        bus = ctypes.create_string_buffer(64)
        self.check(self.cuda.cuDeviceGetPCIBusId(bus, 64, device), "bus")
        handle = ctypes.c_void_p()
        if self.nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(handle)) != 0:
            raise SystemExit(f"NVML has no GPU at {bus.value.decode()}")
        return handle

    def check(self, code, what):
        if code != 0:
            raise SystemExit(f"{what}: error {code}")

    def use(self, device):
        self.check(self.cuda.cuCtxSetCurrent(self.contexts[device]), "set current")

    def free_bytes(self):
        """Free bytes by device. Makes the first device current again."""
        found = []
        for device in (1, 0):
            self.use(device)
            available, total = ctypes.c_size_t(), ctypes.c_size_t()
            self.check(self.cuda.cuMemGetInfo_v2(ctypes.byref(available), ctypes.byref(total)), "info")
            found.insert(0, available.value)
        return found

    def used(self):
        found = []
        for handle in self.handles:
            memory = NvmlMemory()
            self.nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
            found.append(memory.used)
        return found

    def synchronize(self):
        for device in (1, 0):
            self.use(device)
            self.check(self.cuda.cuCtxSynchronize(), "synchronize")
        time.sleep(0.2)

    def fill(self, name, take, free):
        """Allocates on the second device until a request is refused, compares all figures, and frees everything."""
        self.synchronize()
        left_before, used_before = self.free_bytes(), self.used()
        held, code = [], 0
        while code == 0:
            code, made = take()
            if code == 0:
                held.append(made)
        self.synchronize()
        left, used = self.free_bytes(), self.used()
        free(held)
        self.synchronize()
        granted = len(held) * STEP
        charged = [before - after for before, after in zip(left_before, left)]
        grown = [after - before for before, after in zip(used_before, used)]
        after = self.free_bytes()
        return {"name": name, "granted": granted, "code": code, "charged": charged, "nvml_grown": grown, "left_after": after,
                "sound": code == OUT_OF_MEMORY and granted <= LIMITS[1] < granted + STEP and charged == [0, granted] and
                after == left_before and abs(grown[1] - granted) <= max(2 * MIB, granted // 100) and abs(grown[0]) <= 2 * MIB}


def by_handle(program):
    properties = AllocationProperties(1, 0, Location(1, 1))

    def take():
        handle = ctypes.c_uint64()
        return program.cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(STEP), ctypes.byref(properties), ctypes.c_ulonglong(0)), handle

    return program.fill("cuMemCreate for the second, the first current", take,
                      lambda held: [program.check(program.cuda.cuMemRelease(handle), "release") for handle in held])


def by_pool(program):
    properties = PoolProperties(1, 0, Location(1, 1))
    pool = ctypes.c_void_p()
    program.check(program.cuda.cuMemPoolCreate(ctypes.byref(pool), ctypes.byref(properties)), "pool")

    def take():
        pointer = ctypes.c_uint64()
        return program.cuda.cuMemAllocFromPoolAsync(ctypes.byref(pointer), ctypes.c_size_t(STEP), pool, None), pointer

    def free(held):
        for pointer in held:
            program.check(program.cuda.cuMemFreeAsync(pointer, None), "free")
        program.synchronize()
        program.check(program.cuda.cuMemPoolDestroy(pool), "pool destroy")

    return program.fill("a pool of the second, the first current", take, free)


def by_graph(program):
    graph, last = ctypes.c_void_p(), ctypes.c_void_p()
    program.check(program.cuda.cuGraphCreate(ctypes.byref(graph), 0), "graph")

    def take():
        nonlocal last
        node, made = AllocationNode(), ctypes.c_void_p()
        node.pool.type, node.pool.location, node.bytes = 1, Location(1, 1), STEP
        code = program.cuda.cuGraphAddMemAllocNode(ctypes.byref(made), graph, ctypes.byref(last) if last else None,
                                                 ctypes.c_size_t(1 if last else 0), ctypes.byref(node))
        if code == 0:
            last = made
        return code, made

    found = program.fill("memory nodes for the second", take, lambda _: program.check(program.cuda.cuGraphDestroy(graph), "destroy"))
    # A graph is charged when its nodes are added, but the driver allocates at launch.
    found["sound"] = (found["code"] == OUT_OF_MEMORY and found["charged"] == [0, found["granted"]] and
                      found["granted"] <= LIMITS[1] < found["granted"] + STEP)
    return found


def by_peer(program):
    can = ctypes.c_int()
    program.check(program.cuda.cuDeviceCanAccessPeer(ctypes.byref(can), 0, 1), "can access")
    if not can.value:
        return {"name": "peer access", "skipped": "the first GPU cannot read the second's memory"}
    program.use(0)
    code = program.cuda.cuCtxEnablePeerAccess(program.contexts[1], 0)
    if code not in (0, 704):  # already enabled
        return {"name": "peer access", "skipped": f"cuCtxEnablePeerAccess gave {code}"}

    def take():
        pointer = ctypes.c_uint64()
        program.use(1)
        code = program.cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(STEP))
        program.use(0)
        if code == 0:  # read from the first device
            own = ctypes.c_uint64()
            program.check(program.cuda.cuMemAlloc_v2(ctypes.byref(own), ctypes.c_size_t(MIB)), "own")
            program.check(program.cuda.cuMemcpyPeer(own, program.contexts[0], pointer, program.contexts[1], ctypes.c_size_t(MIB)), "copy")
            program.check(program.cuda.cuMemFree_v2(own), "free own")
        return code, pointer

    def free(held):
        program.use(1)
        for pointer in held:
            program.check(program.cuda.cuMemFree_v2(pointer), "free")
        program.use(0)

    return program.fill("cuMemAlloc on the second, read by the first", take, free)


def run_program():
    program = CudaProgram()
    steps = [by_handle(program), by_pool(program), by_graph(program), by_peer(program)]
    # The first device still has its own limit.
    program.use(0)
    granted, held, code = 0, [], 0
    while code == 0:
        pointer = ctypes.c_uint64()
        code = program.cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(STEP))
        if code == 0:
            held.append(pointer)
            granted += STEP
    left = program.free_bytes()
    steps.append({"name": "cuMemAlloc on the first", "granted": granted, "code": code, "charged": [LIMITS[0] - left[0], LIMITS[1] - left[1]],
                  "sound": code == OUT_OF_MEMORY and granted <= LIMITS[0] < granted + STEP and left[1] == LIMITS[1]})
    for pointer in held:
        program.check(program.cuda.cuMemFree_v2(pointer), "free")
    print(json.dumps(steps), flush=True)


def markdown(result):
    out = ["# Two GPUs: each byte is charged to its device", "", f"{result['gpus']}, {result['date']}. Command: `benchmarks/gpu_two_devices.py`, which also "
           f"writes this file. Limits: {LIMITS[0] >> 20} MiB for the first device, {LIMITS[1] >> 20} MiB for the second; requests of "
           f"{STEP >> 20} MiB until one is refused.", "",
           "| route | granted | charged to first, second | NVML grew by | |", "|---|--:|--:|--:|---|"]

    def two(values):
        return "–" if values is None else ", ".join(f"{value / MIB:,.1f}" for value in values)
    for step in result["steps"]:
        if "skipped" in step:
            out.append(f"| {step['name']} | | | | skipped: {step['skipped']} |")
            continue
        out.append(f"| {step['name']} | {step['granted'] / MIB:,.1f} | {two(step['charged'])} | {two(step.get('nvml_grown'))} | "
                   f"{'sound' if step['sound'] else 'WRONG'} |")
    out += ["", "MiB. Peaks by the recording's report: " + ", ".join(
        f"GPU {one['device']} {one['peak_bytes'] / MIB:,.1f}" for one in result["recording"]) + "."]
    return "\n".join(out) + "\n"


def main():
    if sys.argv[1:] == ["program"]:
        return run_program()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--headroom", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = []
    if shutil.which("nvidia-smi"):
        gpus = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True)
        names = gpus.stdout.strip().splitlines() if gpus.returncode == 0 else []
    if len(names) < 2:
        print(f"skipped: needs two GPUs, found {len(names)}")
        return 0
    recording = options.out / "two_devices.hrec"
    done = subprocess.run([options.headroom, "trace", "--force", "--gpu-mem-limit", "0=2GiB,1=1GiB", "--out", recording, "--", sys.executable,
                           __file__, "program"], capture_output=True, text=True, timeout=300)
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    if done.returncode != 0 or not lines:
        print(done.stdout + done.stderr, file=sys.stderr)
        return 1
    report = subprocess.run([options.headroom, "report", recording, "--json"], capture_output=True, text=True)
    result = {"gpus": "; ".join(names), "date": time.strftime("%Y-%m-%d"), "steps": json.loads(lines[0]),
              "recording": [{key: one[key] for key in ("device", "peak_bytes")} for one in json.loads(report.stdout)["devices"]]}
    (options.out / "two_devices.json").write_text(json.dumps(result, indent=1) + "\n")
    (options.out / "two_devices.md").write_text(markdown(result))
    print(markdown(result))
    return 0 if all(step.get("sound", True) for step in result["steps"]) else 1


if __name__ == "__main__":
    sys.exit(main())
