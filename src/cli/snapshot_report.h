// `headroom report X.pickle`: what a memory snapshot of PyTorch says.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "cli/flag_table.h"

namespace headroom::cli {

// Prints the view that the flags ask for; returns the exit code.
Result<int> report_snapshot(const std::filesystem::path& file, const FlagValues& values);

}  // namespace headroom::cli
