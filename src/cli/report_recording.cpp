#include <fmt/format.h>

#include <memory>

#include "attribution/recording_analysis.h"
#include "base/json.h"
#include "cli/common_flags.h"
#include "cli/report_inputs.h"
#include "cli/views.h"
#include "recording/recording.h"
#include "report/recording/frame_names.h"
#include "report/recording/recording_html.h"
#include "report/recording/recording_moment.h"
#include "report/recording/recording_views.h"
#include "symbols/symbolizer.h"
#include "trace/other_processes.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

// "1.5s", "peak" or "end". Fails if the recording is shorter.
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
  // Half A of the samples chose the peak, so half B measures it, as in the other views.
  const SampleHalf half = text == "peak" ? SampleHalf::b : SampleHalf::both;
  const attribution::LiveRows rows = attribution::live_rows_at(recording, *time, half);
  Views views;
  views.json = [&] { return to_text(report::moment_to_json(report, rows)); };
  views.terminal = [&](bool color, int width) {
    return report::moment_to_terminal(report, rows, color, width);
  };
  return print_views(values, views);
}

Status print_report(recording::Recording& recording, const report::RecordingReport& report,
                    const FlagValues& values) {
  Views views;
  views.json = [&] { return to_text(report::recording_to_json(report)); };
  views.html = [&] {
    return report::recording_to_html(report, report::take_page_moments(recording, report.analysis));
  };
  views.terminal = [&](bool color, int width) { return report::recording_to_terminal(report, color, width); };
  return print_views(values, views);
}

Status check_flags_of_recordings(const fs::path& file, const FlagValues& values) {
  for (const char* flag : {"markdown", "csv"})
    if (values.has(flag))
      return usage_error(fmt::format("--{} works with run folders only", flag),
                         fmt::format("{} is a recording", file.string()),
                         "remove it, or use --json, --html or headroom export");
  for (const char* flag : {"html", "all"})
    if (values.has("at") && values.has(flag))
      return usage_error(fmt::format("--{} and --at cannot be combined", flag), "--at shows one moment only",
                         "remove one of them");
  return {};
}

}  // namespace

Status report_recording(const fs::path& file, const FlagValues& values) {
  if (auto fine = check_flags_of_recordings(file, values); !fine) return fine;
  auto options = symbolizer_options(values);
  if (!options) return forward_error(options);
  auto recording = recording::Recording::open(file);
  if (!recording) return forward_error(recording);
  const attribution::RecordingAnalysis analysis = attribution::analyze_recording(*recording, {});
  const auto symbolizer =
      std::make_shared<symbols::Symbolizer>(recording->info().modules, std::move(*options));
  const bool at_moment = values.has("at");
  const report::RecordingReport report{
      file.string(),
      recording->info(),
      recording->stacks(),
      analysis,
      report::names_by_symbols(symbolizer),
      at_moment ? std::vector<report::ProcessFigures>() : trace::other_processes(file),
      values.toggle("all")};
  auto printed =
      at_moment ? print_moment(*recording, report, values) : print_report(*recording, report, values);
  if (printed) warn_of_missing_symbols(symbolizer->problems());
  return printed;
}

}  // namespace headroom::cli
