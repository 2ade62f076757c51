// Compares two loaded sides of runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "base/log.h"
#include "report/comparison/run_diff.h"
#include "report/input/run_input.h"

namespace headroom::report {
namespace {

// Runs of the history have no keys.
bool are_same_runs(const LoadedSide& before, const LoadedSide& after) {
  const std::set<std::string> a(before.keys.begin(), before.keys.end()),
      b(after.keys.begin(), after.keys.end());
  return !a.empty() && a == b;
}

// A run on both sides hides a change.
void add_shared_runs(const LoadedSide& before, const LoadedSide& after, std::vector<std::string>& caveats) {
  for (std::size_t i = 0; i < before.keys.size(); ++i)
    for (std::size_t j = 0; j < after.keys.size(); ++j)
      if (before.keys[i] == after.keys[j])
        caveats.push_back(
            fmt::format("{} (A) and {} (B) are the same run", before.side[i].name, after.side[j].name));
}

}  // namespace

std::string left_out_words(const LoadedSide& side) {
  constexpr std::size_t kShown = 3;
  const std::size_t all = side.left_out.size(), shown = std::min(all, kShown);
  std::string words =
      fmt::format("{}", fmt::join(side.left_out.begin(), side.left_out.begin() + shown, "; "));
  return all > shown ? words + fmt::format("; and {} more", all - shown) : words;
}

RunDiffReport diff_runs(const LoadedSide& before, const LoadedSide& after, const HistoryWords& history) {
  RunDiffReport report{before.names(), after.names(), comparison::compare_runs(before.side, after.side)};
  report.before_words = history.before;
  report.after_words = history.after;
  report.is_one_side = are_same_runs(before, after);
  std::vector<std::string>& caveats = report.comparison.caveats;
  for (const auto& [side, name] : {std::pair{&before, "A"}, std::pair{&after, "B"}})
    if (std::string words = left_out_words(*side); !words.empty())
      caveats.push_back(fmt::format("skipped in {}: {}", name, words));
  if (!history.caveat.empty()) caveats.push_back(history.caveat);
  if (!report.is_one_side) add_shared_runs(before, after, caveats);
  return report;
}

comparison::GateJudgement judge_runs(RunDiffReport& report, std::vector<comparison::GateRule> rules) {
  comparison::GateJudgement judgement;
  if (rules.empty()) return judgement;
  if (report.is_one_side) report.not_judged = comparison::leave_out_changes(rules);
  if (!report.not_judged.empty()) log::warning("{}", report.not_judged);
  judgement = comparison::check_gate(rules, report.comparison);
  report.gate = judgement.findings;
  if (judgement.not_judged) report.not_judged = judgement.not_judged->sentence();
  return judgement;
}

}  // namespace headroom::report
