// The table of CUDA driver functions: those that the preload library hooks, and those that it calls. The
// declarations, the pointers to the real functions, most hooks and the substitution table are generated from
// it.
//
// To add a function, add a row to the section of its file:
//
//   CALL(name, (parameters), function, arguments…)
//
// `function` does the work: function(hook, real, arguments…), with a DriverHook and the driver's function.
// It runs only for calls of the program (device_hooks.h). Functions of one shape share one `function`, also
// where their argument types differ. NVIDIA never changes the signature of a versioned name, such as
// cuMemAlloc_v2. A variant for the per-thread default stream (_ptsz) is a separate function.
//
// Functions that run often are left out on purpose: launches of kernels and graphs, copies.
#pragma once

#include "preload/real_functions.h"
#include "types/cuda_driver_types.h"

// clang-format off
// device_memory_hooks.cpp: memory by pointer, and how much is free.
#define HEADROOM_MEMORY_CALLS(CALL) \
  CALL(cuMemGetInfo, (unsigned* free, unsigned* total), get_info, free, total) \
  CALL(cuMemGetInfo_v2, (std::size_t* free, std::size_t* total), get_info, free, total) \
  CALL(cuDeviceTotalMem, (unsigned* total, Device device), get_total, total, device) \
  CALL(cuDeviceTotalMem_v2, (std::size_t* total, Device device), get_total, total, device) \
  CALL(cuMemAlloc, (unsigned* pointer, unsigned bytes), allocate_pointer, pointer, bytes) \
  CALL(cuMemAlloc_v2, (Pointer* pointer, std::size_t bytes), allocate_pointer, pointer, bytes) \
  CALL(cuMemAllocPitch, \
       (unsigned* pointer, unsigned* pitch, unsigned width, unsigned height, unsigned element), \
       allocate_rows, pointer, pitch, width, height, element) \
  CALL(cuMemAllocPitch_v2, \
       (Pointer* pointer, std::size_t* pitch, std::size_t width, std::size_t height, unsigned element), \
       allocate_rows, pointer, pitch, width, height, element) \
  CALL(cuMemAllocManaged, (Pointer* pointer, std::size_t bytes, unsigned flags), \
       allocate_managed, pointer, bytes, flags) \
  CALL(cuMemFree, (unsigned pointer), free_pointer, pointer) \
  CALL(cuMemFree_v2, (Pointer pointer), free_pointer, pointer) \
  CALL(cuMemAllocHost, (void** pointer, unsigned bytes), allocate_host, pointer, bytes) \
  CALL(cuMemAllocHost_v2, (void** pointer, std::size_t bytes), allocate_host, pointer, bytes) \
  CALL(cuMemHostAlloc, (void** pointer, std::size_t bytes, unsigned flags), \
       allocate_host, pointer, bytes, flags) \
  CALL(cuMemFreeHost, (void* pointer), free_host, pointer) \
  CALL(cuMemHostRegister, (void* pointer, std::size_t bytes, unsigned flags), \
       register_host, pointer, bytes, flags) \
  CALL(cuMemHostRegister_v2, (void* pointer, std::size_t bytes, unsigned flags), \
       register_host, pointer, bytes, flags) \
  CALL(cuMemHostUnregister, (void* pointer), free_host, pointer) \
  CALL(cuMemGetHandleForAddressRange, \
       (void* handle, Pointer pointer, std::size_t bytes, int type, unsigned long long flags), \
       export_range, handle, pointer, bytes, type, flags)

