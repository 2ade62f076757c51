#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "attribution/recording_analysis.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/verbs.h"
#include "recording/recording.h"
#include "report/input/run_input.h"
#include "report/recording/recording_html.h"
#include "report/recording/recording_views.h"
#include "report/run/report_json.h"
#include "report/run/views.h"
#include "report/snapshot/snapshot_views.h"
#include "snapshot/snapshot_analysis.h"
#include "snapshot/snapshot_reader.h"
#include "symbols/symbolizer.h"
#include "trace/run_trace.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

// A folder without a report often has recordings. The user chooses one of them.
tl::unexpected<Error> no_report_in(const fs::path& folder) {
  std::vector<fs::path> recordings;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    if (entry->path().extension() == ".hrec") recordings.push_back(entry->path());
  if (recordings.empty())
    return input_error(fmt::format("{} has no report.json", folder.string()),
                       "it is not a run of headroom bench",
                       "name a run's folder, its report.json or a recording (.hrec)");
  const fs::path& first = *std::ranges::min_element(recordings);
  return input_error(fmt::format("{} has no report.json", folder.string()),
                     recordings.size() == 1 ? "the folder has a recording"
                                            : fmt::format("the folder has {} recordings", recordings.size()),
                     fmt::format("run headroom report {}", shell_word(first.string())));
}

// The report.json or the recording to read.
Result<fs::path> report_file(const std::vector<std::string>& positionals) {
  if (positionals.size() != 1)
    return usage_error("headroom report needs one run folder or recording",
                       fmt::format("{} given", positionals.size()),
                       "name one, such as outputs/2026-11-21_10-30-00 or program.hrec");
  fs::path given = positionals.front();
  std::error_code code;
  if (!fs::is_directory(given, code)) return given;
  if (!fs::exists(given / "report.json", code)) return no_report_in(given);
  return given / "report.json";
}

// A file that does not begin with a JSON object is not from headroom bench. A damaged report.json is
// different: its JSON error names the place.
bool may_be_a_report(const fs::path& file, std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return file.extension() == ".json" || trim(text).starts_with('{');
}

Result<int> report_run(const fs::path& file, const FlagValues& values) {
  if (auto fine = reject_flags(values, {"all", "at", "symbols"}, "works with recordings only",
                               fmt::format("{} is not a recording", file.string()), "remove the flag");
      !fine)
    return forward_error(fine);
  auto text = read_file(file, report::kLargestReport);
  if (!text) return forward_error(text);
  if (!may_be_a_report(file, *text))
    return input_error(fmt::format("{} is neither a recording, a snapshot nor a run", file.string()), "",
                       "name a run's folder, its report.json, a .hrec file or a .pickle file");
  auto result = report::read_report(*text, file.string());
  if (!result) return forward_error(result);
  const auto page = [&] {
    const fs::path folder = file.parent_path();
    return report::to_html(*result, folder, read_file(folder / "metrics.jsonl").value_or(""));
  };
  return print_views(
      values, {.terminal = [&](bool color, int width) { return report::to_terminal(*result, color, width); },
               .json = [&] { return to_text(report::to_json(*result)); },
               .markdown = [&] { return report::to_markdown(*result); },
               .csv = [&] { return report::to_csv(*result); },
               .html = page});
}

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

Result<int> print_moment(recording::Recording& recording, const report::RecordingReport& report,
                         const FlagValues& values) {
  const std::string text = values.text("at");
  auto time = moment_of(text, report.analysis);
  if (!time) return forward_error(time);
  // Half A of the samples chose the peak, so half B measures it, as in the other views.
  const SampleHalf half = text == "peak" ? SampleHalf::b : SampleHalf::both;
  const attribution::LiveRows rows = attribution::live_rows_at(recording, *time, half);
  return print_views(
      values, {.terminal = std::bind_front(report::moment_to_terminal, std::cref(report), std::cref(rows)),
               .json = [&] { return to_text(report::moment_to_json(report, rows)); }});
}

Result<int> print_recording(recording::Recording& recording, const report::RecordingReport& report,
                            const FlagValues& values) {
  const auto page = [&] {
    return report::recording_to_html(report, report::take_page_moments(recording, report.analysis));
  };
  return print_views(values, {.terminal = std::bind_front(report::recording_to_terminal, std::cref(report)),
                              .json = [&] { return to_text(report::recording_to_json(report)); },
                              .html = page});
}

