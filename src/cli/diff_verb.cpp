#include "cli/verbs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/diff_runs.h"
#include "comparison/recording_diff.h"
#include "exporters/named_stacks.h"
#include "report/comparison/recording_diff.h"
#include "report/comparison/series_diff.h"
#include "report/input/input_kind.h"
#include "report/input/run_input.h"
#include "trace/run_trace.h"
#include "watch/log_reader.h"
#include "watch/text_input.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

struct Sides {
  std::vector<std::string> before, after;
};

// A B, or A… : B… .
Result<Sides> sides_of(const std::vector<std::string>& given) {
  const auto colon = std::ranges::find(given, ":");
  if (colon == given.end()) {
    if (given.size() == 2) return Sides{{given[0]}, {given[1]}};
    return usage_error(
        "headroom diff needs two inputs", fmt::format("{} given", given.size()),
        "use headroom diff BEFORE AFTER, or with several runs per side: headroom diff A1 A2 A3 : B1 B2 B3");
  }
  Sides sides{{given.begin(), colon}, {colon + 1, given.end()}};
  if (sides.before.empty() || sides.after.empty() || std::ranges::find(sides.after, ":") != sides.after.end())
    return usage_error("headroom diff needs two sides", "the sides are separated by one ':'",
                       "use headroom diff A1 A2 A3 : B1 B2 B3");
  return sides;
}

// Of what all is; unlike kinds are refused.
Result<report::InputKind> common_kind(const Sides& sides) {
  std::string_view first_name;
  std::optional<report::InputKind> first;
  for (const std::vector<std::string>* side : {&sides.before, &sides.after})
    for (const std::string& name : *side) {
      auto kind = report::kind_of_input(name);
      if (!kind) return forward_error(kind);
      if (first && *first != *kind)
        return usage_error(fmt::format("cannot compare {} and {}", first_name, name),
                           fmt::format("the first is {}, the second is {}", report::words_for(*first),
                                       report::words_for(*kind)),
                           "name two inputs of the same kind");
      first = *kind;
      if (first_name.empty()) first_name = name;
    }
  return *first;
}

// Flags of recordings would be passed over without a word.
Status check_flags(report::InputKind kind, const FlagValues& values) {
  const auto of_recordings = {"by", "min", "fail-above", "all", "symbols", "csv"};
  for (const char* flag : of_recordings)
    if (kind != report::InputKind::recording && values.has(flag))
      return usage_error(fmt::format("--{} works with recordings only", flag),
                         "the inputs are not recordings",
                         std::string_view(flag) != "fail-above" ? "remove the flag"
                         : kind == report::InputKind::watch_log ? "use --fail-on 'ram_used_bytes>+5%'"
                                                                : "use --fail-on 'run_peak>+5%'");
  return check_views(values);
}

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

void warn_of_unseen(const report::DiffReport& report) {
  for (const auto& [side, name] : {std::pair{&report.before, 'A'}, std::pair{&report.after, 'B'}})
    if (side->recording.analysis.unseen_blocks > 0)
      log::warning(
          "{} ({}) has frees of blocks whose allocation was not recorded, so its real peak may be higher "
          "than the gate's figure",
          name, side->file);
}

// `headroom diff A.hrec B.hrec`.
Result<int> diff_recordings(const fs::path& file_a, const fs::path& file_b, const FlagValues& values) {
  const auto figures = report::gated_recording_figures();
  auto rules = figure_rules(values, figures);
  if (!rules) return forward_error(rules);
  if (values.has("fail-above")) {
    auto limit = comparison::parse_figure_gate("peak_bytes>+" + values.text("fail-above"), figures);
    if (!limit)
      return usage_error(fmt::format("invalid --fail-above {}", values.text("fail-above")), "",
                         "use a size such as 10MiB, or a percentage of A's peak such as 5%");
    rules->insert(rules->end(), limit->begin(), limit->end());
  }
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
  const comparison::GateJudgement judgement = report::judge_recordings(report, *rules);
  if (report.is_one_recording && !report.not_judged.empty()) log::warning("{}", report.not_judged);
  print_views(values,
              {.terminal = [&](bool color, int width) { return diff_to_terminal(report, color, width); },
               .json = [&] { return to_text(diff_to_json(report)); },
               .markdown = [&] { return diff_to_markdown(report); },
               .csv = [&] { return diff_to_csv(report); }});
  if (!rules->empty()) warn_of_unseen(report);
  return exit_by(judgement);
}

