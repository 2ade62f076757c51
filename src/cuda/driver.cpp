#include "cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "model/device_name.h"

namespace headroom::cuda {
namespace {

constexpr const char* kOrUseTheCpu =
    "install or load NVIDIA's driver, or do without the GPU (headroom bench: --device cpu)";
constexpr int kAttributeIntegrated = 18;  // CU_DEVICE_ATTRIBUTE_INTEGRATED

template <class Function>
void take(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

// The name of a function that is missing, or nothing.
const char* take_functions(void* library, Functions& functions) {
#define HEADROOM_TAKE(name)             \
  take(library, #name, functions.name); \
  if (functions.name == nullptr) return #name;
  HEADROOM_TAKE(cuInit)
  HEADROOM_TAKE(cuDeviceGetCount)
  HEADROOM_TAKE(cuDeviceGet)
  HEADROOM_TAKE(cuDeviceGetName)
  HEADROOM_TAKE(cuDeviceGetAttribute)
  HEADROOM_TAKE(cuDeviceTotalMem_v2)
  HEADROOM_TAKE(cuDevicePrimaryCtxRetain)
  HEADROOM_TAKE(cuDevicePrimaryCtxRelease_v2)
  HEADROOM_TAKE(cuCtxGetCurrent)
  HEADROOM_TAKE(cuCtxSetCurrent)
  HEADROOM_TAKE(cuStreamCreate)
  HEADROOM_TAKE(cuStreamDestroy_v2)
  HEADROOM_TAKE(cuStreamSynchronize)
  HEADROOM_TAKE(cuEventCreate)
  HEADROOM_TAKE(cuEventDestroy_v2)
  HEADROOM_TAKE(cuEventRecord)
  HEADROOM_TAKE(cuEventElapsedTime)
  HEADROOM_TAKE(cuMemHostAlloc)
  HEADROOM_TAKE(cuMemHostRegister_v2)
  HEADROOM_TAKE(cuMemHostUnregister)
  HEADROOM_TAKE(cuMemFreeHost)
  HEADROOM_TAKE(cuMemAlloc_v2)
  HEADROOM_TAKE(cuMemFree_v2)
  HEADROOM_TAKE(cuMemcpyHtoDAsync_v2)
  HEADROOM_TAKE(cuMemcpyDtoHAsync_v2)
#undef HEADROOM_TAKE
  take(library, "cuGetErrorName", functions.cuGetErrorName);
  take(library, "cuMemGetInfo_v2", functions.cuMemGetInfo_v2);
  take(library, "cuDeviceGetUuid_v2", functions.cuDeviceGetUuid_v2);
  take(library, "cuDeviceGetUuid", functions.cuDeviceGetUuid);  // the same, without MIG's
  if (functions.cuDeviceGetUuid_v2 == nullptr) functions.cuDeviceGetUuid_v2 = functions.cuDeviceGetUuid;
  return nullptr;
}

}  // namespace

Result<const Driver*> Driver::open() {
  static Driver driver;
  static bool is_open = false;
  static std::mutex mutex;  // pools are made by any thread
  const std::lock_guard lock(mutex);
  if (is_open) return &driver;
  // Stays open: its threads may outlive whoever opened it.
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return input_error("there is no CUDA driver here", reason == nullptr ? "it cannot be loaded" : reason,
                       kOrUseTheCpu);
  }
  if (const char* missing = take_functions(library, driver.functions_))
    return input_error("the CUDA driver is too old", fmt::format("it has no {}", missing),
                       "install a newer driver, or do without the GPU (headroom bench: --device cpu)");
  const Code code = driver.functions_.cuInit(0);
  if (code == kNoDevice)
    return input_error(
        "the CUDA driver sees no GPU", driver.name_of(code),
        std::getenv("CUDA_VISIBLE_DEVICES") != nullptr
            ? "CUDA_VISIBLE_DEVICES may hide it; or do without the GPU (headroom bench: --device cpu)"
            : "check nvidia-smi, or do without the GPU (headroom bench: --device cpu)");
  if (code != kSuccess || driver.functions_.cuDeviceGetCount(&driver.devices_) != kSuccess)
    return input_error("the CUDA driver does not start", driver.name_of(code), kOrUseTheCpu);
  is_open = true;
  return &driver;
}

Status Driver::check_ordinal(unsigned ordinal) const {
  if (ordinal < static_cast<unsigned>(devices_)) return {};
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string shown = devices_ == 0   ? "none"
                            : devices_ == 1 ? "one, cuda:0"
                                            : fmt::format("{}, from cuda:0 on", devices_);
  return input_error(
      fmt::format("there is no device cuda:{}", ordinal),
      fmt::format("the driver shows {}{}", shown,
                  visible == nullptr ? "" : fmt::format(" with CUDA_VISIBLE_DEVICES='{}'", visible)),
      devices_ > 0 ? "give one of those"
                   : "check nvidia-smi, or do without the GPU (headroom bench: --device cpu)");
}

DeviceFacts Driver::facts(unsigned ordinal) const {
  DeviceFacts facts;
  int device = 0, integrated = 0;
  if (functions_.cuDeviceGet(&device, static_cast<int>(ordinal)) != kSuccess) return facts;
  std::array<char, 128> name{};
  if (functions_.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device) == kSuccess)
    facts.name = name.data();
  std::uint8_t uuid[16] = {}, of_gpu[16] = {};
  if (functions_.cuDeviceGetUuid_v2 != nullptr && functions_.cuDeviceGetUuid_v2(uuid, device) == kSuccess) {
    // An instance of MIG has one of its own, which the first function does not know.
    const bool is_mig_instance = functions_.cuDeviceGetUuid != nullptr &&
                                 functions_.cuDeviceGetUuid(of_gpu, device) == kSuccess &&
                                 std::memcmp(uuid, of_gpu, sizeof uuid) != 0;
    facts.uuid = gpu_uuid_text(uuid, is_mig_instance);
  }
  std::size_t total = 0;
  if (functions_.cuDeviceTotalMem_v2(&total, device) == kSuccess)
    facts.total = Bytes{static_cast<std::int64_t>(total)};
  if (functions_.cuDeviceGetAttribute(&integrated, kAttributeIntegrated, device) == kSuccess)
    facts.is_integrated = integrated != 0;
  return facts;
}

std::string Driver::name_of(Code code) const {
  const char* name = nullptr;
  if (functions_.cuGetErrorName != nullptr && functions_.cuGetErrorName(code, &name) == kSuccess &&
      name != nullptr)
    return name;
  return fmt::format("error {}", code);
}

}  // namespace headroom::cuda