// device_pool_hooks.cpp: stream-ordered allocation.
#define HEADROOM_POOL_CALLS(CALL) \
  CALL(cuMemAllocAsync, (Pointer* pointer, std::size_t bytes, Opaque stream), \
       allocate_async<kLegacy>, pointer, bytes, stream) \
  CALL(cuMemAllocAsync_ptsz, (Pointer* pointer, std::size_t bytes, Opaque stream), \
       allocate_async<kPerThread>, pointer, bytes, stream) \
  CALL(cuMemAllocFromPoolAsync, (Pointer* pointer, std::size_t bytes, Opaque pool, Opaque stream), \
       allocate_from_pool<kLegacy>, pointer, bytes, pool, stream) \
  CALL(cuMemAllocFromPoolAsync_ptsz, (Pointer* pointer, std::size_t bytes, Opaque pool, Opaque stream), \
       allocate_from_pool<kPerThread>, pointer, bytes, pool, stream) \
  CALL(cuMemFreeAsync, (Pointer pointer, Opaque stream), free_async<kLegacy>, pointer, stream) \
  CALL(cuMemFreeAsync_ptsz, (Pointer pointer, Opaque stream), free_async<kPerThread>, pointer, stream) \
  CALL(cuMemPoolCreate, (Opaque* pool, const PoolProperties* properties), create_pool, pool, properties) \
  CALL(cuMemGetDefaultMemPool, (Opaque* pool, Location* location, int type), \
       get_pool, pool, location, type) \
  CALL(cuMemGetMemPool, (Opaque* pool, Location* location, int type), get_pool, pool, location, type) \
  CALL(cuMemPoolDestroy, (Opaque pool), destroy_pool, pool) \
  CALL(cuDeviceSetMemPool, (Device device, Opaque pool), set_pool, device, pool) \
  CALL(cuMemSetMemPool, (Location* location, int type, Opaque pool), set_pool, location, type, pool) \
  CALL(cuMemPoolTrimTo, (Opaque pool, std::size_t keep), trim_pool, pool, keep) \
  CALL(cuMemPoolExportPointer, (void* shared, Pointer pointer), export_from_pool, shared, pointer) \
  CALL(cuMemPoolImportPointer, (Pointer* pointer, Opaque pool, void* data), \
       import_to_pool, pointer, pool, data)

// device_handle_hooks.cpp: memory by handle, and virtual addresses.
#define HEADROOM_HANDLE_CALLS(CALL) \
  CALL(cuMemCreate, \
       (Handle* handle, std::size_t bytes, const AllocationProperties* properties, \
        unsigned long long flags), \
       create_physical, handle, bytes, properties, flags) \
  CALL(cuMemRelease, (Handle handle), release_handle, handle) \
  CALL(cuMemRetainAllocationHandle, (Handle* handle, void* address), retain_handle, handle, address) \
  CALL(cuMemExportToShareableHandle, (void* shared, Handle handle, int type, unsigned long long flags), \
       export_handle, shared, handle, type, flags) \
  CALL(cuMemMapArrayAsync, (ArrayMapping* mappings, unsigned count, Opaque stream), \
       map_array, mappings, count, stream) \
  CALL(cuMemMapArrayAsync_ptsz, (ArrayMapping* mappings, unsigned count, Opaque stream), \
       map_array, mappings, count, stream) \
  CALL(cuMemImportFromShareableHandle, (Handle* handle, void* shared, int type), \
       import_handle, handle, shared, type) \
  CALL(cuMemAddressReserve, \
       (Pointer* pointer, std::size_t bytes, std::size_t alignment, Pointer wanted, \
        unsigned long long flags), \
       reserve_addresses, pointer, bytes, alignment, wanted, flags) \
  CALL(cuMemAddressFree, (Pointer pointer, std::size_t bytes), free_addresses, pointer, bytes) \
  CALL(cuMemMap, \
       (Pointer pointer, std::size_t bytes, std::size_t offset, Handle handle, unsigned long long flags), \
       map_physical, pointer, bytes, offset, handle, flags) \
  CALL(cuMemUnmap, (Pointer pointer, std::size_t bytes), unmap_physical, pointer, bytes)

// device_array_hooks.cpp: arrays.
#define HEADROOM_ARRAY_CALLS(CALL) \
  CALL(cuArrayCreate, (Opaque* array, const ArrayDescriptorV1* shape), create_array, array, shape) \
  CALL(cuArrayCreate_v2, (Opaque* array, const ArrayDescriptor* shape), create_array, array, shape) \
  CALL(cuArray3DCreate, (Opaque* array, const Array3dDescriptorV1* shape), create_array, array, shape) \
  CALL(cuArray3DCreate_v2, (Opaque* array, const Array3dDescriptor* shape), create_array, array, shape) \
  CALL(cuArrayDestroy, (Opaque array), destroy_array<EntryType::array>, array) \
  CALL(cuMipmappedArrayCreate, (Opaque* mipmap, const Array3dDescriptor* shape, unsigned levels), \
       create_mipmap, mipmap, shape, levels) \
  CALL(cuMipmappedArrayDestroy, (Opaque mipmap), destroy_array<EntryType::mipmap>, mipmap)

