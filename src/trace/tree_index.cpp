#include "trace/tree_index.h"

#include "base/files.h"
#include "recording/recording.h"
#include "trace/output_file.h"

namespace headroom::trace {
namespace fs = std::filesystem;
namespace {

Json entry_of(const RecordingFile& file, const fs::path& folder) {
  Json entry{{"file", file.path.lexically_relative(folder).string()}};
  const auto recording = recording::Recording::open(file.path);
  if (!recording) {
    entry["error"] = recording.error().sentence();
    return entry;
  }
  const recording::RecordingInfo& info = recording->info();
  entry["pid"] = info.pid;
  entry["parent_pid"] = info.parent_pid;
  entry["generation"] = info.exec_generation;
  entry["command"] = info.command;
  entry["start_unix_ns"] = info.started_realtime_ns;
  entry["duration_seconds"] = info.duration.seconds();
  entry["host_recorded"] = info.host_recorded;
  entry["segments"] = info.segments;
  entry["file_bytes"] = info.file_bytes;
  entry["disk_bytes"] = disk_bytes_of(file.path);
  entry["closed"] = info.closed;
  entry["growing"] = file.growing;
  return entry;
}

}  // namespace

Json tree_index(const fs::path& root, const std::vector<RecordingFile>& recordings) {
  Json index{{"schema_version", 1}, {"recordings", Json::array()}};
  for (const RecordingFile& file : recordings)
    index["recordings"].push_back(entry_of(file, tree_folder(root)));
  return index;
}

Status write_tree_index(const fs::path& root, const std::vector<RecordingFile>& recordings) {
  std::error_code code;
  if (!fs::is_directory(tree_folder(root), code)) return {};
  return write_file_atomically(tree_folder(root) / "index.json", to_text(tree_index(root, recordings)));
}

}  // namespace headroom::trace
