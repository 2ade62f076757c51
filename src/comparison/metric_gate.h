// --fail-on 'run_peak>+5%,p99>+10%': the rules by which a change fails a gate. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comparison/gate_limit.h"
#include "comparison/run_comparison.h"

namespace headroom::comparison {

struct GateRule {
  GateLimit limit;
  std::string model;  // empty: all
  const RunMetric* metric = nullptr;
  double amount = 0;  // a share of A's value, or in the metric's base unit; signed
};

// Rules separated by commas: [MODEL:]METRIC>LIMIT or <LIMIT. A limit with a sign is a change from A to B, in
// percent or in the metric's unit; one without is a value of B. Errors are wrong use and name the rule.
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

// What is beyond its limit. A model that does not come through in B, or more rarely than in A, or came
// through in A and is not in B, is a breach of every gate. A rule on B's own value holds for models that are
// new in B, too.
GateJudgement check_gate(const std::vector<GateRule>& rules, const RunComparison& comparison);

// "+3.1 %", "50.0 MiB", "2.456 ms", "364.1": a value of the metric.
std::string words_for(const RunMetric& metric, double value);
std::string percent_words(double ratio);
// "det came through in A and not in B (oom: …; 2 of 8 runs)": of a model of which a run failed.
std::string failure_words(const ModelComparison& model);
std::string failure_words(const NewModel& model);
// "det came through in A and is not in B".
std::string gone_words(const GoneModel& model);

}  // namespace headroom::comparison
