// The table of CUDA driver functions: those that the preload library hooks, and those that it calls. The
// declarations, the pointers to the real functions, most hooks and the substitution table are generated from
// it.
//
// To add a function, add a row to the section of its file:
//
//   CALL(name, function, types of the parameters…)
//
// `function` does the work: function(hook, real, arguments…), with a DriverHook and the driver's function.
// It runs only for calls of the program (device_hooks.h). Functions of one shape share one `function`, also
// where their argument types differ. NVIDIA never changes the signature of a versioned name, such as
// cuMemAlloc_v2. A variant for the per-thread default stream (_ptsz) is a separate function. A function with
// more than eight parameters needs more of the macros in device_hooks.h.
//
// Such a change has more parts:
// - types/cuda_driver_types.h: types that the function needs, with the layout of cuda.h.
// - tests/support/fake_cuda_*.cpp: the function in the fake driver, with a row in fake_cuda_lookup.cpp.
// - tests/cli/cuda_calls.h: a row. tests/cli/cuda_*routes.h: a route that allocates with it.
// - tests/cli/traced_cuda.cpp: the route in its list. device_test.cpp runs the whole list.
// - cuda/probe_routes.cpp, docs/gpu-limits.md: a route of the probe, if it is a new way to allocate.
//
// Functions that run often are left out on purpose: launches of kernels and graphs, copies. So are those of
// CUDA 2, which have sizes and pointers of 32 bits.
#pragma once

#include "preload/real_functions.h"
#include "types/cuda_driver_types.h"

// clang-format off
// device_memory_hooks.cpp: memory by pointer, and how much is free.
#define HEADROOM_MEMORY_CALLS(CALL) \
  CALL(cuMemGetInfo_v2, get_info, std::size_t*, std::size_t*) \
  CALL(cuDeviceTotalMem_v2, get_total, std::size_t*, Device) \
  CALL(cuMemAlloc_v2, allocate_pointer, Pointer*, std::size_t) \
  CALL(cuMemAllocPitch_v2, allocate_rows, Pointer*, std::size_t*, std::size_t, std::size_t, unsigned) \
  CALL(cuMemAllocManaged, allocate_managed, Pointer*, std::size_t, unsigned) \
  CALL(cuMemFree_v2, free_pointer, Pointer) \
  CALL(cuMemAllocHost_v2, allocate_host, void**, std::size_t) \
  CALL(cuMemHostAlloc, allocate_host, void**, std::size_t, unsigned) \
  CALL(cuMemFreeHost, free_host, void*) \
  CALL(cuMemHostRegister, register_host, void*, std::size_t, unsigned) \
  CALL(cuMemHostRegister_v2, register_host, void*, std::size_t, unsigned) \
  CALL(cuMemHostUnregister, free_host, void*) \
  CALL(cuMemGetHandleForAddressRange, export_range, void*, Pointer, std::size_t, int, unsigned long long)

// device_pool_hooks.cpp: stream-ordered allocation.
#define HEADROOM_POOL_CALLS(CALL) \
  CALL(cuMemAllocAsync, allocate_async<kLegacy>, Pointer*, std::size_t, Opaque) \
  CALL(cuMemAllocAsync_ptsz, allocate_async<kPerThread>, Pointer*, std::size_t, Opaque) \
  CALL(cuMemAllocFromPoolAsync, allocate_from_pool<kLegacy>, Pointer*, std::size_t, Opaque, Opaque) \
  CALL(cuMemAllocFromPoolAsync_ptsz, allocate_from_pool<kPerThread>, Pointer*, std::size_t, Opaque, Opaque) \
  CALL(cuMemFreeAsync, free_async<kLegacy>, Pointer, Opaque) \
  CALL(cuMemFreeAsync_ptsz, free_async<kPerThread>, Pointer, Opaque) \
  CALL(cuMemPoolCreate, create_pool, Opaque*, const PoolProperties*) \
  CALL(cuMemGetDefaultMemPool, get_pool, Opaque*, Location*, int) \
  CALL(cuMemGetMemPool, get_pool, Opaque*, Location*, int) \
  CALL(cuMemPoolDestroy, destroy_pool, Opaque) \
  CALL(cuDeviceSetMemPool, set_pool, Device, Opaque) \
  CALL(cuMemSetMemPool, set_pool, Location*, int, Opaque) \
  CALL(cuMemPoolTrimTo, trim_pool, Opaque, std::size_t) \
  CALL(cuMemPoolExportPointer, export_from_pool, void*, Pointer) \
  CALL(cuMemPoolImportPointer, import_to_pool, Pointer*, Opaque, void*)

