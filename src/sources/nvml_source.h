// Reads the GPUs of this machine through NVML: as a metric source, and as facts for HostInfo.
#pragma once

#include <memory>
#include <string>

#include "sources/metric_source.h"
#include "sources/nvml_library.h"
#include "types/bench_result.h"

namespace headroom::sources {

// Opens `library_file` (searched as dlopen does). Returns nullptr, and logs a line at debug level, if it
// cannot be opened or has no device. With NVIDIA's driver of 2025 the process grows by 19 MiB.
std::unique_ptr<MetricSource> open_nvml_source(const std::string& library_file = nvml::Library::kFileName);

// Fills host.gpus and host.gpu_driver; leaves them empty without NVML.
void read_gpu_info(HostInfo& host, const std::string& library_file = nvml::Library::kFileName);

}  // namespace headroom::sources
