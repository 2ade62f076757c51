// The CUDA driver's functions, for traced test programs. `lookup` selects how they are found; see
// traced_cuda.cpp.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "types/cuda_driver_types.h"

namespace cuda_program {

using namespace headroom::cuda;
using Result = Code;

inline void* library = nullptr;
inline std::string lookup;
// Looks up a function of the library. A program that is linked with the hooks replaces this.
inline void* (*symbol_of)(void* from, const char* name) = [](void* from, const char* name) {
  return dlsym(from, name);
};

[[noreturn]] inline void fail(const char* what, const char* name, int code) {
  std::fprintf(stderr, "%s: %s (%d)\n", what, name, code);
  std::exit(2);
}

// `exported` is the symbol that the driver exports; `name` and `version` are the arguments of
// cuGetProcAddress.
template <class Function>
Function find(const char* exported, const char* name, int version) {
  void* function = nullptr;
  if (lookup == "dlsym" || lookup == "linked") {
    function = symbol_of(lookup == "linked" ? RTLD_DEFAULT : library, exported);
  } else if (lookup == "first") {
    const auto get = reinterpret_cast<Result (*)(const char*, void**, int, std::uint64_t)>(
        symbol_of(library, "cuGetProcAddress"));
    if (get(name, &function, version, 0) != kSuccess) function = nullptr;
  } else {
    const auto get = reinterpret_cast<Result (*)(const char*, void**, int, std::uint64_t, int*)>(
        symbol_of(library, "cuGetProcAddress_v2"));
    int status = 0;
    if (get(name, &function, version, lookup == "ptsz" ? 2 : 0, &status) != kSuccess) function = nullptr;
  }
  if (function == nullptr) fail("the driver has no", exported, 0);
  return reinterpret_cast<Function>(function);
}
template <class Signature>
struct DriverCall;
// A function of the driver, which is looked up at each call.
template <class... Parameters>
struct DriverCall<Result(Parameters...)> {
  const char* exported;
  const char* name;
  int version;
  // Inlined, so that stacks show the caller.
  [[gnu::always_inline]] Result operator()(Parameters... parameters) const {
    return find<Result (*)(Parameters...)>(exported, name, version)(parameters...);
  }
};

// clang-format off
// The functions that the programs call: the exported symbol, and its name and version for cuGetProcAddress.
#define CUDA_CALLS(CALL) \
  CALL(cuArray3DCreate_v2, (Opaque*, const Array3dDescriptor*), cuArray3DCreate, 3020) \
  CALL(cuArrayCreate_v2, (Opaque*, const ArrayDescriptor*), cuArrayCreate, 3020) \
  CALL(cuArrayDestroy, (Opaque), cuArrayDestroy, 2000) \
  CALL(cuCtxCreate_v2, (Opaque*, unsigned, Device), cuCtxCreate, 3020) \
  CALL(cuCtxDestroy_v2, (Opaque), cuCtxDestroy, 4000) \
  CALL(cuCtxGetCurrent, (Opaque*), cuCtxGetCurrent, 4000) \
  CALL(cuCtxSetCurrent, (Opaque), cuCtxSetCurrent, 4000) \
  CALL(cuCtxSynchronize, (), cuCtxSynchronize, 2000) \
  CALL(cuDeviceGetAttribute, (int*, int, Device), cuDeviceGetAttribute, 2000) \
  CALL(cuDeviceGetCount, (int*), cuDeviceGetCount, 2000) \
  CALL(cuDeviceGetDefaultMemPool, (Opaque*, Device), cuDeviceGetDefaultMemPool, 11020) \
  CALL(cuDeviceGetGraphMemAttribute, (Device, int, void*), cuDeviceGetGraphMemAttribute, 11040) \
  CALL(cuDeviceGetMemPool, (Opaque*, Device), cuDeviceGetMemPool, 11020) \
  CALL(cuDevicePrimaryCtxRelease_v2, (Device), cuDevicePrimaryCtxRelease, 11000) \
  CALL(cuDevicePrimaryCtxRetain, (Opaque*, Device), cuDevicePrimaryCtxRetain, 7000) \
  CALL(cuGraphAddMemAllocNode, \
       (Opaque*, Opaque, const Opaque*, std::size_t, AllocationNode*), cuGraphAddMemAllocNode, 11040) \
  CALL(cuGraphAddMemFreeNode, \
       (Opaque*, Opaque, const Opaque*, std::size_t, Pointer), cuGraphAddMemFreeNode, 11040) \
  CALL(cuGraphCreate, (Opaque*, unsigned), cuGraphCreate, 10000) \
  CALL(cuGraphDestroy, (Opaque), cuGraphDestroy, 10000) \
  CALL(cuGraphExecDestroy, (Opaque), cuGraphExecDestroy, 10000) \
  CALL(cuGraphExecUpdate, (Opaque, Opaque, Opaque*, int*), cuGraphExecUpdate, 10020) \
  CALL(cuGraphExecUpdate_v2, (Opaque, Opaque, void*), cuGraphExecUpdate, 12000) \
  CALL(cuGraphInstantiateWithFlags, \
       (Opaque*, Opaque, unsigned long long), cuGraphInstantiateWithFlags, 11040) \
  CALL(cuGraphLaunch, (Opaque, Opaque), cuGraphLaunch, 10000) \
  CALL(cuInit, (unsigned), cuInit, 2000) \
  CALL(cuIpcCloseMemHandle, (Pointer), cuIpcCloseMemHandle, 4010) \
  CALL(cuIpcGetMemHandle, (IpcHandle*, Pointer), cuIpcGetMemHandle, 4010) \
  CALL(cuIpcOpenMemHandle_v2, (Pointer*, IpcHandle, unsigned), cuIpcOpenMemHandle, 11000) \
  CALL(cuMemAddressFree, (Pointer, std::size_t), cuMemAddressFree, 10020) \
  CALL(cuMemAddressReserve, \
       (Pointer*, std::size_t, std::size_t, Pointer, unsigned long long), cuMemAddressReserve, 10020) \
  CALL(cuMemAllocAsync, (Pointer*, std::size_t, Opaque), cuMemAllocAsync, 11020) \
  CALL(cuMemAllocFromPoolAsync, (Pointer*, std::size_t, Opaque, Opaque), cuMemAllocFromPoolAsync, 11020) \
  CALL(cuMemAllocManaged, (Pointer*, std::size_t, unsigned), cuMemAllocManaged, 6000) \
  CALL(cuMemAllocPitch_v2, \
       (Pointer*, std::size_t*, std::size_t, std::size_t, unsigned), cuMemAllocPitch, 3020) \
  CALL(cuMemAlloc_v2, (Pointer*, std::size_t), cuMemAlloc, 3020) \
  CALL(cuMemCreate, \
       (Handle*, std::size_t, const AllocationProperties*, unsigned long long), cuMemCreate, 10020) \
  CALL(cuMemExportToShareableHandle, \
       (void*, Handle, int, unsigned long long), cuMemExportToShareableHandle, 10020) \
  CALL(cuMemFreeAsync, (Pointer, Opaque), cuMemFreeAsync, 11020) \
  CALL(cuMemFreeHost, (void*), cuMemFreeHost, 2000) \
  CALL(cuMemFree_v2, (Pointer), cuMemFree, 3020) \
  CALL(cuMemGetInfo_v2, (std::size_t*, std::size_t*), cuMemGetInfo, 3020) \
  CALL(cuMemHostAlloc, (void**, std::size_t, unsigned), cuMemHostAlloc, 2020) \
  CALL(cuMemHostRegister_v2, (void*, std::size_t, unsigned), cuMemHostRegister, 6050) \
  CALL(cuMemHostUnregister, (void*), cuMemHostUnregister, 4000) \
  CALL(cuMemImportFromShareableHandle, (Handle*, void*, int), cuMemImportFromShareableHandle, 10020) \
  CALL(cuMemMap, (Pointer, std::size_t, std::size_t, Handle, unsigned long long), cuMemMap, 10020) \
  CALL(cuMemMapArrayAsync, (ArrayMapping*, unsigned, Opaque), cuMemMapArrayAsync, 11010) \
  CALL(cuMemPoolCreate, (Opaque*, const PoolProperties*), cuMemPoolCreate, 11020) \
  CALL(cuMemPoolDestroy, (Opaque), cuMemPoolDestroy, 11020) \
  CALL(cuMemPoolTrimTo, (Opaque, std::size_t), cuMemPoolTrimTo, 11020) \
  CALL(cuMemRelease, (Handle), cuMemRelease, 10020) \
  CALL(cuMemRetainAllocationHandle, (Handle*, void*), cuMemRetainAllocationHandle, 11000) \
  CALL(cuMemUnmap, (Pointer, std::size_t), cuMemUnmap, 10020) \
  CALL(cuMipmappedArrayCreate, (Opaque*, const Array3dDescriptor*, unsigned), cuMipmappedArrayCreate, 5000) \
  CALL(cuMipmappedArrayDestroy, (Opaque), cuMipmappedArrayDestroy, 5000) \
  CALL(cuStreamBeginCapture_v2, (Opaque, int), cuStreamBeginCapture, 10010) \
  CALL(cuStreamCreate, (Opaque*, unsigned), cuStreamCreate, 2000) \
  CALL(cuStreamDestroy_v2, (Opaque), cuStreamDestroy, 4000) \
  CALL(cuStreamEndCapture, (Opaque, Opaque*), cuStreamEndCapture, 10000) \
  CALL(cuStreamSynchronize, (Opaque), cuStreamSynchronize, 7000)
// clang-format on

#define DECLARE(exported, parameters, name, version) \
  inline constexpr DriverCall<Result parameters> exported{#exported, #name, version};
CUDA_CALLS(DECLARE)
#undef DECLARE

inline void check(Result result, const char* what) {
  if (result != kSuccess) fail("failed", what, result);
}

}  // namespace cuda_program
