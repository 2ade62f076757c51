// The table of CUDA driver functions that the tracer hooks, and of those that it calls. NVIDIA never changes
// the signature of a versioned name (cuMemAlloc_v2). A variant for the per-thread default stream (_ptsz) is a
// separate function. The declarations, the pointers to the real functions and the substitution table are
// generated from these two lists.
//
// Functions that run often are left out on purpose: launches of kernels and graphs, copies.
#pragma once

#include "preload/real_functions.h"
#include "types/cuda_driver_types.h"

// clang-format off
#define HEADROOM_HOOKED_DRIVER_CALLS(CALL)                                                                    \
  /* function lookup */                                                                                       \
  CALL(cuGetProcAddress, (const char*, void**, int, std::uint64_t))                                           \
  CALL(cuGetProcAddress_v2, (const char*, void**, int, std::uint64_t, int*))                                  \
  /* free and total memory */                                                                                 \
  CALL(cuMemGetInfo, (unsigned*, unsigned*))                                                                  \
  CALL(cuMemGetInfo_v2, (std::size_t*, std::size_t*))                                                         \
  CALL(cuDeviceTotalMem, (unsigned*, Device))                                                                 \
  CALL(cuDeviceTotalMem_v2, (std::size_t*, Device))                                                           \
  /* pointers */                                                                                              \
  CALL(cuMemAlloc, (unsigned*, unsigned))                                                                     \
  CALL(cuMemAlloc_v2, (Pointer*, std::size_t))                                                                \
  CALL(cuMemAllocPitch, (unsigned*, unsigned*, unsigned, unsigned, unsigned))                                 \
  CALL(cuMemAllocPitch_v2, (Pointer*, std::size_t*, std::size_t, std::size_t, unsigned))                      \
  CALL(cuMemAllocManaged, (Pointer*, std::size_t, unsigned))                                                  \
  CALL(cuMemFree, (unsigned))                                                                                 \
  CALL(cuMemFree_v2, (Pointer))                                                                               \
  /* host memory */                                                                                           \
  CALL(cuMemAllocHost, (void**, unsigned))                                                                    \
  CALL(cuMemAllocHost_v2, (void**, std::size_t))                                                              \
  CALL(cuMemHostAlloc, (void**, std::size_t, unsigned))                                                       \
  CALL(cuMemFreeHost, (void*))                                                                                \
  CALL(cuMemHostRegister, (void*, std::size_t, unsigned))                                                     \
  CALL(cuMemHostRegister_v2, (void*, std::size_t, unsigned))                                                  \
  CALL(cuMemHostUnregister, (void*))                                                                          \
  /* stream-ordered allocation and pools */                                                                   \
  CALL(cuMemAllocAsync, (Pointer*, std::size_t, Opaque))                                                      \
  CALL(cuMemAllocAsync_ptsz, (Pointer*, std::size_t, Opaque))                                                 \
  CALL(cuMemAllocFromPoolAsync, (Pointer*, std::size_t, Opaque, Opaque))                                      \
  CALL(cuMemAllocFromPoolAsync_ptsz, (Pointer*, std::size_t, Opaque, Opaque))                                 \
  CALL(cuMemFreeAsync, (Pointer, Opaque))                                                                     \
  CALL(cuMemFreeAsync_ptsz, (Pointer, Opaque))                                                                \
  CALL(cuMemPoolCreate, (Opaque*, const PoolProperties*))                                                     \
  CALL(cuMemGetDefaultMemPool, (Opaque*, Location*, int))                                                     \
  CALL(cuMemGetMemPool, (Opaque*, Location*, int))                                                            \
  CALL(cuMemPoolDestroy, (Opaque))                                                                            \
  CALL(cuDeviceSetMemPool, (Device, Opaque))                                                                  \
  CALL(cuMemSetMemPool, (Location*, int, Opaque))                                                             \
  CALL(cuMemPoolTrimTo, (Opaque, std::size_t))                                                                \
  CALL(cuMemPoolExportPointer, (void*, Pointer))                                                              \
  CALL(cuMemPoolImportPointer, (Pointer*, Opaque, void*))                                                     \
  /* memory by handle, and virtual addresses */                                                               \
  CALL(cuMemCreate, (Handle*, std::size_t, const AllocationProperties*, unsigned long long))                  \
  CALL(cuMemRelease, (Handle))                                                                                \
  CALL(cuMemRetainAllocationHandle, (Handle*, void*))                                                         \
  CALL(cuMemExportToShareableHandle, (void*, Handle, int, unsigned long long))                                \
  CALL(cuMemMapArrayAsync, (ArrayMapping*, unsigned, Opaque))                                                 \
  CALL(cuMemMapArrayAsync_ptsz, (ArrayMapping*, unsigned, Opaque))                                            \
  CALL(cuMemImportFromShareableHandle, (Handle*, void*, int))                                                 \
  CALL(cuMemGetHandleForAddressRange, (void*, Pointer, std::size_t, int, unsigned long long))                 \
  CALL(cuMemAddressReserve, (Pointer*, std::size_t, std::size_t, Pointer, unsigned long long))                \
  CALL(cuMemAddressFree, (Pointer, std::size_t))                                                              \
  CALL(cuMemMap, (Pointer, std::size_t, std::size_t, Handle, unsigned long long))                             \
  CALL(cuMemUnmap, (Pointer, std::size_t))                                                                    \
  /* arrays */                                                                                                \
  CALL(cuArrayCreate, (Opaque*, const ArrayDescriptorV1*))                                                    \
  CALL(cuArrayCreate_v2, (Opaque*, const ArrayDescriptor*))                                                   \
  CALL(cuArray3DCreate, (Opaque*, const Array3dDescriptorV1*))                                                \
  CALL(cuArray3DCreate_v2, (Opaque*, const Array3dDescriptor*))                                               \
  CALL(cuArrayDestroy, (Opaque))                                                                              \
  CALL(cuMipmappedArrayCreate, (Opaque*, const Array3dDescriptor*, unsigned))                                 \
  CALL(cuMipmappedArrayDestroy, (Opaque))                                                                     \
  /* memory of other processes and APIs */                                                                    \
  CALL(cuIpcGetMemHandle, (IpcHandle*, Pointer))                                                              \
  CALL(cuIpcOpenMemHandle, (Pointer*, IpcHandle, unsigned))                                                   \
  CALL(cuIpcOpenMemHandle_v2, (Pointer*, IpcHandle, unsigned))                                                \
  CALL(cuIpcCloseMemHandle, (Pointer))                                                                        \
  CALL(cuImportExternalMemory, (Opaque*, const ExternalMemoryHandle*))                                        \
  CALL(cuDestroyExternalMemory, (Opaque))                                                                     \
  /* graphs with memory nodes, and stream capture */                                                          \
  CALL(cuStreamDestroy, (Opaque))                                                                             \
  CALL(cuStreamDestroy_v2, (Opaque))                                                                          \
  CALL(cuStreamBeginCapture, (Opaque))                                                                        \
  CALL(cuStreamBeginCapture_ptsz, (Opaque))                                                                   \
  CALL(cuStreamBeginCapture_v2, (Opaque, int))                                                                \
  CALL(cuStreamBeginCapture_v2_ptsz, (Opaque, int))                                                           \
  CALL(cuStreamBeginCaptureToGraph, (Opaque, Opaque, const Opaque*, const void*, std::size_t, int))           \
  CALL(cuStreamBeginCaptureToGraph_ptsz, (Opaque, Opaque, const Opaque*, const void*, std::size_t, int))      \
  CALL(cuStreamBeginRecaptureToGraph, (Opaque, int, Opaque, void*, void*))                                    \
  CALL(cuStreamBeginRecaptureToGraph_ptsz, (Opaque, int, Opaque, void*, void*))                               \
  CALL(cuStreamEndCapture, (Opaque, Opaque*))                                                                 \
  CALL(cuStreamEndCapture_ptsz, (Opaque, Opaque*))                                                            \
  CALL(cuGraphAddMemAllocNode, (Opaque*, Opaque, const Opaque*, std::size_t, AllocationNode*))                \
  CALL(cuGraphAddMemFreeNode, (Opaque*, Opaque, const Opaque*, std::size_t, Pointer))                         \
  CALL(cuGraphAddNode, (Opaque*, Opaque, const Opaque*, std::size_t, NodeParameters*))                        \
  CALL(cuGraphAddNode_v2, (Opaque*, Opaque, const Opaque*, const void*, std::size_t, NodeParameters*))        \
  CALL(cuGraphInstantiate, (Opaque*, Opaque, Opaque*, char*, std::size_t))                                    \
  CALL(cuGraphInstantiate_v2, (Opaque*, Opaque, Opaque*, char*, std::size_t))                                 \
  CALL(cuGraphInstantiateWithFlags, (Opaque*, Opaque, unsigned long long))                                    \
  CALL(cuGraphInstantiateWithParams, (Opaque*, Opaque, void*))                                                \
  CALL(cuGraphInstantiateWithParams_ptsz, (Opaque*, Opaque, void*))                                           \
  CALL(cuGraphExecUpdate, (Opaque, Opaque, Opaque*, int*))                                                    \
  CALL(cuGraphExecUpdate_v2, (Opaque, Opaque, void*))                                                         \
  CALL(cuGraphExecDestroy, (Opaque))                                                                          \
  CALL(cuGraphDestroy, (Opaque))                                                                              \
  CALL(cuDeviceGraphMemTrim, (Device))                                                                        \
  /* contexts and modules */                                                                                  \
  CALL(cuCtxCreate, (Opaque*, unsigned, Device))                                                              \
  CALL(cuCtxCreate_v2, (Opaque*, unsigned, Device))                                                           \
  CALL(cuCtxCreate_v3, (Opaque*, void*, int, unsigned, Device))                                               \
  CALL(cuCtxCreate_v4, (Opaque*, void*, unsigned, Device))                                                    \
  CALL(cuCtxSynchronize, ())                                                                                  \
  CALL(cuCtxSynchronize_v2, (Opaque))                                                                         \
  CALL(cuDevicePrimaryCtxRetain, (Opaque*, Device))                                                           \
  CALL(cuDevicePrimaryCtxRelease, (Device))                                                                   \
  CALL(cuDevicePrimaryCtxRelease_v2, (Device))                                                                \
  CALL(cuDevicePrimaryCtxReset, (Device))                                                                     \
  CALL(cuDevicePrimaryCtxReset_v2, (Device))                                                                  \
  CALL(cuCtxDestroy, (Opaque))                                                                                \
  CALL(cuCtxDestroy_v2, (Opaque))                                                                             \
  CALL(cuCtxDetach, (Opaque))                                                                                 \
  CALL(cuGreenCtxCreate, (Opaque*, Opaque, Device, unsigned))                                                 \
  CALL(cuGreenCtxDestroy, (Opaque))                                                                           \
  CALL(cuCtxFromGreenCtx, (Opaque*, Opaque))                                                                  \
  CALL(cuModuleLoad, (Opaque*, const char*))                                                                  \
  CALL(cuModuleLoadData, (Opaque*, const void*))                                                              \
  CALL(cuModuleLoadDataEx, (Opaque*, const void*, unsigned, void*, void**))                                   \
  CALL(cuModuleLoadFatBinary, (Opaque*, const void*))                                                         \
  CALL(cuModuleUnload, (Opaque))                                                                              \
  CALL(cuLibraryLoadData, (Opaque*, const void*, void*, void**, unsigned, void*, void**, unsigned))           \
  CALL(cuLibraryLoadFromFile, (Opaque*, const char*, void*, void**, unsigned, void*, void**, unsigned))       \
  CALL(cuLibraryUnload, (Opaque))

