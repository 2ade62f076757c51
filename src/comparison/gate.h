// The rules of --fail-on: NAME>LIMIT or NAME<LIMIT. A limit with a sign is a change from A to B, in percent
// or in the figure's unit; one without is a value of B. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comparison/run_comparison.h"

namespace headroom::comparison {

enum class GateAgainst { change_share, change, value };  // +5%, +20MiB, 512MiB

struct GateLimit {
  std::string text;  // the rule as it was given
  std::string name;  // what stands before the sign
  bool above = true;
  GateAgainst against = GateAgainst::change_share;
  std::string amount;    // without sign and percent sign
  double direction = 1;  // of a change
  // Of B's value, of the change, or of the change as a share of A; growth from zero exceeds every share.
  bool is_beyond(double limit, double before, double after) const;
};

// If A and B are the same, rules on changes are left out. Returns "A and B are the same, so these rules
// were not checked: …", or nothing.
std::string words_for_left_out(const std::vector<std::string>& rules);
template <class Rule>
std::string leave_out_changes(std::vector<Rule>& rules) {
  std::vector<std::string> left_out;
  const auto is_on_change = [](const Rule& rule) { return rule.limit.against != GateAgainst::value; };
  for (const Rule& rule : rules)
    if (is_on_change(rule)) left_out.push_back(rule.limit.text);
  std::erase_if(rules, is_on_change);
  return words_for_left_out(left_out);
}

// A rule for runs.
struct GateRule {
  GateLimit limit;
  std::string model;  // empty: all
  const RunMetric* metric = nullptr;
  double amount = 0;  // a share of A's value, or in the metric's base unit; signed
};

// [MODEL:]METRIC>LIMIT or <LIMIT.
Result<std::vector<GateRule>> parse_gate(std::string_view text);

struct GateFinding {
  std::string sentence;
  bool is_breach = false;  // else: beyond the limit, but within what two runs of one thing differ by
};

struct GateJudgement {
  std::vector<GateFinding> findings;  // of all rules that can be judged
  std::optional<Error> not_judged;    // of the first one of which nothing, or too little, was measured

  bool has_breach() const;
};

// A model that fails more often in B than in A, or is missing although it succeeded in A, is a breach of
// every gate. Rules on B's own value apply to new models, too.
GateJudgement check_gate(const std::vector<GateRule>& rules, const RunComparison& comparison);

// A value of the metric: "50.0 MiB", "2.456 ms", "364.1".
std::string words_for(const RunMetric& metric, double value);
std::string percent_words(double ratio);
// "det succeeded in A but failed in B (oom: …; 2 of 8 runs)".
std::string failure_words(const ModelComparison& model);
std::string failure_words(const NewModel& model);
// "det succeeded in A and is missing in B".
std::string gone_words(const GoneModel& model);

// A rule for logs of headroom watch and recordings, whose figures have the names of --json with their
// units.
struct FigureRule {
  GateLimit limit;
  double amount = 0;  // a share, bytes, or a number; signed
};

struct GatedFigure {
  std::string name;
  double before = 0, after = 0;
  double low = 0, high = 0;  // the interval of the change; both are the change where it is exact

  double change() const { return after - before; }
};

// Figures that end in _bytes take sizes. A rule on an unknown figure is reported by check_figure_gate().
Result<std::vector<FigureRule>> parse_figure_gate(std::string_view text,
                                                  const std::vector<GatedFigure>& figures);

using FigureWords = std::function<std::string(const std::string& name, double value)>;

// A figure that one side lacks cannot be judged.
GateJudgement check_figure_gate(const std::vector<FigureRule>& rules, const std::vector<GatedFigure>& figures,
                                const FigureWords& words);

}  // namespace headroom::comparison
