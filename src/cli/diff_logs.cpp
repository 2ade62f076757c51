#include "cli/diff_logs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "base/terminal.h"
#include "cli/common_flags.h"
#include "cli/diff_runs.h"
#include "comparison/watched_log.h"
#include "report/comparison/series_gate.h"
#include "watch/open_log.h"
#include "watch/text_input.h"

namespace headroom::cli {
namespace {

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

void print_view(const report::SeriesDiffReport& report, const FlagValues& values) {
  if (values.toggle("json")) return print_output(to_text(series_diff_to_json(report)));
  if (values.toggle("markdown")) return print_output(series_diff_to_markdown(report));
  print_output(series_diff_to_terminal(report, wants_color(values), terminal_width(STDOUT_FILENO)));
}

}  // namespace

Result<int> diff_logs(const std::string& before, const std::string& after, const FlagValues& values) {
  auto a = read_log(before);
  if (!a) return forward_error(a);
  auto b = read_log(after);
  if (!b) return forward_error(b);
  auto changes = comparison::compare_series(a->figures, b->figures);
  auto rules = figure_rules(values, report::gated_log_figures(changes));
  if (!rules) return forward_error(rules);
  report::SeriesDiffReport report{before, after, a->figures, b->figures, changes, {}};
  std::error_code code;
  report.is_one_log = std::filesystem::equivalent(before, after, code) || comparison::are_one_log(*a, *b);
  if (report.is_one_log) comparison::clear_changes(changes);
  for (const auto& [log, name] :
       {std::pair{&*a, fmt::format("A ({})", before)}, {&*b, fmt::format("B ({})", after)}})
    for (std::string& problem : comparison::problems_of(*log, name))
      report.problems.push_back(std::move(problem));
  report.has_enough = std::any_of(
      changes.begin(), changes.end(),
      [&](const comparison::SeriesChange& change) { return comparison::has_enough(*a, *b, change.name); });
  const comparison::GateJudgement judgement = report::judge_logs(report, *rules, *a, *b);
  if (report.is_one_log && !report.not_judged.empty()) log::warning("{}", report.not_judged);
  if (const auto top = values.integer("top")) report.top = static_cast<std::size_t>(*top);
  print_view(report, values);
  // What is beyond a limit for fewer samples is chance as well as a change.
  if (judgement.not_judged && !report.has_enough) return tl::unexpected(*judgement.not_judged);
  return exit_by(judgement);
}

}  // namespace headroom::cli
