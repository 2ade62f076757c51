// What a person reads on standard error when a traced command has ended: at most a dozen lines.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "recording/recording.h"
#include "trace/trace_options.h"
#include "trace/traced_command.h"

namespace headroom::trace {

// What is known when all is over.
struct TraceOutcome {
  std::vector<std::string> command;
  CommandEnd end;
  std::filesystem::path recording;  // the command's own, or a descendant's: that held, or recorded, most
  bool of_descendant = false, by_memory = false;
  std::optional<recording::RecordingInfo> info;
  std::optional<std::int64_t> events;
  std::string figures;  // lines; empty where reading the recording would have taken too long
  std::vector<std::string> problems;
  std::uint64_t disk_bytes = 0;  // of that recording
  std::filesystem::path tree;    // the folder of the tree's other recordings; empty: there are none
  std::size_t programs = 1, still_running = 0;
  std::uint64_t tree_bytes = 0;  // of all recordings on the disk
  // The command's own recording where a limit refused something: to whom, headroom doctor tells of all.
  std::filesystem::path refused_in;
};

std::string trace_summary(const TraceOutcome& outcome);

}  // namespace headroom::trace
