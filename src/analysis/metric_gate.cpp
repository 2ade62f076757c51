#include "analysis/metric_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/text.h"

namespace headroom::analysis {
namespace {

tl::unexpected<Error> no_rule(std::string_view rule, std::string why) {
  return usage_error(fmt::format("--fail-on '{}' is no rule", rule), std::move(why),
                     "write METRIC>+5%, METRIC>+20MiB or METRIC>512MiB, as in 'run_peak>+5%,p99>+10%'");
}

// The amount without its sign, in the metric's base unit.
std::optional<double> amount_of(const RunMetric& metric, const std::string& text) {
  switch (metric.unit) {
    case MetricUnit::bytes: {
      const auto size = parse_size(text);
      return size ? std::optional(static_cast<double>(size->count)) : std::nullopt;
    }
    case MetricUnit::nanoseconds: {
      if (!text.empty() && (text.back() < 'a' || text.back() > 'z')) return std::nullopt;  // 5 of what?
      const auto time = parse_duration(text);
      return time ? std::optional(static_cast<double>(time->count)) : std::nullopt;
    }
    case MetricUnit::per_second:
    case MetricUnit::count:
      break;
  }
  return parse_number<double>(text);
}

std::string_view unit_example(MetricUnit unit) {
  switch (unit) {
    case MetricUnit::bytes:
      return "a percentage or a size: +5%, +20MiB, 512MiB";
    case MetricUnit::nanoseconds:
      return "a percentage or a time: +10%, +2ms, 20ms";
    case MetricUnit::per_second:
    case MetricUnit::count:
      break;
  }
  return "a percentage or a number: -5%, 30";
}

Result<GateRule> parse_rule(std::string_view text) {
  GateRule rule;
  rule.text = std::string(text);
  const std::size_t sign = text.find_first_of("<>");
  if (sign == std::string_view::npos) return no_rule(text, "it has neither > nor <");
  rule.above = text[sign] == '>';
  std::string_view name = trim(text.substr(0, sign)), limit = trim(text.substr(sign + 1));
  if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos) {
    rule.model = std::string(trim(name.substr(0, colon)));
    name = trim(name.substr(colon + 1));
  }
  rule.metric = find_run_metric(name);
  if (rule.metric == nullptr) {
    const std::string near = closest_match(name, run_metric_names());
    return no_rule(text, near.empty()
                             ? fmt::format("there is no metric '{}'; `headroom diff --help` lists them", name)
                             : fmt::format("there is no metric '{}'; did you mean {}?", name, near));
  }
  const bool is_change = limit.starts_with('+') || limit.starts_with('-');
  const double direction = limit.starts_with('-') ? -1 : 1;
  if (is_change) limit.remove_prefix(1);
  const bool is_share = limit.ends_with('%');
  if (is_share && !is_change)
    return no_rule(text, "a percentage is a change, so it needs a sign: +5% or -5%");
  std::optional<double> amount;
  if (is_share) {
    amount = parse_number<double>(trim(limit.substr(0, limit.size() - 1)));
    if (amount) *amount /= 100;
  } else {
    amount = amount_of(*rule.metric, std::string(limit));
  }
  if (!amount || !std::isfinite(*amount) || *amount < 0)
    return no_rule(text, fmt::format("'{}' is not {}", limit, unit_example(rule.metric->unit)));
  rule.amount = direction * *amount;
  rule.against = is_share    ? GateRule::Against::change_share
                 : is_change ? GateRule::Against::change
                             : GateRule::Against::value;
  return rule;
}

// Of what was nothing before, any growth is beyond every share.
double changed_share(const MetricChange& change) {
  if (change.has_ratio) return change.ratio - 1;
  if (change.change() == 0) return 0;
  return change.before == 0 ? std::copysign(std::numeric_limits<double>::infinity(), change.change())
                            : change.change() / std::abs(change.before);
}

double judged_value(const GateRule& rule, const MetricChange& change) {
  switch (rule.against) {
    case GateRule::Against::change_share:
      return changed_share(change);
    case GateRule::Against::change:
      return change.change();
    case GateRule::Against::value:
      break;
  }
  return change.after;
}

std::string breach_words(const GateRule& rule, const ModelComparison& model, const MetricChange& change) {
  const RunMetric& metric = *change.metric;
  if (rule.against == GateRule::Against::value)
    return fmt::format("{} of {} is {} in B", metric.name, model.name, words_for(metric, change.after));
  return fmt::format("{} of {} went from {} to {}{}", metric.name, model.name,
                     words_for(metric, change.before), words_for(metric, change.after),
                     change.has_ratio ? fmt::format(" ({})", percent_words(change.ratio)) : "");
}

std::string interval_limits(const MetricChange& change) {
  if (change.has_ratio) return fmt::format("{} to {}", percent_words(change.low), percent_words(change.high));
  return fmt::format("{} to {}", words_for(*change.metric, change.low_change),
                     words_for(*change.metric, change.high_change));
}

void check_rule(const GateRule& rule, const ModelComparison& model, const MetricChange& change,
                std::vector<GateFinding>& findings) {
  const double value = judged_value(rule, change);
  if (rule.above ? value <= rule.amount : value >= rule.amount) return;
  const std::string words = breach_words(rule, model, change);
  // An interval that holds no change at all: the limit was passed by chance.
  if (rule.against != GateRule::Against::value && change.is_noise())
    findings.push_back(
        {fmt::format("{}, beyond '{}', but the {:g} % interval of the change is {}: not failed; {}", words,
                     rule.text, 100 * change.confidence, interval_limits(change),
                     change.is_of_file_pages
                         ? "what differs is pages of files, whose number depends on the page cache"
                         : "more runs a side tell"),
         false});
  else
    findings.push_back({fmt::format("{}, and --fail-on says '{}'", words, rule.text), true});
}

// A model that does not come through in B is nothing that a gate lets pass.
void check_outcomes(const RunComparison& comparison, std::vector<GateFinding>& findings) {
  for (const ModelComparison& model : comparison.models)
    if (model.fell() || model.outcome_after.never_came_through())
      findings.push_back({failure_words(model), true});
    else if (model.outcome_before.never_came_through())
      findings.push_back({failure_words(model) + ", so there is nothing to compare it with", false});
  for (const std::string& name : comparison.only_before)
    findings.push_back({fmt::format("{} was measured in A and is not in B", name), true});
  for (const NewModel& model : comparison.only_after)
    if (model.outcome.failed > 0) findings.push_back({failure_words(model), true});
}

bool is_judgeable(const GateRule& rule, const RunComparison& comparison) {
  // Of a model that came through in B alone there is no change; its own value would have to be known.
  return std::any_of(comparison.models.begin(), comparison.models.end(), [&](const ModelComparison& model) {
    if (!rule.model.empty() && rule.model != model.name) return false;
    return model.find(rule.metric->name) != nullptr ||
           (model.outcome_before.never_came_through() && rule.against != GateRule::Against::value);
  });
}

std::string outcome_words(const SideOutcome& outcome) {
  std::string words(name_of(outcome.status));
  if (!outcome.error.empty()) words += ": " + outcome.error;
  if (outcome.failed < outcome.runs) words += fmt::format("; {} of {} runs", outcome.failed, outcome.runs);
  return words;
}

}  // namespace

