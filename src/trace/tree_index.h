// FILE.hrec.d/index.json: what processes a traced command had, which recording is whose.
#pragma once

#include <filesystem>
#include <vector>

#include "base/json.h"
#include "trace/recording_files.h"

namespace headroom::trace {

// One entry for each recording, the command's own first; docs/trace.md lists the fields. A file that is no
// recording gets an entry with its error.
Json tree_index(const std::filesystem::path& root, const std::vector<RecordingFile>& recordings);

// Writes it if the command had other processes.
Status write_tree_index(const std::filesystem::path& root, const std::vector<RecordingFile>& recordings);

}  // namespace headroom::trace
