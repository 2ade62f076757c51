// The GPUs of this machine by NVML, as a source of metrics and as facts of the host.
#pragma once

#include <memory>
#include <string>

#include "model/bench_result.h"
#include "sources/metric_source.h"

namespace headroom::sources {

// Opens `library_file` (looked for as dlopen does). nullptr, and one line of the log at debug level, where it
// cannot be opened or has no device. make_nvml_source() of the list of sources is this with the driver's own
// file.
std::unique_ptr<MetricSource> open_nvml_source(const std::string& library_file);

// Fills host.gpus and host.gpu_driver; leaves them empty where there is no NVML.
void read_gpu_info(HostInfo& host);
void read_gpu_info(HostInfo& host, const std::string& library_file);

}  // namespace headroom::sources
