#include "cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/text.h"
#include "types/device_name.h"

namespace headroom::cuda {
namespace {

std::string install_or_use_cpu() { return fmt::format("install or load NVIDIA's driver, or {}", kUseCpu); }

template <class Function>
void load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

// Returns the name of a missing function, or null.
const char* load_functions(void* library, Functions& functions) {
#define HEADROOM_LOAD(name, parameters) load(library, #name, functions.name);
  HEADROOM_REQUIRED_CUDA_CALLS(HEADROOM_LOAD)
  HEADROOM_OPTIONAL_CUDA_CALLS(HEADROOM_LOAD)
#undef HEADROOM_LOAD
#define HEADROOM_CHECK(name, parameters) \
  if (functions.name == nullptr) return #name;
  HEADROOM_REQUIRED_CUDA_CALLS(HEADROOM_CHECK)
#undef HEADROOM_CHECK
  // The older function has no UUIDs of MIG instances.
  if (functions.cuDeviceGetUuid_v2 == nullptr) functions.cuDeviceGetUuid_v2 = functions.cuDeviceGetUuid;
  return nullptr;
}

}  // namespace

Result<const Driver*> Driver::open() {
  static Driver driver;
  static bool is_open = false;
  static std::mutex mutex;  // any thread may open a model pool
  const std::lock_guard lock(mutex);
  if (is_open) return &driver;
  // Never closed: its threads may outlive the caller.
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    const std::string_view why = reason == nullptr ? "" : reason;
    // The usual reason only repeats the message. Others do not: a library that libcuda.so.1 needs is missing.
    const bool is_missing = starts_with(why, "libcuda.so.1:") && ends_with(why, "No such file or directory");
    return input_error("CUDA driver not found (libcuda.so.1)", is_missing ? "" : std::string(why),
                       install_or_use_cpu());
  }
  if (const char* missing = load_functions(library, driver.functions_))
    return input_error("the CUDA driver is too old", fmt::format("it has no function {}", missing),
                       fmt::format("install a newer driver, or {}", kUseCpu));
  const Code code = driver.functions_.cuInit(0);
  if (code == kNoDevice)
    return input_error("the CUDA driver found no GPU", driver.name_of(code),
                       fmt::format("{}, or {}",
                                   std::getenv("CUDA_VISIBLE_DEVICES") != nullptr
                                       ? "check CUDA_VISIBLE_DEVICES, which may hide it"
                                       : "check nvidia-smi",
                                   kUseCpu));
  if (code != kSuccess || driver.functions_.cuDeviceGetCount(&driver.devices_) != kSuccess)
    return input_error("cannot initialise the CUDA driver", driver.name_of(code), install_or_use_cpu());
  is_open = true;
  return &driver;
}

Status Driver::check_ordinal(unsigned ordinal) const {
  if (ordinal < static_cast<unsigned>(devices_)) return {};
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string shown = devices_ == 0 ? "no device"
                            : devices_ == 1
                                ? "1 device, cuda:0"
                                : fmt::format("{} devices, cuda:0 to cuda:{}", devices_, devices_ - 1);
  return input_error(
      fmt::format("device cuda:{} not found", ordinal),
      fmt::format("the driver reports {}{}", shown,
                  visible == nullptr ? "" : fmt::format(" with CUDA_VISIBLE_DEVICES='{}'", visible)),
      devices_ > 0 ? "use one of these" : fmt::format("check nvidia-smi, or {}", kUseCpu));
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
    // A MIG instance has its own UUID, which only the _v2 function returns.
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

std::pair<int, int> Driver::compute_capability(unsigned ordinal) const {
  int device = 0, major = 0, minor = 0;
  if (functions_.cuDeviceGet(&device, static_cast<int>(ordinal)) != kSuccess ||
      functions_.cuDeviceGetAttribute(&major, kAttributeMajor, device) != kSuccess ||
      functions_.cuDeviceGetAttribute(&minor, kAttributeMinor, device) != kSuccess)
    return {};
  return {major, minor};
}

std::string Driver::name_of(Code code) const {
  const char* name = nullptr;
  if (functions_.cuGetErrorName != nullptr && functions_.cuGetErrorName(code, &name) == kSuccess &&
      name != nullptr)
    return name;
  return fmt::format("error {}", code);
}

}  // namespace headroom::cuda
