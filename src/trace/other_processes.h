// Figures of the other processes that a recording's tree has.
#pragma once

#include <filesystem>
#include <vector>

#include "report/recording/recording_views.h"

namespace headroom::trace {

// The largest peak first.
std::vector<report::ProcessFigures> other_processes(const std::filesystem::path& file);

}  // namespace headroom::trace