#define HEADROOM_USED_DRIVER_CALLS(CALL)                                                                      \
  CALL(cuCtxGetCurrent, (Opaque*))                                                                            \
  CALL(cuCtxGetDevice, (Device*))                                                                             \
  CALL(cuCtxGetApiVersion, (Opaque, unsigned*))                                                               \
  CALL(cuCtxPushCurrent_v2, (Opaque))                                                                         \
  CALL(cuCtxPopCurrent_v2, (Opaque*))                                                                         \
  CALL(cuDeviceGetName, (char*, int, Device))                                                                 \
  CALL(cuDeviceGetUuid, (void*, Device))                                                                      \
  CALL(cuDeviceGetUuid_v2, (void*, Device))                                                                   \
  CALL(cuDeviceGetAttribute, (int*, int, Device))                                                             \
  CALL(cuDeviceGetMemPool, (Opaque*, Device))                                                                 \
  CALL(cuDeviceGetDefaultMemPool, (Opaque*, Device))                                                          \
  CALL(cuDevicePrimaryCtxGetState, (Device, unsigned*, int*))                                                 \
  CALL(cuStreamGetGreenCtx, (Opaque, Opaque*))                                                                \
  CALL(cuStreamGetCtx, (Opaque, Opaque*))                                                                     \
  CALL(cuStreamGetCaptureInfo_v2, (Opaque, int*, std::uint64_t*, Opaque*, const Opaque**, std::size_t*))      \
  CALL(cuStreamGetCaptureInfo_v2_ptsz, (Opaque, int*, std::uint64_t*, Opaque*, const Opaque**, std::size_t*)) \
  CALL(cuStreamGetCaptureInfo_v3,                                                                             \
       (Opaque, int*, std::uint64_t*, Opaque*, const Opaque**, const void**, std::size_t*))                   \
  CALL(cuStreamGetCaptureInfo_v3_ptsz,                                                                        \
       (Opaque, int*, std::uint64_t*, Opaque*, const Opaque**, const void**, std::size_t*))                   \
  CALL(cuGraphNodeGetDependencies, (Opaque, Opaque*, std::size_t*))                                           \
  CALL(cuGraphNodeGetDependencies_v2, (Opaque, Opaque*, void*, std::size_t*))                                 \
  CALL(cuThreadExchangeStreamCaptureMode, (int*))                                                             \
  CALL(cuDeviceGetGraphMemAttribute, (Device, int, void*))                                                    \
  CALL(cuMemPoolGetAttribute, (Opaque, int, void*))                                                           \
  CALL(cuMemGetAllocationPropertiesFromHandle, (AllocationProperties*, Handle))                               \
  CALL(cuMemGetAllocationGranularity, (std::size_t*, const AllocationProperties*, int))                       \
  CALL(cuPointerGetAttribute, (void*, int, Pointer))                                                          \
  CALL(cuMemGetAddressRange_v2, (Pointer*, std::size_t*, Pointer))                                            \
  CALL(cuArrayGetMemoryRequirements, (MemoryRequirements*, Opaque, Device))                                   \
  CALL(cuMipmappedArrayGetMemoryRequirements, (MemoryRequirements*, Opaque, Device))
// clang-format on

namespace headroom::preload::driver {

using namespace cuda;
using Result = Code;

// The driver's own functions; null if this driver does not have the function.
struct Real {
#define HEADROOM_DECLARE(name, parameters) Result(*name) parameters = nullptr;
  HEADROOM_HOOKED_DRIVER_CALLS(HEADROOM_DECLARE)
  HEADROOM_USED_DRIVER_CALLS(HEADROOM_DECLARE)
#undef HEADROOM_DECLARE
};
extern Real real;

#define HEADROOM_DECLARE(name, parameters) HEADROOM_HOOK Result name parameters;
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