Result<comparison::WatchedLog> read_log(const std::string& file) {
  comparison::WatchedLog log;
  watch::LogCondition condition;
  auto read = watch::read_text_input(
      {watch::kOwnLog, file}, Nanoseconds{1'000'000'000}, [&](SystemSample& sample) { log.add(sample); },
      [] { return false; }, -1, {}, &condition);
  if (!read) return forward_error(read);
  if (log.figures.curves().empty())
    return input_error(fmt::format("{} has no samples", file),
                       "it is not a log of headroom watch (FILE.jsonl)", watch::kFixOwnLog);
  log.is_cut = condition.is_cut;
  log.is_damaged = condition.is_damaged;
  return log;
}

// `headroom diff A.jsonl B.jsonl`.
Result<int> diff_logs(const std::string& before, const std::string& after, const FlagValues& values) {
  auto a = read_log(before);
  if (!a) return forward_error(a);
  auto b = read_log(after);
  if (!b) return forward_error(b);
  std::error_code code;
  report::SeriesDiffReport report =
      report::diff_logs(before, *a, after, *b, fs::equivalent(before, after, code));
  if (const auto top = values.integer("top")) report.top = static_cast<std::size_t>(*top);
  auto rules = figure_rules(values, report::gated_log_figures(report.changes));
  if (!rules) return forward_error(rules);
  const comparison::GateJudgement judgement = report::judge_logs(report, *rules);
  if (report.is_one_log && !report.not_judged.empty()) log::warning("{}", report.not_judged);
  print_views(values, {.terminal = [&](bool color,
                                       int width) { return series_diff_to_terminal(report, color, width); },
                       .json = [&] { return to_text(series_diff_to_json(report)); },
                       .markdown = [&] { return series_diff_to_markdown(report); }});
  // With fewer samples, a difference beyond a limit may be chance.
  if (judgement.not_judged && !report.has_enough) return tl::unexpected(*judgement.not_judged);
  return exit_by(judgement);
}

Result<int> run(const FlagValues& values) {
  auto sides = sides_of(values.positionals());
  if (!sides) return forward_error(sides);
  auto kind = common_kind(*sides);
  if (!kind) return forward_error(kind);
  if (auto fine = check_flags(*kind, values); !fine) return forward_error(fine);
  if (*kind == report::InputKind::recording) {
    if (sides->before.size() != 1 || sides->after.size() != 1)
      return usage_error("headroom diff compares one recording with one recording", "one side has several",
                         "use headroom diff before.hrec after.hrec");
    return diff_recordings(sides->before.front(), sides->after.front(), values);
  }
  if (*kind == report::InputKind::watch_log) {
    if (sides->before.size() != 1 || sides->after.size() != 1)
      return usage_error("headroom diff compares one log with one log", "one side has several",
                         "use headroom diff before.jsonl after.jsonl");
    return diff_logs(sides->before.front(), sides->after.front(), values);
  }
  auto rules = gate_rules(values);
  if (!rules) return forward_error(rules);
  const auto load = *kind == report::InputKind::run ? report::load_runs : report::load_footprints;
  auto before = load(sides->before);
  if (!before) return forward_error(before);
  auto after = load(sides->after);
  if (!after) return forward_error(after);
  return diff_runs(*before, *after, values, *rules);
}

std::vector<Flag> diff_flags() {
  std::vector<std::string> tables;
  for (const DiffBy by : comparison::kDiffBy) tables.emplace_back(name_of(by));
  return {toggle_flag("json", "print all figures as JSON"),
          toggle_flag("markdown", "print Markdown for a pull request comment"),
          toggle_flag("csv", "print a CSV row per layer, stack and module (recordings)").rare(),
          fail_on_flag(),
          choice_flag("by", std::move(tables), "one full table (recordings)").with_default(""),
          integer_flag("top", "rows of each table", 1, 1e9).with_default("5; --by 10; --json all"),
          size_flag("min", "show only rows that changed by SIZE, at the peak or at the end (recordings)")
              .within(0)
              .with_default("1B; --json and --csv 0B")
              .rare(),
          text_flag("fail-above", "SIZE|PERCENT",
                    "exit with 1 if B's peak exceeds A's by more (10MiB, 5%; recordings)"),
          toggle_flag("all", "also sum over all processes of each recording").rare(),
          symbols_flag(),
          color_flag()};
}

}  // namespace

const Verb& diff_verb() {
  static const Verb kVerb{
      .name = "diff",
      .summary = "Compare two runs, footprints, watch logs or recordings",
      .usage = "headroom diff A B [FLAGS]   or   A… : B… [FLAGS]",
      .description =
          "Compares A (before) with B (after). Inputs are run folders of headroom bench, folders of several "
          "runs, footprints, logs of headroom watch, or recordings of headroom trace. The first line is the "
          "verdict. Runs are compared by memory, latency, FPS and detections of each model. A change counts "
          "if "
          "it exceeds the usual difference between two runs of the same setup. With three or more runs per "
          "side, the runs themselves show how large that difference is. Recordings are compared by layer, "
          "call "
          "stack and module. Stacks match if their functions and modules have the same names. For logs and "
          "recordings, --fail-on takes the figures of --json. Metrics of --fail-on for runs: " +
          run_metric_list() + ".",
      .examples = {"headroom diff runs/main runs/branch --fail-on 'run_peak>+5%,p99>+10%'",
                   "headroom diff A1 A2 A3 : B1 B2 B3 --markdown > comment.md",
                   "headroom diff main.hrec branch.hrec --fail-above 5%"},
      .flags = diff_flags(),
      .positional = "A B",
      .run = run_with_flags<diff_verb, run>,
  };
  return kVerb;
}

}  // namespace headroom::cli
