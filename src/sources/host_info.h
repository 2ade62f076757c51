// Facts about this machine that do not change during a run.
#pragma once

#include <filesystem>

#include "types/bench_result.h"

namespace headroom::sources {

HostInfo read_host_info(const std::filesystem::path& root = "/");

}  // namespace headroom::sources