// device_handle_hooks.cpp: memory by handle, and virtual addresses.
#define HEADROOM_HANDLE_CALLS(CALL) \
  CALL(cuMemCreate, create_physical, Handle*, std::size_t, const AllocationProperties*, unsigned long long) \
  CALL(cuMemRelease, release_handle, Handle) \
  CALL(cuMemRetainAllocationHandle, retain_handle, Handle*, void*) \
  CALL(cuMemExportToShareableHandle, export_handle, void*, Handle, int, unsigned long long) \
  CALL(cuMemMapArrayAsync, map_array, ArrayMapping*, unsigned, Opaque) \
  CALL(cuMemMapArrayAsync_ptsz, map_array, ArrayMapping*, unsigned, Opaque) \
  CALL(cuMemImportFromShareableHandle, import_handle, Handle*, void*, int) \
  CALL(cuMemAddressReserve, reserve_addresses, Pointer*, std::size_t, std::size_t, Pointer, \
       unsigned long long) \
  CALL(cuMemAddressFree, free_addresses, Pointer, std::size_t) \
  CALL(cuMemMap, map_physical, Pointer, std::size_t, std::size_t, Handle, unsigned long long) \
  CALL(cuMemUnmap, unmap_physical, Pointer, std::size_t)

// device_handle_hooks.cpp: arrays.
#define HEADROOM_ARRAY_CALLS(CALL) \
  CALL(cuArrayCreate_v2, create_array, Opaque*, const ArrayDescriptor*) \
  CALL(cuArray3DCreate_v2, create_array, Opaque*, const Array3dDescriptor*) \
  CALL(cuArrayDestroy, destroy_array<EntryType::array>, Opaque) \
  CALL(cuMipmappedArrayCreate, create_mipmap, Opaque*, const Array3dDescriptor*, unsigned) \
  CALL(cuMipmappedArrayDestroy, destroy_array<EntryType::mipmap>, Opaque)

// device_memory_hooks.cpp: memory of other processes and APIs.
#define HEADROOM_IMPORT_CALLS(CALL) \
  CALL(cuIpcGetMemHandle, get_ipc_handle, IpcHandle*, Pointer) \
  CALL(cuIpcOpenMemHandle, open_ipc, Pointer*, IpcHandle, unsigned) \
  CALL(cuIpcOpenMemHandle_v2, open_ipc, Pointer*, IpcHandle, unsigned) \
  CALL(cuIpcCloseMemHandle, close_ipc, Pointer) \
  CALL(cuImportExternalMemory, import_memory, Opaque*, const ExternalMemoryHandle*) \
  CALL(cuDestroyExternalMemory, destroy_imported, Opaque)

