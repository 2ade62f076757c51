#include "cli/diff_recordings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/common_flags.h"
#include "cli/diff_runs.h"
#include "exporters/named_stacks.h"
#include "report/comparison/recording_gate.h"
#include "trace/other_processes.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

using comparison::DiffBy;

report::DiffChoice choice_of(const FlagValues& values) {
  report::DiffChoice choice;
  for (const DiffBy by : comparison::kDiffBy)
    if (values.text("by") == name_of(by)) choice.by = by;
  if (const auto top = values.integer("top")) choice.top = static_cast<std::size_t>(*top);
  if (values.has("min")) choice.at_least = parse_size(values.text("min"))->count;  // checked by its kind
  choice.add_others = values.toggle("all");
  return choice;
}

// A recording by groups, with the names that its symbols give.
comparison::GroupedRecording group_by_names(recording::Recording& recording,
                                            symbols::SymbolizerOptions options,
                                            const std::set<std::string>& of_one_build,
                                            std::vector<std::string>& problems) {
  symbols::Symbolizer symbolizer(recording.info().modules, std::move(options));
  bool prepared = false;
  const auto names = [&](std::uint64_t return_address) {
    // The first is asked for when all stacks are known.
    if (!prepared) exporters::prepare_symbols({recording, symbolizer});
    prepared = true;
    std::vector<comparison::NamedFrame> frames;
    for (const symbols::SourceFrame& frame : symbolizer.frames_of(return_address, true))
      frames.push_back({std::string(frame.function), std::string(frame.module), frame.named});
    return frames;
  };
  auto grouped = comparison::group_recording(recording, names, of_one_build);
  for (std::string& problem : symbolizer.problems()) problems.push_back(std::move(problem));
  return grouped;
}

void print_recordings(const report::DiffReport& report, const FlagValues& values) {
  if (values.toggle("json")) return print_output(to_text(diff_to_json(report)));
  if (values.toggle("csv")) return print_output(diff_to_csv(report));
  if (values.toggle("markdown")) return print_output(diff_to_markdown(report));
  print_output(diff_to_terminal(report, wants_color(values), terminal_width(STDOUT_FILENO)));
}

void warn_of_unseen(const report::DiffReport& report) {
  for (const auto& [side, name] : {std::pair{&report.before, 'A'}, std::pair{&report.after, 'B'}})
    if (side->recording.analysis.unseen_blocks > 0)
      log::warning(
          "{} ({}) has frees of blocks whose allocation was not recorded, so its real peak may be higher "
          "than the gate's figure",
          name, side->file);
}

}  // namespace

Result<int> diff_recordings(const fs::path& file_a, const fs::path& file_b, const FlagValues& values) {
  std::optional<report::PeakLimit> limit;
  if (values.has("fail-above")) {
    auto parsed = report::parse_peak_limit(values.text("fail-above"));
    if (!parsed) return forward_error(parsed);
    limit = std::move(*parsed);
  }
  auto rules = figure_rules(values, report::gated_recording_figures());
  if (!rules) return forward_error(rules);
  auto options = symbolizer_options(values);
  if (!options) return forward_error(options);

  auto before = recording::Recording::open(file_a);
  if (!before) return forward_error(before);
  auto after = recording::Recording::open(file_b);
  if (!after) return forward_error(after);
  for (const auto& [recording, file] : {std::pair{&*before, &file_a}, std::pair{&*after, &file_b}})
    if (!recording->info().host_recorded)
      return usage_error(fmt::format("cannot compare {}", file->string()),
                         "it has GPU memory only (--only gpu), and headroom diff compares host memory",
                         "compare the devices in headroom report --json");
  const auto of_one_build = comparison::modules_of_one_build(before->info(), after->info());
  std::vector<std::string> problems;
  const comparison::GroupedRecording a = group_by_names(*before, *options, of_one_build, problems);
  const comparison::GroupedRecording b = group_by_names(*after, *options, of_one_build, problems);
  warn_of_missing_symbols(std::move(problems));
  const comparison::RecordingDiff diff = comparison::diff_recordings(a, b);
  report::DiffReport report{{file_a.string(), before->info(), a, trace::other_processes(file_a)},
                            {file_b.string(), after->info(), b, trace::other_processes(file_b)},
                            diff,
                            choice_of(values)};
  std::error_code code;
  report.is_one_recording = fs::equivalent(file_a, file_b, code) && !code;
  const comparison::GateJudgement judgement = report::judge_recordings(report, *rules, limit);
  if (report.is_one_recording && !report.not_judged.empty()) log::warning("{}", report.not_judged);
  print_recordings(report, values);
  if (!rules->empty() || limit) warn_of_unseen(report);
  return exit_by(judgement);
}

}  // namespace headroom::cli
