// Which recordings a process still writes to when the traced command has ended.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "trace/recording_files.h"

namespace headroom::trace {

// Marks the recordings that a process has mapped to write to (a reader maps them, too), and returns how many
// processes of the tree still run: those, and those whose environment names the root (one that has just
// called execve has nothing mapped yet). Asks all processes under `proc` that started after this one; for one
// whose mappings may not be read, the id in a recording's header decides, with the time at which it began.
std::size_t mark_growing(const std::filesystem::path& root, std::vector<RecordingFile>& recordings,
                         const std::filesystem::path& proc = "/proc");

}  // namespace headroom::trace
