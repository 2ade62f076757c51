// One rule of --fail-on as text: NAME>LIMIT or NAME<LIMIT. A limit with a sign is a change from A to B, in
// percent or in the figure's unit; one without is a value of B. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace headroom::comparison {

enum class GateAgainst { change_share, change, value };  // +5%, +20MiB, 512MiB

struct GateLimit {
  std::string text;  // the rule as it was given
  std::string name;  // what stands before the sign
  bool above = true;
  GateAgainst against = GateAgainst::change_share;
  std::string amount;    // without sign and percent sign
  double direction = 1;  // of a change
  bool is_beyond(double value, double limit) const { return above ? value > limit : value < limit; }
};

// The rules of one --fail-on, separated by commas. Errors are wrong use and name the rule.
Result<std::vector<GateLimit>> split_gate(std::string_view text);

// The limit with its sign: a share, or what `in_unit` makes of the amount. `example` says what it could be.
Result<double> limit_of(const GateLimit& rule, std::optional<double> (*in_unit)(const std::string& amount),
                        std::string_view example);

// Of one side that is compared with itself only its own values can be judged. Leaves out the rules on
// changes; "A and B are the same, so these rules were not checked: …", or nothing where there are none.
// `left_out`: others on changes, as they were given (--fail-above).
std::string words_for_left_out(const std::vector<std::string>& rules);
template <class Rule>
std::string leave_out_changes(std::vector<Rule>& rules, std::vector<std::string> left_out = {}) {
  const auto is_on_change = [](const Rule& rule) { return rule.limit.against != GateAgainst::value; };
  for (const Rule& rule : rules)
    if (is_on_change(rule)) left_out.push_back(rule.limit.text);
  std::erase_if(rules, is_on_change);
  return words_for_left_out(left_out);
}

// "--fail-on 'run_peak' is no rule: …"
tl::unexpected<Error> no_gate_rule(std::string_view rule, std::string why);

// A number of bytes from "20MiB", and one of anything else.
std::optional<double> bytes_of(const std::string& amount);
std::optional<double> number_of(const std::string& amount);

}  // namespace headroom::comparison
