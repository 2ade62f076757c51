// What the driver says that this very process has of each GPU: contexts, modules and all. Read from inside,
// at a moment of the process' own choosing; it makes no CUDA context.
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
  // nullptr where there is no NVML.
  static std::unique_ptr<OwnGpuMemory> open(const std::string& library_file = nvml::Library::kFileName);

  struct Share {
    std::string uuid;  // "GPU-…"; of an instance of MIG "MIG-…"
    Bytes used;
  };
  // Of the GPUs, and instances of MIG, on which the driver names this process with a figure; none where it
  // does not (another PID namespace, some Jetsons).
  std::vector<Share> read();

 private:
  explicit OwnGpuMemory(std::shared_ptr<const nvml::Library> library);
  bool add_instances(nvml::Device gpu);  // of MIG; false: there are none
  void add(nvml::Device device);
  std::shared_ptr<const nvml::Library> library_;  // before the reader, which uses it
  nvml::ProcessReader processes_;
  std::vector<std::pair<nvml::Device, std::string>> devices_;  // with UUID
};

}  // namespace headroom::sources
