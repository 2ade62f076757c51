#include "sources/nvml_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <initializer_list>

namespace headroom::sources::nvml {
namespace {

// Windows Subsystem for Linux: this folder is not on the default search path.
constexpr const char* kWslFile = "/usr/lib/wsl/lib/libnvidia-ml.so.1";

// Finds the first of the names in the library; newest version first.
template <class Function>
void find(void* handle, Function*& function, std::initializer_list<const char*> names) {
  function = nullptr;
  for (const char* name : names)
    if (function == nullptr) function = reinterpret_cast<Function*>(::dlsym(handle, name));
}

Functions find_functions(void* handle) {
  Functions nvml{};
  find(handle, nvml.init, {"nvmlInit_v2", "nvmlInit"});
  find(handle, nvml.shutdown, {"nvmlShutdown"});
  find(handle, nvml.error_string, {"nvmlErrorString"});
  find(handle, nvml.driver_version, {"nvmlSystemGetDriverVersion"});
  find(handle, nvml.device_count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  find(handle, nvml.device_by_index, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  find(handle, nvml.name, {"nvmlDeviceGetName"});
  find(handle, nvml.uuid, {"nvmlDeviceGetUUID"});
  // Version 1 writes a shorter structure with the same beginning.
  find(handle, nvml.pci_info, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"});
  find(handle, nvml.memory_v1, {"nvmlDeviceGetMemoryInfo"});
  find(handle, nvml.memory_v2, {"nvmlDeviceGetMemoryInfo_v2"});
  find(handle, nvml.utilization, {"nvmlDeviceGetUtilizationRates"});
  find(handle, nvml.encoder_utilization, {"nvmlDeviceGetEncoderUtilization"});
  find(handle, nvml.decoder_utilization, {"nvmlDeviceGetDecoderUtilization"});
  find(handle, nvml.clock, {"nvmlDeviceGetClockInfo"});
  find(handle, nvml.power, {"nvmlDeviceGetPowerUsage"});
  find(handle, nvml.power_limit, {"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"});
  find(handle, nvml.temperature, {"nvmlDeviceGetTemperature"});
  find(handle, nvml.clock_reasons,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  find(handle, nvml.mig_mode, {"nvmlDeviceGetMigMode"});
  find(handle, nvml.mig_count, {"nvmlDeviceGetMaxMigDeviceCount"});
  find(handle, nvml.mig_by_index, {"nvmlDeviceGetMigDeviceHandleByIndex"});
  find(handle, nvml.gpu_instance, {"nvmlDeviceGetGpuInstanceId"});
  find(handle, nvml.compute_instance, {"nvmlDeviceGetComputeInstanceId"});
  find(handle, nvml.compute_processes,
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetComputeRunningProcesses"});
  find(handle, nvml.graphics_processes,
       {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",
        "nvmlDeviceGetGraphicsRunningProcesses"});
  find(handle, nvml.mps_processes,
       {"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
        "nvmlDeviceGetMPSComputeRunningProcesses"});
  return nvml;
}

}  // namespace

Result<std::shared_ptr<const Library>> Library::open(const std::string& file_name) {
  constexpr const char* kWhat = "no GPU metrics from NVIDIA's management library (NVML)";
  void* handle = ::dlopen(file_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string why = handle == nullptr ? ::dlerror() : "";
  if (handle == nullptr && file_name == kFileName) handle = ::dlopen(kWslFile, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return failure(kWhat, why, "install the NVIDIA driver if this machine has an NVIDIA GPU");

  const Functions nvml = find_functions(handle);
  if (nvml.init == nullptr || nvml.shutdown == nullptr || nvml.device_count == nullptr ||
      nvml.device_by_index == nullptr) {
    ::dlclose(handle);
    return failure(kWhat, file_name + " lacks nvmlInit, nvmlShutdown or the device functions",
                   "reinstall the driver");
  }
  if (const Return started = nvml.init(); started != kSuccess) {
    why = nvml.error_string == nullptr ? fmt::format("error {}", started) : nvml.error_string(started);
    ::dlclose(handle);
    return failure(kWhat, "nvmlInit failed: " + why, "check that the driver is loaded and nvidia-smi works");
  }
  return std::shared_ptr<const Library>(new Library(handle, nvml));
}

Library::~Library() {
  functions_.shutdown();
  ::dlclose(handle_);
}

std::string Library::driver_version() const {
  std::array<char, kVersionLength> text{};
  if (functions_.driver_version == nullptr) return {};
  if (functions_.driver_version(text.data(), text.size() - 1) != kSuccess) return {};
  return text.data();
}

}  // namespace headroom::sources::nvml
