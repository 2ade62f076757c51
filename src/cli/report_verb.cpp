#include "cli/verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "cli/report_inputs.h"
#include "cli/views.h"
#include "recording/is_recording.h"
#include "report/input/run_input.h"
#include "report/run/report_json.h"
#include "report/run/views.h"
#include "snapshot/snapshot_reader.h"

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
  const fs::path& first = *std::min_element(recordings.begin(), recordings.end());
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

Status report_run(const fs::path& file, const FlagValues& values) {
  for (const char* flag : {"all", "at", "symbols"})
    if (values.has(flag))
      return usage_error(fmt::format("--{} works with recordings only", flag),
                         fmt::format("{} is not a recording", file.string()), "remove the flag");
  auto text = read_file(file, report::kLargestReport);
  if (!text) return forward_error(text);
  if (!may_be_a_report(file, *text))
    return input_error(fmt::format("{} is neither a recording, a snapshot nor a run", file.string()), "",
                       "name a run's folder, its report.json, a .hrec file or a .pickle file");
  const auto result = report::read_report(*text, file.string());
  if (!result) return tl::unexpected<Error>(result.error());
  Views views;
  views.json = [&] { return to_text(report::to_json(*result)); };
  views.markdown = [&] { return report::to_markdown(*result); };
  views.csv = [&] { return report::to_csv(*result); };
  views.html = [&] {
    const fs::path folder = file.parent_path();
    const auto metrics = read_file(folder / "metrics.jsonl");
    return report::to_html(*result, folder, metrics ? std::string_view(*metrics) : std::string_view());
  };
  views.terminal = [&](bool color, int width) { return report::to_terminal(*result, color, width); };
  return print_views(values, views);
}

Result<int> run_report(const std::vector<std::string>& arguments) {
  auto values = parse_flags(report_verb(), arguments);
  if (!values) return forward_error(values);
  auto file = report_file(values->positionals());
  if (!file) return forward_error(file);
  if (values->has("html"))
    if (auto fine = check_output(values->text("html"), *file, "--html"); !fine) return forward_error(fine);
  // FILE.hrec without a recording's first bytes is a damaged recording.
  const bool is_recording = recording::is_recording(*file) || file->extension() == ".hrec";
  const auto report = is_recording                        ? report_recording
                      : snapshot::is_snapshot_file(*file) ? report_snapshot
                                                          : report_run;
  if (auto printed = report(*file, *values); !printed) return forward_error(printed);
  return 0;
}

}  // namespace

const Verb& report_verb() {
  static const Verb kVerb{
      .name = "report",
      .summary = "Show a run or recording as text, JSON, HTML, Markdown or CSV",
      .usage = "headroom report RUN_FOLDER|FILE.hrec|SNAPSHOT.pickle [FLAGS]",
      .description =
          "Prints a view of a run folder, a recording or a memory snapshot. The run may have been "
          "interrupted. "
          "For a recording of headroom trace, it shows the memory at the peak, leaks, churn and "
          "fragmentation. "
          "For a memory snapshot of PyTorch (plain or gzip), it also shows why an allocation failed.",
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
  };
  return kVerb;
}

int run_report_verb(const std::vector<std::string>& arguments) { return exit_code_of(run_report(arguments)); }

}  // namespace headroom::cli
