// The CUDA driver, loaded at run time: no toolkit is needed to build or run. This file declares the functions
// that Headroom itself calls (model runtimes bring their own). The preload library records these calls like
// those of any program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/units.h"
#include "types/cuda_driver_types.h"

namespace headroom::cuda {

// clang-format off
// The driver's functions that Headroom calls. To call another one, add it here.
#define HEADROOM_REQUIRED_CUDA_CALLS(CALL) \
  CALL(cuInit, (unsigned)) \
  CALL(cuDeviceGetCount, (int*)) \
  CALL(cuDeviceGet, (int*, int)) \
  CALL(cuDeviceGetName, (char*, int, int)) \
  CALL(cuDeviceGetAttribute, (int*, int, int)) \
  CALL(cuDeviceTotalMem_v2, (std::size_t*, int)) \
  CALL(cuDevicePrimaryCtxRetain, (Opaque*, int)) \
  CALL(cuDevicePrimaryCtxRelease_v2, (int)) \
  CALL(cuCtxGetCurrent, (Opaque*)) \
  CALL(cuCtxSetCurrent, (Opaque)) \
  CALL(cuStreamCreate, (Opaque*, unsigned)) \
  CALL(cuStreamDestroy_v2, (Opaque)) \
  CALL(cuStreamSynchronize, (Opaque)) \
  CALL(cuEventCreate, (Opaque*, unsigned)) \
  CALL(cuEventDestroy_v2, (Opaque)) \
  CALL(cuEventRecord, (Opaque, Opaque)) \
  CALL(cuEventElapsedTime, (float*, Opaque, Opaque)) \
  CALL(cuMemHostAlloc, (void**, std::size_t, unsigned)) \
  CALL(cuMemHostRegister_v2, (void*, std::size_t, unsigned)) \
  CALL(cuMemHostUnregister, (void*)) \
  CALL(cuMemFreeHost, (void*)) \
  CALL(cuMemAlloc_v2, (Pointer*, std::size_t)) \
  CALL(cuMemFree_v2, (Pointer)) \
  CALL(cuMemcpyHtoDAsync_v2, (Pointer, const void*, std::size_t, Opaque)) \
  CALL(cuMemcpyDtoHAsync_v2, (void*, Pointer, std::size_t, Opaque))
// Null if the driver lacks them. cuDeviceGetUuid_v2 is cuDeviceGetUuid then.
#define HEADROOM_OPTIONAL_CUDA_CALLS(CALL) \
  CALL(cuGetErrorName, (Code, const char**)) \
  CALL(cuDeviceGetUuid, (void*, int)) \
  CALL(cuDeviceGetUuid_v2, (void*, int)) \
  CALL(cuMemGetInfo_v2, (std::size_t*, std::size_t*))
// clang-format on

struct Functions {
#define HEADROOM_DECLARE(name, parameters) Code(*name) parameters;  // NOLINT(bugprone-macro-parentheses)
  HEADROOM_REQUIRED_CUDA_CALLS(HEADROOM_DECLARE)
  HEADROOM_OPTIONAL_CUDA_CALLS(HEADROOM_DECLARE)
#undef HEADROOM_DECLARE
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
  // The major and minor number; zeros if unknown.
  std::pair<int, int> compute_capability(unsigned ordinal) const;
  // "CUDA_ERROR_OUT_OF_MEMORY", or "error 2" if the driver knows no name.
  std::string name_of(Code code) const;

 private:
  Driver() = default;
  Functions functions_{};
  int devices_ = 0;
};

}  // namespace headroom::cuda