// device_graph_hooks.cpp: graphs with memory nodes, and stream capture.
#define HEADROOM_GRAPH_CALLS(CALL) \
  CALL(cuStreamDestroy, destroy_stream, Opaque) \
  CALL(cuStreamDestroy_v2, destroy_stream, Opaque) \
  CALL(cuStreamBeginCapture, begin_capture<kLegacy>, Opaque) \
  CALL(cuStreamBeginCapture_ptsz, begin_capture<kPerThread>, Opaque) \
  CALL(cuStreamBeginCapture_v2, begin_capture<kLegacy>, Opaque, int) \
  CALL(cuStreamBeginCapture_v2_ptsz, begin_capture<kPerThread>, Opaque, int) \
  CALL(cuStreamBeginCaptureToGraph, begin_capture_to_graph<kLegacy>, Opaque, Opaque, const Opaque*, \
       const void*, std::size_t, int) \
  CALL(cuStreamBeginCaptureToGraph_ptsz, begin_capture_to_graph<kPerThread>, Opaque, Opaque, \
       const Opaque*, const void*, std::size_t, int) \
  CALL(cuStreamBeginRecaptureToGraph, begin_capture_to_graph<kLegacy>, Opaque, int, Opaque, void*, void*) \
  CALL(cuStreamBeginRecaptureToGraph_ptsz, begin_capture_to_graph<kPerThread>, Opaque, int, Opaque, \
       void*, void*) \
  CALL(cuStreamEndCapture, end_capture<kLegacy>, Opaque, Opaque*) \
  CALL(cuStreamEndCapture_ptsz, end_capture<kPerThread>, Opaque, Opaque*) \
  CALL(cuGraphAddMemAllocNode, add_allocation_node, Opaque*, Opaque, const Opaque*, std::size_t, \
       AllocationNode*) \
  CALL(cuGraphAddMemFreeNode, add_free_node, Opaque*, Opaque, const Opaque*, std::size_t, Pointer) \
  CALL(cuGraphAddNode, add_node, Opaque*, Opaque, const Opaque*, std::size_t, NodeParameters*) \
  CALL(cuGraphAddNode_v2, add_node_v2, Opaque*, Opaque, const Opaque*, const void*, std::size_t, \
       NodeParameters*) \
  CALL(cuGraphInstantiate, instantiate, Opaque*, Opaque, Opaque*, char*, std::size_t) \
  CALL(cuGraphInstantiate_v2, instantiate, Opaque*, Opaque, Opaque*, char*, std::size_t) \
  CALL(cuGraphInstantiateWithFlags, instantiate, Opaque*, Opaque, unsigned long long) \
  CALL(cuGraphInstantiateWithParams, instantiate, Opaque*, Opaque, void*) \
  CALL(cuGraphInstantiateWithParams_ptsz, instantiate, Opaque*, Opaque, void*) \
  CALL(cuGraphExecUpdate, update_exec, Opaque, Opaque, Opaque*, int*) \
  CALL(cuGraphExecUpdate_v2, update_exec, Opaque, Opaque, void*) \
  CALL(cuGraphExecDestroy, destroy_graph<EntryType::graph_exec>, Opaque) \
  CALL(cuGraphDestroy, destroy_graph<EntryType::graph>, Opaque) \
  CALL(cuDeviceGraphMemTrim, trim_graph_memory, Device)

// device_context_hooks.cpp: contexts and modules.
#define HEADROOM_CONTEXT_CALLS(CALL) \
  CALL(cuCtxCreate, create_context, Opaque*, unsigned, Device) \
  CALL(cuCtxCreate_v2, create_context, Opaque*, unsigned, Device) \
  CALL(cuCtxCreate_v3, create_context, Opaque*, void*, int, unsigned, Device) \
  CALL(cuCtxCreate_v4, create_context, Opaque*, void*, unsigned, Device) \
  CALL(cuDevicePrimaryCtxRelease, release_primary, Device) \
  CALL(cuDevicePrimaryCtxRelease_v2, release_primary, Device) \
  CALL(cuDevicePrimaryCtxReset, reset_primary, Device) \
  CALL(cuDevicePrimaryCtxReset_v2, reset_primary, Device) \
  CALL(cuCtxDestroy, destroy_context, Opaque) \
  CALL(cuCtxDestroy_v2, destroy_context, Opaque) \
  CALL(cuModuleLoad, measure_modules, Opaque*, const char*) \
  CALL(cuModuleLoadData, measure_modules, Opaque*, const void*) \
  CALL(cuModuleLoadDataEx, measure_modules, Opaque*, const void*, unsigned, void*, void**) \
  CALL(cuModuleLoadFatBinary, measure_modules, Opaque*, const void*) \
  CALL(cuModuleUnload, measure_modules, Opaque) \
  CALL(cuLibraryLoadData, measure_modules, Opaque*, const void*, void*, void**, unsigned, void*, \
       void**, unsigned) \
  CALL(cuLibraryLoadFromFile, measure_modules, Opaque*, const char*, void*, void**, unsigned, void*, \
       void**, unsigned) \
  CALL(cuLibraryUnload, measure_modules, Opaque)

// Hooks that are written out, in device_context_hooks.cpp and driver.cpp.
#define HEADROOM_WRITTEN_OUT_CALLS(CALL) \
  CALL(cuGetProcAddress, written_out, const char*, void**, int, std::uint64_t) \
  CALL(cuGetProcAddress_v2, written_out, const char*, void**, int, std::uint64_t, int*) \
  CALL(cuCtxSynchronize, written_out) \
  CALL(cuCtxSynchronize_v2, written_out, Opaque) \
  CALL(cuDevicePrimaryCtxRetain, written_out, Opaque*, Device)

#define HEADROOM_HOOKED_DRIVER_CALLS(CALL) \
  HEADROOM_MEMORY_CALLS(CALL) \
  HEADROOM_POOL_CALLS(CALL) \
  HEADROOM_HANDLE_CALLS(CALL) \
  HEADROOM_ARRAY_CALLS(CALL) \
  HEADROOM_IMPORT_CALLS(CALL) \
  HEADROOM_GRAPH_CALLS(CALL) \
  HEADROOM_CONTEXT_CALLS(CALL) \
  HEADROOM_WRITTEN_OUT_CALLS(CALL)

