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

// Those that exist: the command's own first, the others in the order of their names.
std::vector<RecordingFile> find_recordings(const std::filesystem::path& root);

// Null where there is none, or no recording.
std::unique_ptr<recording::FileHeader> read_header(const std::filesystem::path& path);

// What it takes of the disk; its size counts holes, too.
std::uint64_t disk_bytes_of(const std::filesystem::path& recording);

// Gives the disk back what a recording claimed and did not use: the file ends where its last segment does,
// and the unwritten ends of the other segments become holes. Leaves alone what is no sound recording; must
// not be called while a process writes.
void compact_recording(const std::filesystem::path& recording);

}  // namespace headroom::trace
