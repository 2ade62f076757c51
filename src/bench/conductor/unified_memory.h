// Devices whose GPU shares the machine's memory (Jetson, Thor, GB10), and how far a memory limit is proved
// there.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "types/limit.h"

namespace headroom::bench {

// True if the device tree names a Tegra chip, as on every Jetson.
bool is_tegra(const std::filesystem::path& root = "/");

// True if one of these CUDA devices is integrated; with an empty list, if any visible device is. A Jetson is
// known by its device tree. Elsewhere the CUDA driver is asked, in a child process.
bool has_unified_memory(const std::vector<unsigned>& ordinals = {});

// Calls limits::probe_limit(). On unified memory, adds a note that the probe does not prove that CUDA memory
// is charged.
Result<Limit> prove_memory_limit(Bytes bytes, std::string_view forced_mechanism);

}  // namespace headroom::bench
