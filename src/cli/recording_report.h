// `headroom report FILE.hrec`: what a recording of headroom trace says.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/flag_table.h"
#include "report/recording/recording_views.h"

namespace headroom::cli {

// True if the file begins as a recording does.
bool is_recording(const std::filesystem::path& file);

// An error if writing `out` would replace what is read, or any recording; `flag` names another file.
Status check_output(const std::filesystem::path& out, const std::filesystem::path& input,
                    std::string_view flag);

// The other processes of the recording's tree, the largest peak first.
std::vector<report::ProcessFigures> other_processes(const std::filesystem::path& file);

// Function names by the modules' own symbols, as without any flag.
report::FrameNames names_of_functions(const recording::RecordingInfo& info);

// Prints the view that the flags ask for; returns the exit code.
Result<int> report_recording(const std::filesystem::path& file, const FlagValues& values);

}  // namespace headroom::cli
