// Devices whose GPU shares the machine's memory (Jetson, Thor, GB10), and what a memory limit is worth there.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/limit.h"

namespace headroom::bench {

// True if the device tree names a Tegra chip, as on every Jetson.
bool is_tegra(const std::filesystem::path& root = "/");

// True if one of these CUDA devices is integrated; with an empty list, if any visible device is. A Jetson is
// known by its device tree. Elsewhere the CUDA driver is asked, in a child process.
bool has_unified_memory(const std::vector<unsigned>& ordinals = {});

// limits::probe_limit(), and on unified memory the note that CUDA memory is not proved to be charged.
Result<Limit> prove_memory_limit(Bytes bytes, std::string_view forced_mechanism);

}  // namespace headroom::bench
