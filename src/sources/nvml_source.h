// The GPUs of this machine by NVML, as a source of metrics and as facts of the host.
#pragma once

#include <memory>
#include <string>

#include "model/bench_result.h"
#include "sources/metric_source.h"
#include "sources/nvml_library.h"

namespace headroom::sources {

// Opens `library_file` (looked for as dlopen does). nullptr, and one line of the log at debug level, where it
// cannot be opened or has no device. With NVIDIA's driver of 2025 the process grows by 19 MiB.
std::unique_ptr<MetricSource> open_nvml_source(const std::string& library_file = nvml::Library::kFileName);

// Fills host.gpus and host.gpu_driver; leaves them empty where there is no NVML.
void read_gpu_info(HostInfo& host, const std::string& library_file = nvml::Library::kFileName);

}  // namespace headroom::sources