// device_import_hooks.cpp: memory of other processes and APIs.
#define HEADROOM_IMPORT_CALLS(CALL) \
  CALL(cuIpcGetMemHandle, (IpcHandle* handle, Pointer pointer), get_ipc_handle, handle, pointer) \
  CALL(cuIpcOpenMemHandle, (Pointer* pointer, IpcHandle handle, unsigned flags), \
       open_ipc, pointer, handle, flags) \
  CALL(cuIpcOpenMemHandle_v2, (Pointer* pointer, IpcHandle handle, unsigned flags), \
       open_ipc, pointer, handle, flags) \
  CALL(cuIpcCloseMemHandle, (Pointer pointer), close_ipc, pointer) \
  CALL(cuImportExternalMemory, (Opaque* memory, const ExternalMemoryHandle* handle), \
       import_memory, memory, handle) \
  CALL(cuDestroyExternalMemory, (Opaque memory), destroy_imported, memory)

// device_graph_hooks.cpp: graphs with memory nodes, and stream capture.
#define HEADROOM_GRAPH_CALLS(CALL) \
  CALL(cuStreamDestroy, (Opaque stream), destroy_stream, stream) \
  CALL(cuStreamDestroy_v2, (Opaque stream), destroy_stream, stream) \
  CALL(cuStreamBeginCapture, (Opaque stream), begin_capture<kLegacy>, stream) \
  CALL(cuStreamBeginCapture_ptsz, (Opaque stream), begin_capture<kPerThread>, stream) \
  CALL(cuStreamBeginCapture_v2, (Opaque stream, int mode), begin_capture<kLegacy>, stream, mode) \
  CALL(cuStreamBeginCapture_v2_ptsz, (Opaque stream, int mode), begin_capture<kPerThread>, stream, mode) \
  CALL(cuStreamBeginCaptureToGraph, \
       (Opaque stream, Opaque graph, const Opaque* dependencies, const void* edges, std::size_t count, \
        int mode), \
       begin_capture_to_graph<kLegacy>, stream, graph, dependencies, edges, count, mode) \
  CALL(cuStreamBeginCaptureToGraph_ptsz, \
       (Opaque stream, Opaque graph, const Opaque* dependencies, const void* edges, std::size_t count, \
        int mode), \
       begin_capture_to_graph<kPerThread>, stream, graph, dependencies, edges, count, mode) \
  CALL(cuStreamBeginRecaptureToGraph, (Opaque stream, int mode, Opaque graph, void* callback, void* data), \
       begin_capture_to_graph<kLegacy>, stream, mode, graph, callback, data) \
  CALL(cuStreamBeginRecaptureToGraph_ptsz, \
       (Opaque stream, int mode, Opaque graph, void* callback, void* data), \
       begin_capture_to_graph<kPerThread>, stream, mode, graph, callback, data) \
  CALL(cuStreamEndCapture, (Opaque stream, Opaque* graph), end_capture<kLegacy>, stream, graph) \
  CALL(cuStreamEndCapture_ptsz, (Opaque stream, Opaque* graph), end_capture<kPerThread>, stream, graph) \
  CALL(cuGraphAddMemAllocNode, \
       (Opaque* node, Opaque graph, const Opaque* dependencies, std::size_t count, \
        AllocationNode* parameters), \
       add_allocation_node, node, graph, dependencies, count, parameters) \
  CALL(cuGraphAddMemFreeNode, \
       (Opaque* node, Opaque graph, const Opaque* dependencies, std::size_t count, Pointer pointer), \
       add_free_node, node, graph, dependencies, count, pointer) \
  CALL(cuGraphAddNode, \
       (Opaque* node, Opaque graph, const Opaque* dependencies, std::size_t count, \
        NodeParameters* parameters), \
       add_node, node, graph, dependencies, count, parameters) \
  CALL(cuGraphAddNode_v2, \
       (Opaque* node, Opaque graph, const Opaque* dependencies, const void* edges, std::size_t count, \
        NodeParameters* parameters), \
       add_node_v2, node, graph, dependencies, edges, count, parameters) \
  CALL(cuGraphInstantiate, (Opaque* exec, Opaque graph, Opaque* node, char* log, std::size_t bytes), \
       instantiate, exec, graph, node, log, bytes) \
  CALL(cuGraphInstantiate_v2, (Opaque* exec, Opaque graph, Opaque* node, char* log, std::size_t bytes), \
       instantiate, exec, graph, node, log, bytes) \
  CALL(cuGraphInstantiateWithFlags, (Opaque* exec, Opaque graph, unsigned long long flags), \
       instantiate, exec, graph, flags) \
  CALL(cuGraphInstantiateWithParams, (Opaque* exec, Opaque graph, void* parameters), \
       instantiate, exec, graph, parameters) \
  CALL(cuGraphInstantiateWithParams_ptsz, (Opaque* exec, Opaque graph, void* parameters), \
       instantiate, exec, graph, parameters) \
  CALL(cuGraphExecUpdate, (Opaque exec, Opaque graph, Opaque* node, int* outcome), \
       update_exec, exec, graph, node, outcome) \
  CALL(cuGraphExecUpdate_v2, (Opaque exec, Opaque graph, void* outcome), \
       update_exec, exec, graph, outcome) \
  CALL(cuGraphExecDestroy, (Opaque exec), destroy_graph<EntryType::graph_exec>, exec) \
  CALL(cuGraphDestroy, (Opaque graph), destroy_graph<EntryType::graph>, graph) \
  CALL(cuDeviceGraphMemTrim, (Device device), trim_graph_memory, device)