std::string words_for(const RunMetric& metric, double value) {
  switch (metric.unit) {
    case MetricUnit::bytes:
      return format_bytes({std::llround(value)});
    case MetricUnit::nanoseconds:
      return format_duration({std::llround(value)});
    case MetricUnit::per_second:
      return fmt::format("{:.1f}", value);
    case MetricUnit::count:
      break;
  }
  return fmt::format("{:.4g}", value);
}

std::string failure_words(const ModelComparison& model) {
  const SideOutcome &a = model.outcome_before, &b = model.outcome_after;
  if (a.failed > 0 && b.failed > 0)
    return fmt::format("{} failed in A ({}) and in B ({})", model.name, outcome_words(a), outcome_words(b));
  if (b.failed > 0)
    return fmt::format("{} came through in A and not in B ({})", model.name, outcome_words(b));
  return fmt::format("{} came through in B and not in A ({})", model.name, outcome_words(a));
}

std::string failure_words(const NewModel& model) {
  return fmt::format("{} is new in B and failed there ({})", model.name, outcome_words(model.outcome));
}

std::string percent_words(double ratio) {
  if (!std::isfinite(ratio)) return "from nothing";
  return fmt::format("{:+.1f} %", 100 * (ratio - 1));
}

Result<std::vector<GateRule>> parse_gate(std::string_view text) {
  std::vector<GateRule> rules;
  for (const std::string_view part : split(text, ',')) {
    if (trim(part).empty()) return no_rule(text, "one of its rules is empty");
    auto rule = parse_rule(trim(part));
    if (!rule) return forward_error(rule);
    rules.push_back(std::move(*rule));
  }
  return rules;
}

Result<std::vector<GateFinding>> check_gate(const std::vector<GateRule>& rules,
                                            const RunComparison& comparison) {
  std::vector<GateFinding> findings;
  check_outcomes(comparison, findings);
  const bool has_failed = std::any_of(findings.begin(), findings.end(),
                                      [](const GateFinding& finding) { return finding.is_breach; });
  for (const GateRule& rule : rules) {
    for (const ModelComparison& model : comparison.models)
      if (rule.model.empty() || rule.model == model.name)
        if (const MetricChange* change = model.find(rule.metric->name))
          check_rule(rule, model, *change, findings);
    if (!has_failed && !is_judgeable(rule, comparison))  // else it is known why not
      return input_error(
          fmt::format("--fail-on '{}' cannot be judged", rule.text),
          rule.model.empty()
              ? fmt::format("{} was not measured on both sides", rule.metric->name)
              : fmt::format("{} of {} was not measured on both sides", rule.metric->name, rule.model),
          "headroom diff --json lists what was");
  }
  return findings;
}

}  // namespace headroom::analysis
