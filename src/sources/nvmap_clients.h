// Parses the list of NvMap's clients (debugfs nvmap/iovmm/clients).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "types/sample.h"

namespace headroom::sources {

// Adds a process with its `gpu` memory for each client, and returns the total. The total is larger than the
// sum if memory is also shared with non-processes. Absent if the text has no total.
std::optional<Bytes> read_nvmap_clients(std::string_view text, std::vector<ProcessSample>& processes);

}  // namespace headroom::sources
