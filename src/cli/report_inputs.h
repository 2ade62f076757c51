// `headroom report` by kind of input. Each prints the view that the flags ask for.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "cli/flag_table.h"

namespace headroom::cli {

// FILE.hrec: a recording of headroom trace.
Status report_recording(const std::filesystem::path& file, const FlagValues& values);
// X.pickle: a memory snapshot of PyTorch.
Status report_snapshot(const std::filesystem::path& file, const FlagValues& values);

}  // namespace headroom::cli
