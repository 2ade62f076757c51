// The GPU memory of this process as the driver reports it, including contexts and modules. The process
// reads it itself, at a time of its choice. Creates no CUDA context.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "sources/nvml_library.h"
#include "sources/nvml_processes.h"

namespace headroom::sources {

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

}  // namespace headroom::sources
