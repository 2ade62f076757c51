// FILE.hrec.d/index.json: lists the processes of a traced command and their recordings.
#pragma once

#include <filesystem>
#include <vector>

#include "base/json.h"
#include "trace/recording_files.h"

namespace headroom::trace {

// One entry per recording, the command's own first; docs/trace.md lists the fields. The entry of a file that
// is not a recording contains the error.
Json tree_index(const std::filesystem::path& root, const std::vector<RecordingFile>& recordings);

// Writes the index if the command had other processes.
Status write_tree_index(const std::filesystem::path& root, const std::vector<RecordingFile>& recordings);

}  // namespace headroom::trace
