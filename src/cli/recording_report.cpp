#include "cli/recording_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>

#include "attribution/recording_analysis.h"
#include "base/files.h"
#include "base/terminal.h"
#include "cli/common_flags.h"
#include "recording/recording.h"
#include "report/recording/recording_html.h"
#include "report/recording/recording_moment.h"
#include "report/recording/recording_views.h"
#include "symbols/symbolizer.h"
#include "trace/recording_files.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

// Function names by what is known of the modules; the texts are copied, since they are few.
report::FrameNames names_by_symbols(const std::shared_ptr<symbols::Symbolizer>& symbolizer) {
  return [symbolizer](std::uint64_t return_address) {
    std::vector<std::string> names;
    for (const symbols::SourceFrame& frame : symbolizer->frames_of(return_address, true))
      names.emplace_back(frame.function);
    return names;
  };
}

// "1.5s", "peak" or "end"; an error where the recording was over by then.
Result<Nanoseconds> moment_of(const std::string& text, const attribution::RecordingAnalysis& analysis) {
  if (text == "peak")
    return analysis.host_recorded ? analysis.peak_time : attribution::peak_time_of(analysis.devices);
  if (text == "end") return analysis.duration;
  auto time = parse_duration(text);
  if (!time)
    return usage_error(fmt::format("--at '{}' is not a time", text), "", "use 1.5s, 250ms, peak or end");
  if (*time > analysis.duration)
    return usage_error(fmt::format("--at {} is after the end of the recording", text),
                       fmt::format("it lasts {}", format_duration(analysis.duration)),
                       "use an earlier time, or end");
  return *time;
}

Status print_moment(recording::Recording& recording, const report::RecordingReport& report,
                    const FlagValues& values) {
  const std::string text = values.text("at");
  auto time = moment_of(text, report.analysis);
  if (!time) return forward_error(time);
  // Half A of the samples chose the peak, so half B tells it, as it does everywhere.
  const SampleHalf half = text == "peak" ? SampleHalf::b : SampleHalf::both;
  const attribution::LiveRows rows = attribution::live_rows_at(recording, *time, half);
  print_output(values.toggle("json") ? to_text(report::moment_to_json(report, rows))
                                     : report::moment_to_terminal(report, rows, wants_color(values),
                                                                  terminal_width(STDOUT_FILENO)));
  return {};
}

}  // namespace

bool is_recording(const fs::path& file) {
  char magic[sizeof recording::kMagic] = {};
  std::ifstream stream(file, std::ios::binary);
  return stream.read(magic, sizeof magic) && std::memcmp(magic, recording::kMagic, sizeof magic) == 0;
}

std::vector<report::ProcessFigures> other_processes(const fs::path& file) {
  std::vector<report::ProcessFigures> others;
  for (const trace::RecordingFile& other : trace::find_recordings(file)) {
    if (other.path == file) continue;
    auto recording = recording::Recording::open(other.path);
    if (!recording) {
      others.emplace_back().file = other.path.string();
      others.back().problem = recording.error().sentence();
      continue;
    }
    // Only the sums are shown of it.
    const auto analysis = attribution::analyze_recording(*recording, {.timeline_points = 2});
    others.push_back(report::figures_of(other.path.string(), recording->info(), analysis));
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return others;
}

Status check_output(const fs::path& out, const fs::path& input, std::string_view flag) {
  std::error_code code;
  const bool is_input = out == input || fs::equivalent(out, input, code);
  if (!is_input && !is_recording(out)) return {};
  return usage_error(fmt::format("{} would replace {}", out.string(),
                                 !is_recording(out) ? "its own input"
                                 : is_input         ? "the recording itself"
                                                    : "a recording"),
                     "", fmt::format("choose another file with {}", flag));
}

report::FrameNames names_of_functions(const recording::RecordingInfo& info) {
  return names_by_symbols(std::make_shared<symbols::Symbolizer>(info.modules, symbols::SymbolizerOptions{}));
}

Result<int> report_recording(const fs::path& file, const FlagValues& values) {
  for (const char* flag : {"markdown", "csv"})
    if (values.has(flag))
      return usage_error(fmt::format("--{} works with run folders only", flag),
                         fmt::format("{} is a recording", file.string()),
                         "remove it, or use --json, --html or headroom export");
  if (values.has("at"))
    for (const char* flag : {"html", "all"})
      if (values.has(flag))
        return usage_error(fmt::format("--{} and --at cannot be combined", flag),
                           "--at shows one moment only", "remove one of them");
  if (values.has("html"))
    if (auto sound = check_output(values.text("html"), file, "--html"); !sound) return forward_error(sound);
  auto options = symbolizer_options(values);
  if (!options) return forward_error(options);
  auto recording = recording::Recording::open(file);
  if (!recording) return forward_error(recording);
  const attribution::RecordingAnalysis analysis = attribution::analyze_recording(*recording, {});
  const auto symbolizer =
      std::make_shared<symbols::Symbolizer>(recording->info().modules, std::move(*options));
  const report::RecordingReport report{
      file.string(),
      recording->info(),
      recording->stacks(),
      analysis,
      names_by_symbols(symbolizer),
      values.has("at") ? std::vector<report::ProcessFigures>() : other_processes(file),
      values.toggle("all")};
  if (values.has("at")) {
    if (auto printed = print_moment(*recording, report, values); !printed) return forward_error(printed);
  } else if (values.toggle("json")) {
    print_output(to_text(report::recording_to_json(report)));
  } else if (values.has("html")) {
    auto page = report::recording_to_html(report, report::take_page_moments(*recording, analysis));
    if (!page) return forward_error(page);
    if (auto written = write_file_atomically(values.text("html"), *page); !written)
      return forward_error(written);
  } else {
    print_output(report::recording_to_terminal(report, wants_color(values), terminal_width(STDOUT_FILENO)));
  }
  warn_of_missing_symbols(symbolizer->problems());
  return 0;
}

}  // namespace headroom::cli