// device_context_hooks.cpp: contexts and modules.
#define HEADROOM_CONTEXT_CALLS(CALL) \
  CALL(cuCtxCreate, (Opaque* context, unsigned flags, Device device), \
       create_context, context, flags, device) \
  CALL(cuCtxCreate_v2, (Opaque* context, unsigned flags, Device device), \
       create_context, context, flags, device) \
  CALL(cuCtxCreate_v3, (Opaque* context, void* affinity, int count, unsigned flags, Device device), \
       create_context_v3, context, affinity, count, flags, device) \
  CALL(cuCtxCreate_v4, (Opaque* context, void* parameters, unsigned flags, Device device), \
       create_context_v4, context, parameters, flags, device) \
  CALL(cuDevicePrimaryCtxRelease, (Device device), release_primary, device) \
  CALL(cuDevicePrimaryCtxRelease_v2, (Device device), release_primary, device) \
  CALL(cuDevicePrimaryCtxReset, (Device device), reset_primary, device) \
  CALL(cuDevicePrimaryCtxReset_v2, (Device device), reset_primary, device) \
  CALL(cuCtxDestroy, (Opaque context), destroy_context, context) \
  CALL(cuCtxDestroy_v2, (Opaque context), destroy_context, context) \
  CALL(cuCtxDetach, (Opaque context), detach_context, context) \
  CALL(cuGreenCtxCreate, (Opaque* green, Opaque resources, Device device, unsigned flags), \
       create_green_context, green, resources, device, flags) \
  CALL(cuGreenCtxDestroy, (Opaque green), destroy_green_context, green) \
  CALL(cuCtxFromGreenCtx, (Opaque* context, Opaque green), get_context_of_green, context, green) \
  CALL(cuModuleLoad, (Opaque* module, const char* file), measure_modules, module, file) \
  CALL(cuModuleLoadData, (Opaque* module, const void* image), measure_modules, module, image) \
  CALL(cuModuleLoadDataEx, \
       (Opaque* module, const void* image, unsigned count, void* options, void** values), \
       measure_modules, module, image, count, options, values) \
  CALL(cuModuleLoadFatBinary, (Opaque* module, const void* image), measure_modules, module, image) \
  CALL(cuModuleUnload, (Opaque module), measure_modules, module) \
  CALL(cuLibraryLoadData, \
       (Opaque* library, const void* code, void* options, void** values, unsigned count, \
        void* library_options, void** library_values, unsigned library_count), \
       measure_modules, library, code, options, values, count, library_options, library_values, \
       library_count) \
  CALL(cuLibraryLoadFromFile, \
       (Opaque* library, const char* file, void* options, void** values, unsigned count, \
        void* library_options, void** library_values, unsigned library_count), \
       measure_modules, library, file, options, values, count, library_options, library_values, \
       library_count) \
  CALL(cuLibraryUnload, (Opaque library), measure_modules, library)

