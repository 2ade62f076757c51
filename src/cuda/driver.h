// The CUDA driver, loaded at run time: no toolkit is needed to build or run. This file declares the functions
// that Headroom itself calls (model runtimes bring their own). Names and types follow NVIDIA's cuda.h, whose
// ABI is stable. The preload library records these calls like those of any program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace headroom::cuda {

using Code = int;  // CUresult
inline constexpr Code kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100;
using Pointer = std::uint64_t;  // CUdeviceptr
using Handle = void*;           // CUcontext, CUstream, CUevent, …

// The driver's functions. Those after the blank line are optional: they are null if the driver lacks them.
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
  Code (*cuDeviceGetUuid_v2)(void*, int);  // cuDeviceGetUuid if the driver lacks it
  Code (*cuMemGetInfo_v2)(std::size_t*, std::size_t*);
};

// The advice of errors without a usable GPU. `headroom run` and `trace` have no --device and replace it.
inline constexpr std::string_view kUseCpu = "run on the CPU (headroom bench: --device cpu)";

// Constant properties of a device.
struct DeviceFacts {
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // "GPU-…", as NVML reports it; empty if unknown
  Bytes total;       // the device's memory; under a limit of the preload library, the limit
  bool is_integrated = false;
};

// Opened once, and never closed.
class Driver {
 public:
  // Opens and initialises libcuda.so.1. The error names what is missing: the driver, a function or a GPU.
  static Result<const Driver*> open();

  const Functions& call() const { return functions_; }
  int device_count() const { return devices_; }
  // Fails if there is no such device. The error reports the number of devices, and whether
  // CUDA_VISIBLE_DEVICES is set.
  Status check_ordinal(unsigned ordinal) const;
  DeviceFacts facts(unsigned ordinal) const;
  // "CUDA_ERROR_OUT_OF_MEMORY", or "error 2" if the driver knows no name.
  std::string name_of(Code code) const;

 private:
  Driver() = default;
  Functions functions_{};
  int devices_ = 0;
};

}  // namespace headroom::cuda
