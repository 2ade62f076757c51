#include "cli/diff_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/common_flags.h"

namespace headroom::cli {
namespace {

template <class Rule, class Parse>
Result<std::vector<Rule>> fail_on_rules(const FlagValues& values, Parse parse) {
  std::vector<Rule> rules;
  for (const std::string& given : values.all("fail-on")) {
    auto parsed = parse(given);
    if (!parsed) return forward_error(parsed);
    rules.insert(rules.end(), parsed->begin(), parsed->end());
  }
  return rules;
}

}  // namespace

Flag fail_on_flag() {
  return text_flag("fail-on", "RULES", "exit with 1 if a rule holds: 'run_peak>+5%,p99>+10%,det:fps<30'")
      .repeatable();
}

Result<std::vector<comparison::GateRule>> gate_rules(const FlagValues& values) {
  return fail_on_rules<comparison::GateRule>(values, comparison::parse_gate);
}

Result<std::vector<comparison::FigureRule>> figure_rules(
    const FlagValues& values, const std::vector<comparison::GatedFigure>& figures) {
  return fail_on_rules<comparison::FigureRule>(
      values, [&](const std::string& given) { return comparison::parse_figure_gate(given, figures); });
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

Result<int> diff_runs(const report::LoadedSide& before, const report::LoadedSide& after,
                      const FlagValues& values, const std::vector<comparison::GateRule>& rules,
                      const report::HistoryWords& history) {
  report::RunDiffReport report = report::diff_runs(before, after, history);
  if (const auto top = values.integer("top")) report.top = static_cast<std::size_t>(*top);
  const comparison::GateJudgement judgement = report::judge_runs(report, rules);
  print_views(values,
              {.terminal = [&](bool color, int width) { return run_diff_to_terminal(report, color, width); },
               .json = [&] { return to_text(run_diff_to_json(report)); },
               .markdown = [&] { return run_diff_to_markdown(report); }});
  return exit_by(judgement);
}

}  // namespace headroom::cli
