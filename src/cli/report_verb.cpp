#include "cli/report_verb.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/json.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "cli/recording_report.h"
#include "cli/run_inputs.h"
#include "cli/snapshot_report.h"
#include "report/run/report_json.h"
#include "report/run/views.h"
#include "snapshot/snapshot_reader.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

// A folder without a report is often one of recordings: which of them is meant, only the user knows.
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

// The report.json or the recording that is meant.
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

// A file whose first character begins no JSON object was not written by headroom bench. A damaged report.json
// is different: its JSON error says where.
bool may_be_a_report(const fs::path& file, std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return file.extension() == ".json" || trim(text).starts_with('{');
}

Result<int> run(const std::vector<std::string>& arguments) {
  auto values = parse_flags(report_verb(), arguments);
  if (!values) return forward_error(values);
  auto file = report_file(values->positionals());
  if (!file) return forward_error(file);
  // A recording of which the first bytes are missing is told so, and not that it is no JSON.
  if (is_recording(*file) || file->extension() == ".hrec") return report_recording(*file, *values);
  if (snapshot::is_snapshot_file(*file)) return report_snapshot(*file, *values);
  for (const char* flag : {"all", "at", "symbols"})
    if (values->has(flag))
      return usage_error(fmt::format("--{} works with recordings only", flag),
                         fmt::format("{} is not a recording", file->string()), "remove the flag");
  if (values->has("html"))
    if (auto sound = check_output(values->text("html"), *file, "--html"); !sound) return forward_error(sound);
  auto text = read_file(*file, kLargestReport);
  if (!text) return forward_error(text);
  if (!may_be_a_report(*file, *text))
    return input_error(fmt::format("{} is neither a recording, a snapshot nor a run", file->string()), "",
                       "name a run's folder, its report.json, a .hrec file or a .pickle file");
  auto result = report::read_report(*text, file->string());
  if (!result) return forward_error(result);
  const fs::path folder = file->parent_path();
  if (values->toggle("json")) {
    print_output(to_text(report::to_json(*result)));
  } else if (values->toggle("markdown")) {
    print_output(report::to_markdown(*result));
  } else if (values->toggle("csv")) {
    print_output(report::to_csv(*result));
  } else if (values->has("html")) {
    const auto metrics = read_file(folder / "metrics.jsonl");
    auto page = report::to_html(*result, folder, metrics ? std::string_view(*metrics) : std::string_view());
    if (!page) return forward_error(page);
    if (auto written = write_file_atomically(values->text("html"), *page); !written)
      return forward_error(written);
  } else {
    print_output(report::to_terminal(*result, wants_color(*values), terminal_width(STDOUT_FILENO)));
  }
  return 0;
}

}  // namespace

const Verb& report_verb() {
  static const Verb kVerb = [] {
    Verb verb;
    verb.name = "report";
    verb.summary = "Show a run or recording as text, JSON, HTML, Markdown or CSV";
    verb.usage = "headroom report RUN_FOLDER|FILE.hrec|SNAPSHOT.pickle [FLAGS]";
    verb.description =
        "Prints a view of a run folder, a recording or a memory snapshot. The run may have been interrupted. "
        "For a recording of headroom trace, it shows the memory at the peak, leaks, churn and fragmentation. "
        "For a memory snapshot of PyTorch (plain or gzip), it also shows why an allocation failed.";
    verb.examples = {"headroom report outputs/2026-11-21_10-30-00",
                     "headroom report program.hrec",
                     "headroom report RUN --markdown > comment.md",
                     "headroom report RUN --html page.html",
                     "headroom report program.hrec --html page.html",
                     "headroom report program.hrec --at 1.5s",
                     "headroom report snapshot.pickle",
                     "headroom report snapshot.pickle --html page.html"};
    verb.positional = "RUN_FOLDER|FILE.hrec|SNAPSHOT.pickle";
    const auto toggle = [](const char* name, const char* help) {
      return make_flag(name, FlagKind::toggle, "", help);
    };
    verb.flags = {
        toggle("json", "print report.json, or all figures of the recording or snapshot"),
        toggle("markdown", "print a run as Markdown"),
        toggle("csv", "print a run as CSV, one row per model"),
        toggle("all", "sum over all processes of a recording"),
        make_flag("html", FlagKind::text, "FILE", "write a self-contained HTML page to FILE"),
        make_flag("at", FlagKind::text, "TIME", "show memory live at TIME of a recording: 1.5s, peak, end"),
        symbols_flag(),
        color_flag()};
    return verb;
  }();
  return kVerb;
}

int run_report_verb(const std::vector<std::string>& arguments) { return exit_code_of(run(arguments)); }

}  // namespace headroom::cli
