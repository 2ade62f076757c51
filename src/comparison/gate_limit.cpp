#include "comparison/gate_limit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/text.h"
#include "base/units.h"

namespace headroom::comparison {
namespace {

Result<GateLimit> split_rule(std::string_view text) {
  GateLimit rule;
  rule.text = std::string(text);
  const std::size_t sign = text.find_first_of("<>");
  if (sign == std::string_view::npos) return no_gate_rule(text, "it has no > or <");
  rule.above = text[sign] == '>';
  rule.name = std::string(trim(text.substr(0, sign)));
  std::string_view limit = trim(text.substr(sign + 1));
  if (limit.starts_with('='))
    return no_gate_rule(text, fmt::format("{}= is not supported; use {}", text[sign], text[sign]));
  const bool is_change = limit.starts_with('+') || limit.starts_with('-');
  rule.direction = limit.starts_with('-') ? -1 : 1;
  if (is_change) limit.remove_prefix(1);
  const bool is_share = limit.ends_with('%');
  if (is_share && !is_change) return no_gate_rule(text, "a percentage needs a sign: +5% or -5%");
  if (is_share) limit.remove_suffix(1);
  rule.amount = std::string(trim(limit));
  rule.against = is_share ? GateAgainst::change_share : is_change ? GateAgainst::change : GateAgainst::value;
  return rule;
}

}  // namespace

std::string words_for_left_out(const std::vector<std::string>& rules) {
  if (rules.empty()) return {};
  return fmt::format("A and B are the same, so these rules were not checked: {}", fmt::join(rules, ", "));
}

tl::unexpected<Error> no_gate_rule(std::string_view rule, std::string why) {
  return usage_error(fmt::format("invalid --fail-on rule '{}'", rule), std::move(why),
                     "use METRIC>+5%, METRIC>+20MiB or METRIC>512MiB, as in 'run_peak>+5%,p99>+10%'");
}

Result<std::vector<GateLimit>> split_gate(std::string_view text) {
  std::vector<GateLimit> rules;
  for (const std::string_view part : split(text, ',')) {
    if (trim(part).empty()) return no_gate_rule(text, "one of the rules is empty");
    auto rule = split_rule(trim(part));
    if (!rule) return forward_error(rule);
    rules.push_back(std::move(*rule));
  }
  return rules;
}

Result<double> limit_of(const GateLimit& rule, std::optional<double> (*in_unit)(const std::string& amount),
                        std::string_view example) {
  const bool is_share = rule.against == GateAgainst::change_share;
  const std::optional<double> amount = is_share ? parse_number<double>(rule.amount) : in_unit(rule.amount);
  if (!amount || !std::isfinite(*amount) || *amount < 0)
    return no_gate_rule(rule.text,
                        fmt::format("'{}{}' is not {}", rule.amount, is_share ? "%" : "", example));
  return rule.direction * *amount / (is_share ? 100 : 1);
}

std::optional<double> bytes_of(const std::string& amount) {
  const auto size = parse_size(amount);
  return size ? std::optional(static_cast<double>(size->count)) : std::nullopt;
}

std::optional<double> number_of(const std::string& amount) { return parse_number<double>(amount); }

}  // namespace headroom::comparison
