// Finds recordings that a process still writes to after the traced command has ended.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "trace/recording_files.h"

namespace headroom::trace {

// Marks the recordings that a process has mapped for writing (readers map them, too). Returns how many
// processes of the tree still run. It counts those processes, and processes whose environment names the root,
// because a process that has just called execve has mapped nothing yet. Checks all processes under `proc`
// that started after this one. If a process's mappings cannot be read, the PID and start time in a
// recording's header decide.
std::size_t mark_growing(const std::filesystem::path& root, std::vector<RecordingFile>& recordings,
                         const std::filesystem::path& proc = "/proc");

}  // namespace headroom::trace
