// The list of NvMap's clients (debugfs nvmap/iovmm/clients).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "model/sample.h"

namespace headroom::sources {

// Adds a process with its `gpu` memory for each client and returns the total, which is larger where memory is
// shared with what is no process. Absent if there is no total.
std::optional<Bytes> read_nvmap_clients(std::string_view text, std::vector<ProcessSample>& processes);

}  // namespace headroom::sources
