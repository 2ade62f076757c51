// The files that a traced command leaves: its own recording, and one for each other process of its tree.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "recording/format.h"

namespace headroom::trace {

struct RecordingFile {
  std::filesystem::path path;
  bool growing = false;  // a process still writes to it (growing_recordings.h)
};

// Returns the existing recordings: the command's own first, the others sorted by name.
std::vector<RecordingFile> find_recordings(const std::filesystem::path& root);

// Returns null if there is no file or it is not a recording.
std::unique_ptr<recording::FileHeader> read_header(const std::filesystem::path& path);

// The disk space it uses; unlike the file size, this excludes holes.
std::uint64_t disk_bytes_of(const std::filesystem::path& recording);

// Releases disk space that a recording claimed and did not use. Truncates the file after its last segment,
// and turns the unwritten ends of the other segments into holes. Does not touch damaged recordings. Do not
// call it while a process writes to the recording.
void compact_recording(const std::filesystem::path& recording);

}  // namespace headroom::trace
