// The CUDA driver, found at run time: no toolkit is needed to build, and none to run. Declared here is what
// Headroom itself calls (model runtimes bring their own); names and types follow NVIDIA's cuda.h, which
// promises to keep them. Under the preload library these calls are in its ledger like any program's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace headroom::cuda {

using Code = int;  // CUresult
inline constexpr Code kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100;
using Pointer = std::uint64_t;  // CUdeviceptr
using Handle = void*;           // CUcontext, CUstream, CUevent, …

// The driver's functions. Those behind the gap are of newer drivers and null where it has none.
struct Functions {
  Code (*cuInit)(unsigned);
  Code (*cuDeviceGetCount)(int*);
  Code (*cuDeviceGet)(int*, int);
  Code (*cuDeviceGetName)(char*, int, int);
  Code (*cuDeviceGetAttribute)(int*, int, int);
  Code (*cuDeviceTotalMem_v2)(std::size_t*, int);
  Code (*cuDevicePrimaryCtxRetain)(Handle*, int);
  Code (*cuDevicePrimaryCtxRelease_v2)(int);
  Code (*cuCtxGetCurrent)(Handle*);
  Code (*cuCtxSetCurrent)(Handle);
  Code (*cuStreamCreate)(Handle*, unsigned);
  Code (*cuStreamDestroy_v2)(Handle);
  Code (*cuStreamSynchronize)(Handle);
  Code (*cuEventCreate)(Handle*, unsigned);
  Code (*cuEventDestroy_v2)(Handle);
  Code (*cuEventRecord)(Handle, Handle);
  Code (*cuEventElapsedTime)(float*, Handle, Handle);
  Code (*cuMemHostAlloc)(void**, std::size_t, unsigned);
  Code (*cuMemHostRegister_v2)(void*, std::size_t, unsigned);
  Code (*cuMemHostUnregister)(void*);
  Code (*cuMemFreeHost)(void*);
  Code (*cuMemAlloc_v2)(Pointer*, std::size_t);
  Code (*cuMemFree_v2)(Pointer);
  Code (*cuMemcpyHtoDAsync_v2)(Pointer, const void*, std::size_t, Handle);
  Code (*cuMemcpyDtoHAsync_v2)(void*, Pointer, std::size_t, Handle);

  Code (*cuGetErrorName)(Code, const char**);
  Code (*cuDeviceGetUuid)(void*, int);
  Code (*cuDeviceGetUuid_v2)(void*, int);  // cuDeviceGetUuid, where the driver has no other
  Code (*cuMemGetInfo_v2)(std::size_t*, std::size_t*);
};

// What does not change of a device.
struct DeviceFacts {
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // "GPU-…", as NVML has it; empty where the driver does not say
  Bytes total;       // under a limit of the preload library: the limit
  bool is_integrated = false;
};

// Opened once, for as long as the process lives.
class Driver {
 public:
  // Opens libcuda.so.1 and initialises it. The error says what is missing: the driver, a function of it, a
  // GPU.
  static Result<const Driver*> open();

  const Functions& call() const { return functions_; }
  int device_count() const { return devices_; }
  // An error that says how many there are, and what hides others, if there is no such device.
  Status check_ordinal(unsigned ordinal) const;
  DeviceFacts facts(unsigned ordinal) const;
  // "CUDA_ERROR_OUT_OF_MEMORY"; "error 2" from drivers that do not say.
  std::string name_of(Code code) const;

 private:
  Driver() = default;
  Functions functions_{};
  int devices_ = 0;
};

}  // namespace headroom::cuda
