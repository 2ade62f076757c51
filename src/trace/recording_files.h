// The files that a traced command leaves: its own recording, and one for each other process of its tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "recording/format.h"

namespace headroom::trace {

struct RecordingFile {
  std::filesystem::path path;
  bool growing = false;  // a process still writes to it
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

// Marks the recordings that a process has mapped for writing (readers map them, too). Returns how many
// processes of the tree still run. It counts those processes, and processes whose environment names the root,
// because a process that has just called execve has mapped nothing yet. Checks all processes under `proc`
// that started after this one. If a process's mappings cannot be read, the PID and start time in a
// recording's header decide.
std::size_t mark_growing(const std::filesystem::path& root, std::vector<RecordingFile>& recordings,
                         const std::filesystem::path& proc = "/proc");

// Returns the absolute path of the recording. Its folder exists and is writable; the file does not exist: an
// earlier one was removed if `replace` is set and it was a recording. With an empty `wanted`, the path is
// outputs/YYYY-MM-DD_HH-MM-SS/PROGRAM.hrec.
Result<std::filesystem::path> prepare_output(const std::filesystem::path& wanted, const std::string& program,
                                             bool replace);

// FILE.hrec.d: contains the recordings of the command's other processes.
std::filesystem::path tree_folder(const std::filesystem::path& recording);

// Writes FILE.hrec.d/index.json if the command had other processes. One entry per recording, the command's
// own first; docs/trace.md lists the fields. The entry of a file that is not a recording contains the error.
Status write_tree_index(const std::filesystem::path& root, const std::vector<RecordingFile>& recordings);

}  // namespace headroom::trace
