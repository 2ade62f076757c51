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

// `exported` is the symbol that the driver exports. cuGetProcAddress takes its name without "_v2", and
// `version`.
template <class Function>
Function find(const char* exported, int version) {
  void* function = nullptr;
  const std::string symbol = exported;
  const std::string base = symbol.ends_with("_v2") ? symbol.substr(0, symbol.size() - 3) : symbol;
  const char* const name = base.c_str();
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
  int version;
  // Inlined, so that stacks show the caller.
  [[gnu::always_inline]] Result operator()(Parameters... parameters) const {
    return find<Result (*)(Parameters...)>(exported, version)(parameters...);
  }
};

// clang-format off
// The functions that the programs call: the exported symbol, the version for cuGetProcAddress, and the types of
// the parameters.
#define CUDA_CALLS(CALL) \
  CALL(cuArray3DCreate_v2, 3020, Opaque*, const Array3dDescriptor*) \
  CALL(cuArrayCreate_v2, 3020, Opaque*, const ArrayDescriptor*) \
  CALL(cuArrayDestroy, 2000, Opaque) \
  CALL(cuCtxCreate_v2, 3020, Opaque*, unsigned, Device) \
  CALL(cuCtxDestroy_v2, 4000, Opaque) \
  CALL(cuCtxGetCurrent, 4000, Opaque*) \
  CALL(cuCtxSetCurrent, 4000, Opaque) \
  CALL(cuCtxSynchronize, 2000) \
  CALL(cuDeviceGetAttribute, 2000, int*, int, Device) \
  CALL(cuDeviceGetCount, 2000, int*) \
  CALL(cuDeviceGetDefaultMemPool, 11020, Opaque*, Device) \
  CALL(cuDeviceGetGraphMemAttribute, 11040, Device, int, void*) \
  CALL(cuDeviceGetMemPool, 11020, Opaque*, Device) \
  CALL(cuDevicePrimaryCtxRelease_v2, 11000, Device) \
  CALL(cuDevicePrimaryCtxRetain, 7000, Opaque*, Device) \
  CALL(cuGraphAddMemAllocNode, 11040, Opaque*, Opaque, const Opaque*, std::size_t, AllocationNode*) \
  CALL(cuGraphAddMemFreeNode, 11040, Opaque*, Opaque, const Opaque*, std::size_t, Pointer) \
  CALL(cuGraphCreate, 10000, Opaque*, unsigned) \
  CALL(cuGraphDestroy, 10000, Opaque) \
  CALL(cuGraphExecDestroy, 10000, Opaque) \
  CALL(cuGraphExecUpdate, 10020, Opaque, Opaque, Opaque*, int*) \
  CALL(cuGraphExecUpdate_v2, 12000, Opaque, Opaque, void*) \
  CALL(cuGraphInstantiateWithFlags, 11040, Opaque*, Opaque, unsigned long long) \
  CALL(cuGraphLaunch, 10000, Opaque, Opaque) \
  CALL(cuInit, 2000, unsigned) \
  CALL(cuIpcCloseMemHandle, 4010, Pointer) \
  CALL(cuIpcGetMemHandle, 4010, IpcHandle*, Pointer) \
  CALL(cuIpcOpenMemHandle_v2, 11000, Pointer*, IpcHandle, unsigned) \
  CALL(cuMemAddressFree, 10020, Pointer, std::size_t) \
  CALL(cuMemAddressReserve, 10020, Pointer*, std::size_t, std::size_t, Pointer, unsigned long long) \
  CALL(cuMemAllocAsync, 11020, Pointer*, std::size_t, Opaque) \
  CALL(cuMemAllocFromPoolAsync, 11020, Pointer*, std::size_t, Opaque, Opaque) \
  CALL(cuMemAllocManaged, 6000, Pointer*, std::size_t, unsigned) \
  CALL(cuMemAllocPitch_v2, 3020, Pointer*, std::size_t*, std::size_t, std::size_t, unsigned) \
  CALL(cuMemAlloc_v2, 3020, Pointer*, std::size_t) \
  CALL(cuMemCreate, 10020, Handle*, std::size_t, const AllocationProperties*, unsigned long long) \
  CALL(cuMemExportToShareableHandle, 10020, void*, Handle, int, unsigned long long) \
  CALL(cuMemFreeAsync, 11020, Pointer, Opaque) \
  CALL(cuMemFreeHost, 2000, void*) \
  CALL(cuMemFree_v2, 3020, Pointer) \
  CALL(cuMemGetInfo_v2, 3020, std::size_t*, std::size_t*) \
  CALL(cuMemHostAlloc, 2020, void**, std::size_t, unsigned) \
  CALL(cuMemHostRegister_v2, 6050, void*, std::size_t, unsigned) \
  CALL(cuMemHostUnregister, 4000, void*) \
  CALL(cuMemImportFromShareableHandle, 10020, Handle*, void*, int) \
  CALL(cuMemMap, 10020, Pointer, std::size_t, std::size_t, Handle, unsigned long long) \
  CALL(cuMemMapArrayAsync, 11010, ArrayMapping*, unsigned, Opaque) \
  CALL(cuMemPoolCreate, 11020, Opaque*, const PoolProperties*) \
  CALL(cuMemPoolDestroy, 11020, Opaque) \
  CALL(cuMemPoolTrimTo, 11020, Opaque, std::size_t) \
  CALL(cuMemRelease, 10020, Handle) \
  CALL(cuMemRetainAllocationHandle, 11000, Handle*, void*) \
  CALL(cuMemUnmap, 10020, Pointer, std::size_t) \
  CALL(cuMipmappedArrayCreate, 5000, Opaque*, const Array3dDescriptor*, unsigned) \
  CALL(cuMipmappedArrayDestroy, 5000, Opaque) \
  CALL(cuStreamBeginCapture_v2, 10010, Opaque, int) \
  CALL(cuStreamCreate, 2000, Opaque*, unsigned) \
  CALL(cuStreamDestroy_v2, 4000, Opaque) \
  CALL(cuStreamEndCapture, 10000, Opaque, Opaque*) \
  CALL(cuStreamSynchronize, 7000, Opaque)
// clang-format on

#define DECLARE(exported, version, ...) \
  inline constexpr DriverCall<Result(__VA_ARGS__)> exported{#exported, version};
CUDA_CALLS(DECLARE)
#undef DECLARE

inline void check(Result result, const char* what) {
  if (result != kSuccess) fail("failed", what, result);
}

}  // namespace cuda_program