// Hooks that are written out, in device_context_hooks.cpp and driver_lookup_hooks.cpp.
#define HEADROOM_WRITTEN_OUT_CALLS(CALL) \
  CALL(cuGetProcAddress, (const char*, void**, int, std::uint64_t)) \
  CALL(cuGetProcAddress_v2, (const char*, void**, int, std::uint64_t, int*)) \
  CALL(cuCtxSynchronize, ()) \
  CALL(cuCtxSynchronize_v2, (Opaque)) \
  CALL(cuDevicePrimaryCtxRetain, (Opaque*, Device))

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
  CALL(cuCtxGetCurrent, (Opaque*)) \
  CALL(cuCtxGetDevice, (Device*)) \
  CALL(cuCtxGetApiVersion, (Opaque, unsigned*)) \
  CALL(cuCtxPushCurrent_v2, (Opaque)) \
  CALL(cuCtxPopCurrent_v2, (Opaque*)) \
  CALL(cuDeviceGetName, (char*, int, Device)) \
  CALL(cuDeviceGetUuid, (void*, Device)) \
  CALL(cuDeviceGetUuid_v2, (void*, Device)) \
  CALL(cuDeviceGetAttribute, (int*, int, Device)) \
  CALL(cuDeviceGetMemPool, (Opaque*, Device)) \
  CALL(cuDeviceGetDefaultMemPool, (Opaque*, Device)) \
  CALL(cuDevicePrimaryCtxGetState, (Device, unsigned*, int*)) \
  CALL(cuStreamGetGreenCtx, (Opaque, Opaque*)) \
  CALL(cuStreamGetCtx, (Opaque, Opaque*)) \
  CALL(cuStreamGetCaptureInfo_v2, (Opaque, int*, std::uint64_t*, Opaque*, const Opaque**, std::size_t*)) \
  CALL(cuStreamGetCaptureInfo_v2_ptsz, \
       (Opaque, int*, std::uint64_t*, Opaque*, const Opaque**, std::size_t*)) \
  CALL(cuStreamGetCaptureInfo_v3, \
       (Opaque, int*, std::uint64_t*, Opaque*, const Opaque**, const void**, std::size_t*)) \
  CALL(cuStreamGetCaptureInfo_v3_ptsz, \
       (Opaque, int*, std::uint64_t*, Opaque*, const Opaque**, const void**, std::size_t*)) \
  CALL(cuGraphNodeGetDependencies, (Opaque, Opaque*, std::size_t*)) \
  CALL(cuGraphNodeGetDependencies_v2, (Opaque, Opaque*, void*, std::size_t*)) \
  CALL(cuThreadExchangeStreamCaptureMode, (int*)) \
  CALL(cuDeviceGetGraphMemAttribute, (Device, int, void*)) \
  CALL(cuMemPoolGetAttribute, (Opaque, int, void*)) \
  CALL(cuMemGetAllocationPropertiesFromHandle, (AllocationProperties*, Handle)) \
  CALL(cuMemGetAllocationGranularity, (std::size_t*, const AllocationProperties*, int)) \
  CALL(cuPointerGetAttribute, (void*, int, Pointer)) \
  CALL(cuMemGetAddressRange_v2, (Pointer*, std::size_t*, Pointer)) \
  CALL(cuArrayGetMemoryRequirements, (MemoryRequirements*, Opaque, Device)) \
  CALL(cuMipmappedArrayGetMemoryRequirements, (MemoryRequirements*, Opaque, Device))
// clang-format on

namespace headroom::preload::driver {

using namespace cuda;
using Result = Code;

// The driver's own functions; null if this driver does not have the function.
struct Real {
#define HEADROOM_DECLARE(name, parameters, ...) Result(*name) parameters = nullptr;
  HEADROOM_HOOKED_DRIVER_CALLS(HEADROOM_DECLARE)
  HEADROOM_USED_DRIVER_CALLS(HEADROOM_DECLARE)
#undef HEADROOM_DECLARE
};
extern Real real;

#define HEADROOM_DECLARE(name, parameters, ...) HEADROOM_HOOK Result name parameters;
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
