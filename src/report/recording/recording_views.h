// The views of a recording: layers and places that hold memory, leaks, repeated allocations, next steps.
// Pure: from an analysis to text. docs/trace-report.md explains each figure.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attribution/live_rows.h"
#include "attribution/recording_analysis.h"
#include "base/json.h"
#include "recording/recording.h"

namespace headroom::symbols {
class Symbolizer;
}

namespace headroom::report {

inline constexpr int kRecordingReportSchemaVersion = 1;

// The functions at a return address, inlined ones first: {"conv::run", "main"}. Never empty.
using FrameNames = std::function<std::vector<std::string>(std::uint64_t return_address)>;

// With the symbols of the modules, and with the default search of symbol files.
FrameNames names_by_symbols(std::shared_ptr<symbols::Symbolizer> symbolizer);
FrameNames names_by_symbols(const recording::RecordingInfo& info);

// Another process of the same tree.
struct ProcessFigures {
  std::string file = {}, command = {};
  std::int64_t pid = 0;
  int exec_generation = 0;
  bool host_recorded = true;  // false: the five that follow are not known
  std::int64_t allocations = 0, deallocations = 0, total_allocated_bytes = 0, peak_bytes = 0,
               leaked_bytes = 0;
  std::optional<std::int64_t> device_peak_bytes = {};  // of its GPUs, added up; absent where it used none
  double peak_standard_error = 0;                      // 0: the peak is exact
  std::int64_t events = 0, dropped_events = 0;
  bool complete = false;
  std::string problem = {};  // why it could not be read; the figures are then absent

  // What processes are put in order by.
  std::int64_t size() const { return (host_recorded ? peak_bytes : 0) + device_peak_bytes.value_or(0); }
};

struct RecordingReport {
  std::string file;  // as the user named it
  const recording::RecordingInfo& info;
  const recording::StackTable& stacks;
  const attribution::RecordingAnalysis& analysis;
  FrameNames frame_names;
  std::vector<ProcessFigures> others;  // of the tree, the largest peak first
  bool add_others = false;             // show the sums over the tree as well
};

// One screen, at most `width` columns.
std::string recording_to_terminal(const RecordingReport& report, bool color, int width);
Json recording_to_json(const RecordingReport& report);

ProcessFigures figures_of(const std::string& file, const recording::RecordingInfo& info,
                          const attribution::RecordingAnalysis& analysis);

inline constexpr std::string_view kGpuMemoryOnly = "GPU memory only (--only gpu)";

// The command and its arguments on one line, as people read it (not for a shell).
std::string one_line_command(const recording::RecordingInfo& info);

struct TreeFigures {
  std::int64_t processes = 0;  // with a readable recording
  ProcessFigures sums;         // `peak_bytes` is the sum of the peaks, which may be at different times
};
TreeFigures tree_figures(const RecordingReport& report);

// `headroom report FILE.hrec --at TIME`: live memory at one moment, by layer, call stack, module, size and
// thread. docs/trace-report.md names the keys of the JSON.
// One screen, at most `width` columns. `rows` is of the report's recording.
std::string moment_to_terminal(const RecordingReport& report, const attribution::LiveRows& rows, bool color,
                               int width);
// Every row but of stacks, of which the 50 that held most are listed.
Json moment_to_json(const RecordingReport& report, const attribution::LiveRows& rows);

}  // namespace headroom::report