// Functions that the tracer calls, without a hook.
#define HEADROOM_USED_DRIVER_CALLS(CALL) \
  CALL(cuCtxGetCurrent, Opaque*) \
  CALL(cuCtxGetDevice, Device*) \
  CALL(cuCtxPushCurrent_v2, Opaque) \
  CALL(cuCtxPopCurrent_v2, Opaque*) \
  CALL(cuDeviceGetName, char*, int, Device) \
  CALL(cuDeviceGetUuid, void*, Device) \
  CALL(cuDeviceGetUuid_v2, void*, Device) \
  CALL(cuDeviceGetAttribute, int*, int, Device) \
  CALL(cuDeviceGetMemPool, Opaque*, Device) \
  CALL(cuDeviceGetDefaultMemPool, Opaque*, Device) \
  CALL(cuDevicePrimaryCtxGetState, Device, unsigned*, int*) \
  CALL(cuStreamGetCtx, Opaque, Opaque*) \
  CALL(cuStreamGetCaptureInfo_v2, Opaque, int*, std::uint64_t*, Opaque*, const Opaque**, std::size_t*) \
  CALL(cuStreamGetCaptureInfo_v2_ptsz, Opaque, int*, std::uint64_t*, Opaque*, const Opaque**, std::size_t*) \
  CALL(cuStreamGetCaptureInfo_v3, Opaque, int*, std::uint64_t*, Opaque*, const Opaque**, const void**, \
       std::size_t*) \
  CALL(cuStreamGetCaptureInfo_v3_ptsz, Opaque, int*, std::uint64_t*, Opaque*, const Opaque**, \
       const void**, std::size_t*) \
  CALL(cuGraphNodeGetDependencies, Opaque, Opaque*, std::size_t*) \
  CALL(cuGraphNodeGetDependencies_v2, Opaque, Opaque*, void*, std::size_t*) \
  CALL(cuThreadExchangeStreamCaptureMode, int*) \
  CALL(cuDeviceGetGraphMemAttribute, Device, int, void*) \
  CALL(cuMemPoolGetAttribute, Opaque, int, void*) \
  CALL(cuMemGetAllocationPropertiesFromHandle, AllocationProperties*, Handle) \
  CALL(cuMemGetAllocationGranularity, std::size_t*, const AllocationProperties*, int) \
  CALL(cuPointerGetAttribute, void*, int, Pointer) \
  CALL(cuMemGetAddressRange_v2, Pointer*, std::size_t*, Pointer) \
  CALL(cuArrayGetMemoryRequirements, MemoryRequirements*, Opaque, Device) \
  CALL(cuMipmappedArrayGetMemoryRequirements, MemoryRequirements*, Opaque, Device)
// clang-format on

namespace headroom::preload::driver {

using namespace cuda;
using Result = Code;

// The driver's own functions.
struct Real {
#define HEADROOM_DECLARE_HOOKED(name, function, ...) DriverFunction<Result(__VA_ARGS__)> name;
#define HEADROOM_DECLARE_USED(name, ...) DriverFunction<Result(__VA_ARGS__)> name;
  HEADROOM_HOOKED_DRIVER_CALLS(HEADROOM_DECLARE_HOOKED)
  HEADROOM_USED_DRIVER_CALLS(HEADROOM_DECLARE_USED)
#undef HEADROOM_DECLARE_HOOKED
#undef HEADROOM_DECLARE_USED
};
extern Real real;

#define HEADROOM_DECLARE(name, function, ...) HEADROOM_HOOK Result name(__VA_ARGS__);
HEADROOM_HOOKED_DRIVER_CALLS(HEADROOM_DECLARE)
#undef HEADROOM_DECLARE

// Resolves the driver's functions if the driver is loaded. Loads nothing.
bool find_driver();
// After fork, in the child.
void reset_lock_in_child();
// Returns the hook for the driver's `function`, or `function` itself if it has no hook.
void* substitute(const char* name, void* function);
// Whether this address is one of the tracer's hooks.
bool is_hook(const void* function);
// Whether the function of this name has a hook.
bool has_hook(const char* name);
// Whether the driver is loaded and has the function that this hook wraps. Older drivers lack some.
bool driver_has_function(const void* hook);

}  // namespace headroom::preload::driver
