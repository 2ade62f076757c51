#!/usr/bin/env python3
"""A plain CUDA program for benchmarks/gpu_ledger.py: allocates by each route of the driver, one phase each, and records NVML's figures.

    gpu_driver_program.py SAMPLES.json

Uses functions of libcuda by name, without a toolkit. Sizes are odd on purpose, to test how the ledger handles the driver's rounding.
"""
import ctypes
import mmap
import subprocess
import sys

from nvml_sampler import Sampler

MIB = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")
Address, Pointer, Size = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t


class Array3d(ctypes.Structure):
    _fields_ = [("width", Size), ("height", Size), ("depth", Size), ("format", ctypes.c_int), ("channels", ctypes.c_uint), ("flags", ctypes.c_uint)]


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Allocation(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("windows", Pointer), ("flags", ctypes.c_ubyte * 8)]


class PoolProperties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("windows", Pointer), ("most", Size),
                ("reserved", ctypes.c_ubyte * 56)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class AllocationNode(ctypes.Structure):
    _fields_ = [("pool", PoolProperties), ("access", Pointer), ("accesses", Size), ("bytes", Size), ("address", Address)]


class IpcHandle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


GPU = Location(1, 0)


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code != 0:
        sys.exit(f"{name}: error {code}")


def made(kind, name, *arguments):
    result = kind()
    call(name, ctypes.byref(result), *arguments)
    return result


def plain():
    return [made(Address, "cuMemAlloc_v2", Size(size)) for size in [MIB + 17] * 100 + [300 * MIB + 5] + [4097] * 1000]


def pitch():
    lines = Size()
    return [made(Address, "cuMemAllocPitch_v2", ctypes.byref(lines), Size(5001), Size(3000), 4) for _ in range(20)]


def managed():
    blocks = [made(Address, "cuMemAllocManaged", Size(100 * MIB), 1)]
    for block in blocks:  # managed memory moves to the device when it is written there
        call("cuMemsetD8_v2", block, 1, Size(100 * MIB))
    call("cuCtxSynchronize")
    return blocks


def arrays():
    shape = Array3d(1000, 1001, 0, 0x20, 4, 0)
    return [made(Pointer, "cuArray3DCreate_v2", ctypes.byref(shape)) for _ in range(20)]


def arrays_3d():
    shape = Array3d(100, 101, 102, 0x01, 1, 0)
    return [made(Pointer, "cuArray3DCreate_v2", ctypes.byref(shape)) for _ in range(50)]


def mipmaps():
    shape = Array3d(1001, 1003, 0, 0x20, 2, 0)
    return [made(Pointer, "cuMipmappedArrayCreate", ctypes.byref(shape), 5) for _ in range(20)]


def in_order():
    blocks = [made(Address, "cuMemAllocAsync", Size(7 * MIB + 3), None) for _ in range(30)]
    call("cuCtxSynchronize")
    return blocks


def in_own_pool():
    properties = PoolProperties(1, 0, GPU)
    pool = made(Pointer, "cuMemPoolCreate", ctypes.byref(properties))
    blocks = [made(Address, "cuMemAllocFromPoolAsync", Size(11 * MIB + 1), pool, None) for _ in range(20)]
    call("cuCtxSynchronize")
    return pool, blocks


def by_handle():
    properties, size = Allocation(1, 0, GPU), 50 * MIB
    space = made(Address, "cuMemAddressReserve", Size(size), Size(0), Address(0), ctypes.c_ulonglong(0))
    handle = made(Address, "cuMemCreate", Size(size), ctypes.byref(properties), ctypes.c_ulonglong(0))
    call("cuMemMap", space, Size(size), Size(0), handle, ctypes.c_ulonglong(0))
    access = Access(GPU, 3)
    call("cuMemSetAccess", space, Size(size), ctypes.byref(access), Size(1))
    return space, handle, size


def registered():
    pages = mmap.mmap(-1, 200 * MIB)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    call("cuMemHostRegister_v2", Pointer(address), Size(200 * MIB), 0)
    return pages, address


