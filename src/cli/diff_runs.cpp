#include "cli/diff_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/log.h"
#include "base/terminal.h"
#include "cli/common_flags.h"
#include "report/comparison/run_diff_views.h"

namespace headroom::cli {
namespace {

// Means of one set of runs in another order differ in their last digit.
bool is_alike(const comparison::MetricChange& change) {
  return std::abs(change.change()) <= 1e-9 * std::abs(change.before);
}

bool is_all_alike(const comparison::RunComparison& comparison) {
  return comparison.facts.empty() && comparison.only_before.empty() && comparison.only_after.empty() &&
         std::all_of(comparison.models.begin(), comparison.models.end(),
                     [](const comparison::ModelComparison& model) {
                       return model.facts.empty() &&
                              std::all_of(model.metrics.begin(), model.metrics.end(), is_alike);
                     });
}

// Footprints and runs that were read from files; those of the history are never on both sides. A report that
// was changed by hand keeps its key, and is told by what differs.
bool are_same_runs(const report::LoadedSide& before, const report::LoadedSide& after,
                   const comparison::RunComparison& comparison) {
  const std::set<std::string> a(before.keys.begin(), before.keys.end()),
      b(after.keys.begin(), after.keys.end());
  return !a.empty() && a == b && is_all_alike(comparison);
}

// One run on both sides of several: it pulls them together.
void add_shared_runs(const report::LoadedSide& before, const report::LoadedSide& after,
                     std::vector<std::string>& caveats) {
  for (std::size_t i = 0; i < before.keys.size(); ++i)
    for (std::size_t j = 0; j < after.keys.size(); ++j)
      if (before.keys[i] == after.keys[j])
        caveats.push_back(
            fmt::format("{} (A) and {} (B) are the same run", before.side[i].name, after.side[j].name));
}

}  // namespace

Flag fail_on_flag() {
  Flag flag = make_flag("fail-on", FlagKind::text, "RULES",
                        "exit with 1 if a rule holds: 'run_peak>+5%,p99>+10%,det:fps<30'");
  flag.repeated = true;
  return flag;
}

Result<std::vector<comparison::GateRule>> gate_rules(const FlagValues& values) {
  std::vector<comparison::GateRule> rules;
  for (const std::string& given : values.all("fail-on")) {
    auto parsed = comparison::parse_gate(given);
    if (!parsed) return forward_error(parsed);
    rules.insert(rules.end(), parsed->begin(), parsed->end());
  }
  return rules;
}

Result<std::vector<comparison::FigureRule>> figure_rules(
    const FlagValues& values, const std::vector<comparison::GatedFigure>& figures) {
  std::vector<comparison::FigureRule> rules;
  for (const std::string& given : values.all("fail-on")) {
    auto parsed = comparison::parse_figure_gate(given, figures);
    if (!parsed) return forward_error(parsed);
    rules.insert(rules.end(), parsed->begin(), parsed->end());
  }
  return rules;
}

Result<int> exit_by(const comparison::GateJudgement& judgement) {
  // A breach is one whatever the other rules would have said.
  if (judgement.not_judged && !judgement.has_breach()) return tl::unexpected(*judgement.not_judged);
  if (judgement.not_judged) log::warning("{}", judgement.not_judged->sentence());
  std::vector<std::string> breaches;
  for (const comparison::GateFinding& finding : judgement.findings) {
    if (finding.is_breach)
      breaches.push_back(finding.sentence);
    else
      log::warning("{}", finding.sentence);
  }
  if (!breaches.empty()) return failure(fmt::format("{}", fmt::join(breaches, "; ")));
  return 0;
}

std::string run_metric_list() {
  std::string text;
  for (const comparison::RunMetric& metric : comparison::run_metrics())
    text += fmt::format("{}{}", text.empty() ? "" : ", ", metric.name);
  return text;
}

std::string left_out_words(const report::LoadedSide& side) {
  constexpr std::size_t kShown = 3;
  const std::size_t all = side.left_out.size(), shown = std::min(all, kShown);
  std::string words =
      fmt::format("{}", fmt::join(side.left_out.begin(), side.left_out.begin() + shown, "; "));
  return all > shown ? words + fmt::format("; and {} more", all - shown) : words;
}

Result<int> diff_runs(const report::LoadedSide& before, const report::LoadedSide& after,
                      const FlagValues& values, const std::vector<comparison::GateRule>& rules,
                      const HistoryWords& history) {
  comparison::RunComparison comparison = comparison::compare_runs(before.side, after.side);
  for (const auto& [side, name] : {std::pair{&before, "A"}, std::pair{&after, "B"}})
    if (std::string words = left_out_words(*side); !words.empty())
      comparison.caveats.push_back(fmt::format("skipped in {}: {}", name, words));
  if (!history.caveat.empty()) comparison.caveats.push_back(history.caveat);
  report::RunDiffReport report{before.names(), after.names(), comparison, {}};
  report.before_words = history.before;
  report.after_words = history.after;
  report.is_one_side = are_same_runs(before, after, comparison);
  if (!report.is_one_side) add_shared_runs(before, after, comparison.caveats);
  if (const auto top = values.integer("top")) report.top = static_cast<std::size_t>(*top);
  comparison::GateJudgement judgement;
  if (!rules.empty()) {
    std::vector<comparison::GateRule> judged = rules;
    if (report.is_one_side) report.not_judged = comparison::leave_out_changes(judged);
    if (!report.not_judged.empty()) log::warning("{}", report.not_judged);
    judgement = comparison::check_gate(judged, comparison);
  }
  report.gate = judgement.findings;
  if (judgement.not_judged) report.not_judged = judgement.not_judged->sentence();
  if (values.toggle("json"))
    print_output(to_text(run_diff_to_json(report)));
  else if (values.toggle("markdown"))
    print_output(run_diff_to_markdown(report));
  else
    print_output(run_diff_to_terminal(report, wants_color(values), terminal_width(STDOUT_FILENO)));
  return exit_by(judgement);
}

}  // namespace headroom::cli
