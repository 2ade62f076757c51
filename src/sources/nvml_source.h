// Reads the GPUs of this machine through NVML: as a metric source, and as facts for HostInfo.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sources/metric_source.h"
#include "sources/nvml_device.h"
#include "sources/nvml_library.h"
#include "types/bench_result.h"

namespace headroom::sources {

// Opens `library_file` (searched as dlopen does). Returns nullptr, and logs a line at debug level, if it
// cannot be opened or has no device. With NVIDIA's driver of 2025 the process grows by 19 MiB.
std::unique_ptr<MetricSource> open_nvml_source(const std::string& library_file = nvml::Library::kFileName);

// Fills host.gpus and host.gpu_driver; leaves them empty without NVML.
void read_gpu_info(HostInfo& host, const std::string& library_file = nvml::Library::kFileName);

// The GPU memory of this process as the driver reports it, including contexts and modules. The process
// reads it itself, at a time of its choice. Creates no CUDA context.
class OwnGpuMemory {
 public:
  // Returns nullptr without NVML.
  static std::unique_ptr<OwnGpuMemory> open(const std::string& library_file = nvml::Library::kFileName);

  struct Share {
    std::string uuid;  // "GPU-…", or "MIG-…" for a MIG instance
    Bytes used;
  };
  // One entry for each GPU or MIG instance on which the driver lists this process with its memory. Empty if
  // the driver does not list it (another PID namespace, some Jetsons).
  std::vector<Share> read();

 private:
  explicit OwnGpuMemory(std::shared_ptr<const nvml::Library> library);
  bool add_instances(nvml::Device gpu);  // adds MIG instances; returns false if there are none
  void add(nvml::Device device);
  std::shared_ptr<const nvml::Library> library_;  // declared before the reader, which uses it
  nvml::ProcessReader processes_;
  std::vector<std::pair<nvml::Device, std::string>> devices_;  // handle and UUID
};

// True if the kernel has NVIDIA's driver: that of desktops, of Jetson, or of Windows Subsystem for Linux.
// Loads none of it, because NVML alone adds 19 MiB to the process that opens it. Also true if a folder of
// `library_path` (colon-separated, like LD_LIBRARY_PATH) contains the NVML library. `root` is the root prefix
// of SystemSampler.
bool has_nvidia_driver(const std::filesystem::path& root, std::string_view library_path);
// For this machine and this process's LD_LIBRARY_PATH.
bool has_nvidia_driver();

}  // namespace headroom::sources
