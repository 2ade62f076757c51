// Implements `headroom trace`: checks, starts the command with the preload library, waits, and finishes the
// recordings.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "attribution/recording_analysis.h"
#include "recording/recording.h"
#include "report/recording/recording_views.h"
#include "trace/traced_command.h"
#include "trace/tracer_environment.h"

namespace headroom::trace {

struct TraceOutcome;

// Returns the command's exit code, or 128 + its number if a signal ended it. Returns an error if the command
// could not be started; then none of its code has run. Returns 3 if the command succeeded but left no
// recording.
Result<int> run_trace(const TraceOptions& options);

// Figures of the other processes that a recording's tree has, the largest peak first.
std::vector<report::ProcessFigures> other_processes(const std::filesystem::path& file);

class LiveFigures;

// What the summary reports.
struct TraceOutcome {
  std::vector<std::string> command;
  CommandEnd end;
  std::string attached;  // of a process that ran already: which, how long, and what ended the recording
  // The command's own recording, or that of a descendant (`of_descendant`). The descendant has the largest
  // peak (`by_memory`) or else the most events.
  std::filesystem::path recording;
  bool of_descendant = false, by_memory = false;
  bool of_worker = false;  // the descendant is a worker of `headroom bench`
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

// Finishes the files after the end of a recording, and reads them. `live`: figures that are known already.
TraceOutcome finish_recordings(const std::vector<std::string>& command, const std::filesystem::path& root,
                               const CommandEnd& end, const LiveFigures& live);
// The checks of the options and of the output file that need no command. Returns the recording's path.
Result<std::filesystem::path> prepare_recording(const TraceOptions& options, const std::string& program);

// The summary on standard error after a traced command has ended: at most a dozen lines.
std::string trace_summary(const TraceOutcome& outcome);

// The summary's lines about host and GPU memory.
std::string memory_figures(const recording::RecordingInfo& info,
                           const attribution::RecordingAnalysis& analysis);

}  // namespace headroom::trace