Result<int> report_recording(const fs::path& file, const FlagValues& values) {
  const bool at_moment = values.has("at");
  auto fine = reject_flags(values, {"markdown", "csv"}, "works with run folders only",
                           fmt::format("{} is a recording", file.string()),
                           "remove it, or use --json, --html or headroom export");
  if (fine && at_moment)
    fine = reject_flags(values, {"html", "all"}, "and --at cannot be combined", "--at shows one moment only",
                        "remove one of them");
  if (!fine) return forward_error(fine);
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
      report::names_by_symbols(symbolizer),
      at_moment ? std::vector<report::ProcessFigures>() : trace::other_processes(file),
      values.toggle("all")};
  auto printed =
      at_moment ? print_moment(*recording, report, values) : print_recording(*recording, report, values);
  if (printed) warn_of_missing_symbols(symbolizer->problems());
  return printed;
}

Result<int> report_snapshot(const fs::path& file, const FlagValues& values) {
  if (auto fine = reject_flags(
          values, {"markdown", "csv", "all", "at", "symbols"}, "does not work with a memory snapshot",
          fmt::format("{} is a memory snapshot", file.string()), "remove it, or use --json or --html");
      !fine)
    return forward_error(fine);
  auto snapshot = snapshot::open_snapshot(file);
  if (!snapshot) return forward_error(snapshot);
  report::SnapshotLive live;
  const auto devices = snapshot::analyze_snapshot(
      *snapshot, values.has("html") ? live.options() : snapshot::SnapshotOptions{});
  const report::SnapshotReport report{file.string(), *snapshot, devices};
  return print_views(values, {.terminal = std::bind_front(report::snapshot_to_terminal, std::cref(report)),
                              .json = [&] { return to_text(report::snapshot_to_json(report)); },
                              .html = [&] { return report::snapshot_to_html(report, live); }});
}

Result<int> run_report(const FlagValues& values) {
  auto file = report_file(values.positionals());
  if (!file) return forward_error(file);
  if (auto fine = check_output(values.text("html"), *file, "--html"); !fine) return forward_error(fine);
  // FILE.hrec without a recording's first bytes is a damaged recording.
  if (recording::is_recording(*file) || file->extension() == ".hrec") return report_recording(*file, values);
  return snapshot::is_snapshot_file(*file) ? report_snapshot(*file, values) : report_run(*file, values);
}

}  // namespace

const Verb& report_verb() {
  static const Verb kVerb{
      .name = "report",
      .summary = "Show a run or recording as text, JSON, HTML, Markdown or CSV",
      .usage = "headroom report RUN_FOLDER|FILE.hrec|SNAPSHOT.pickle [FLAGS]",
      .description =
          "Prints a view of a run folder, a recording or a memory snapshot. The run may have been "
          "interrupted. For a recording of headroom trace, it shows the memory at the peak, leaks, churn "
          "and fragmentation. For a memory snapshot of PyTorch (plain or gzip), it also shows why an "
          "allocation failed.",
      .examples = {"headroom report outputs/2026-11-21_10-30-00", "headroom report program.hrec",
                   "headroom report RUN --markdown > comment.md", "headroom report RUN --html page.html",
                   "headroom report program.hrec --html page.html", "headroom report program.hrec --at 1.5s",
                   "headroom report snapshot.pickle", "headroom report snapshot.pickle --html page.html"},
      .flags = {toggle_flag("json", "print report.json, or all figures of the recording or snapshot"),
                toggle_flag("markdown", "print a run as Markdown"),
                toggle_flag("csv", "print a run as CSV, one row per model"),
                toggle_flag("all", "sum over all processes of a recording"),
                text_flag("html", "FILE", "write a self-contained HTML page to FILE"),
                text_flag("at", "TIME", "show memory live at TIME of a recording: 1.5s, peak, end"),
                symbols_flag(), color_flag()},
      .positional = "RUN_FOLDER|FILE.hrec|SNAPSHOT.pickle",
      .run = run_with_flags<report_verb, run_report>,
  };
  return kVerb;
}

}  // namespace headroom::cli