def by_graph():
    """Two allocating nodes and no free node: the memory exists from the launch until it is freed explicitly."""
    graph, addresses = made(Pointer, "cuGraphCreate", 0), []
    for size in (90 * MIB + 9, 33 * MIB):
        node = AllocationNode(PoolProperties(1, 0, GPU), None, 0, size, 0)
        made(Pointer, "cuGraphAddMemAllocNode", graph, None, Size(0), ctypes.byref(node))
        addresses.append(Address(node.address))
    run = made(Pointer, "cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
    call("cuGraphLaunch", run, None)
    call("cuCtxSynchronize")
    return graph, run, addresses


def pinned():
    return [made(Pointer, "cuMemHostAlloc", Size(200 * MIB), 0)]


def free_plain(blocks):
    for block in blocks:
        call("cuMemFree_v2", block)


def free_arrays(arrays_made):
    for array in arrays_made:
        call("cuArrayDestroy", array)


def free_mipmaps(arrays_made):
    for array in arrays_made:
        call("cuMipmappedArrayDestroy", array)


def free_in_order(blocks):
    for block in blocks:
        call("cuMemFreeAsync", block, None)
    call("cuCtxSynchronize")
    call("cuMemPoolTrimTo", made(Pointer, "cuDeviceGetDefaultMemPool", 0), Size(0))


def free_own_pool(both):
    pool, blocks = both
    for block in blocks:
        call("cuMemFreeAsync", block, None)
    call("cuCtxSynchronize")
    call("cuMemPoolDestroy", pool)


def free_by_handle(all_of_it):
    space, handle, size = all_of_it
    call("cuMemUnmap", space, Size(size))
    call("cuMemRelease", handle)
    call("cuMemAddressFree", space, Size(size))


def free_registered(both):
    call("cuMemHostUnregister", Pointer(both[1]))


def free_by_graph(all_of_it):
    graph, run, addresses = all_of_it
    for address in addresses:
        call("cuMemFreeAsync", address, None)
    call("cuCtxSynchronize")
    call("cuGraphExecDestroy", run)
    call("cuGraphDestroy", graph)
    call("cuDeviceGraphMemTrim", 0)


def export():
    """The other process of imported(): allocates 170 MiB, prints its handle, and keeps it until its input ends."""
    call("cuInit", 0)
    call("cuCtxSetCurrent", made(Pointer, "cuDevicePrimaryCtxRetain", 0))
    block = made(Address, "cuMemAlloc_v2", Size(170 * MIB))
    print(bytes(made(IpcHandle, "cuIpcGetMemHandle", block).bytes).hex(), flush=True)
    sys.stdin.read()


def imported():
    other = subprocess.Popen([sys.executable, __file__, "--export"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    handle = IpcHandle((ctypes.c_ubyte * 64)(*bytes.fromhex(other.stdout.readline())))
    return other, made(Address, "cuIpcOpenMemHandle_v2", handle, 1)


def free_imported(both):
    other, address = both
    call("cuIpcCloseMemHandle", address)
    other.stdin.close()
    other.wait()


def free_pinned(blocks):
    for block in blocks:
        call("cuMemFreeHost", block)


ROUTES = [("cuMemAlloc", plain, free_plain), ("cuMemAllocPitch", pitch, free_plain), ("cuMemAllocManaged", managed, free_plain),
        ("cuArray3DCreate, flat", arrays, free_arrays), ("cuArray3DCreate, deep", arrays_3d, free_arrays),
        ("cuMipmappedArrayCreate", mipmaps, free_mipmaps), ("cuMemAllocAsync", in_order, free_in_order),
        ("cuMemAllocFromPoolAsync", in_own_pool, free_own_pool), ("cuMemCreate", by_handle, free_by_handle),
        ("cuMemHostAlloc", pinned, free_pinned), ("cuMemHostRegister", registered, free_registered),
        ("cuGraphAddMemAllocNode", by_graph, free_by_graph), ("cuIpcOpenMemHandle", imported, free_imported)]


def main():
    sampler = Sampler()
    sampler.start()
    call("cuInit", 0)
    context = made(Pointer, "cuDevicePrimaryCtxRetain", 0)
    call("cuCtxSetCurrent", context)
    for _, take, free in ROUTES:  # triggers the driver's own first allocations: memset kernels, the stream of the pools
        free(take())
    sampler.rest("context, each route once", driver_grows=True)
    for name, take, free in ROUTES:
        taken = take()
        sampler.rest(name)
        free(taken)
        sampler.rest(name + ", freed")
    everything = [take() for _, take, _ in ROUTES]
    sampler.rest("all at once")
    for (_, _, free), taken in zip(ROUTES, everything):
        free(taken)
    sampler.rest("all freed")
    sampler.save(sys.argv[1], program="a plain program", device="", setting="")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    export() if sys.argv[1] == "--export" else main()
