// The files that a traced command leaves: its own recording, and one for each other process of its tree.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace headroom::trace {

struct RecordingFile {
  std::filesystem::path path;
  bool growing = false;  // a process still writes into it
};

// Those that exist: the command's own first, the others in the order of their names.
std::vector<RecordingFile> find_recordings(const std::filesystem::path& root);

// Marks the recordings that a process has mapped, and returns how many processes of the tree still run:
// those, and those whose environment names the root (one that has just called execve has nothing mapped yet).
// Asks all processes that started after this one; for one that may not be asked, the id in a recording's
// header decides.
std::size_t mark_growing(const std::filesystem::path& root, std::vector<RecordingFile>& recordings);

// What it takes of the disk; its size counts holes, too.
std::uint64_t disk_bytes_of(const std::filesystem::path& recording);

// Gives the disk back what a recording claimed and did not use: the file ends where its last segment does,
// and the unwritten ends of the other segments become holes. Leaves alone what is no sound recording; must
// not be called while a process writes.
void compact_recording(const std::filesystem::path& recording);

}  // namespace headroom::trace
