// The summary on standard error after a traced command has ended: at most a dozen lines.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "recording/recording.h"
#include "trace/trace_options.h"
#include "trace/traced_command.h"

namespace headroom::trace {

// The outcome that the summary reports.
struct TraceOutcome {
  std::vector<std::string> command;
  CommandEnd end;
  // The command's own recording, or that of a descendant (`of_descendant`). The descendant has the largest
  // peak (`by_memory`) or else the most events.
  std::filesystem::path recording;
  bool of_descendant = false, by_memory = false;
  std::optional<recording::RecordingInfo> info;
  std::optional<std::int64_t> events;
  std::string figures;  // lines; empty if the recording is too large to analyze at once
  std::vector<std::string> problems;
  std::uint64_t disk_bytes = 0;  // of that recording
  std::filesystem::path tree;    // folder with the tree's other recordings; empty: none
  std::size_t programs = 1, still_running = 0;
  std::uint64_t tree_bytes = 0;  // disk space of all recordings
  // The command's own recording if a limit refused a request; `headroom doctor` on it covers all processes.
  std::filesystem::path refused_in;
};

std::string trace_summary(const TraceOutcome& outcome);

}  // namespace headroom::trace
