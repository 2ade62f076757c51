// `headroom diff A.hrec B.hrec`: what changed from one recording to another.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "cli/flag_table.h"

namespace headroom::cli {

// Prints the view that the flags ask for, and holds B to --fail-above; returns the exit code.
Result<int> diff_recordings(const std::filesystem::path& file_a, const std::filesystem::path& file_b,
                            const FlagValues& values);

}  // namespace headroom::cli
