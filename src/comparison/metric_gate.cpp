#include "comparison/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/text.h"

namespace headroom::comparison {
namespace {

std::optional<double> time_of_metric(const std::string& amount) {
  if (!amount.empty() && (amount.back() < 'a' || amount.back() > 'z')) return std::nullopt;  // 5 of what?
  const auto time = parse_duration(amount);
  return time ? std::optional(static_cast<double>(time->count)) : std::nullopt;
}

Result<double> amount_of(const RunMetric& metric, const GateLimit& limit) {
  switch (metric.unit) {
    case MetricUnit::bytes:
      return limit_of(limit, bytes_of, "a percentage or a size: +5%, +20MiB, 512MiB");
    case MetricUnit::nanoseconds:
      return limit_of(limit, time_of_metric, "a percentage or a time: +10%, +2ms, 20ms");
    case MetricUnit::per_second:
    case MetricUnit::count:
      break;
  }
  return limit_of(limit, number_of, "a percentage or a number: -5%, 30");
}

// A misspelt name, or a part of one: "peak" is run_peak, the first judged metric that ends so.
std::string close_metric(std::string_view name) {
  std::string near;
  double most = -1;
  for (const RunMetric& metric : run_metrics())
    if (!name.empty() && metric.name.ends_with(fmt::format("_{}", name)) && metric.alpha > most) {
      near = metric.name;
      most = metric.alpha;
    }
  return near.empty() ? closest_match(name, run_metric_names()) : near;
}

Result<GateRule> rule_of(GateLimit limit) {
  GateRule rule;
  std::string_view name = limit.name;
  if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos) {
    rule.model = std::string(trim(name.substr(0, colon)));
    name = trim(name.substr(colon + 1));
  }
  rule.metric = find_run_metric(name);
  if (rule.metric == nullptr) {
    const std::string near = close_metric(name);
    return no_gate_rule(
        limit.text, near.empty()
                        ? fmt::format("unknown metric '{}'; `headroom diff --help` lists all metrics", name)
                        : fmt::format("unknown metric '{}'; did you mean '{}'?", name, near));
  }
  auto amount = amount_of(*rule.metric, limit);
  if (!amount) return forward_error(amount);
  rule.amount = *amount;
  rule.limit = std::move(limit);
  return rule;
}

std::string breach_words(const GateRule& rule, const ModelComparison& model, const MetricChange& change) {
  const RunMetric& metric = *change.metric;
  if (rule.limit.against == GateAgainst::value)
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
  if (rule.limit.against != GateAgainst::value && !change.is_separable) return;  // see inseparable_change()
  if (!rule.limit.is_beyond(rule.amount, change.before, change.after)) return;
  const std::string words = breach_words(rule, model, change);
  // The interval includes zero: the limit was exceeded by chance.
  if (rule.limit.against != GateAgainst::value && change.is_noise())
    findings.push_back(
        {fmt::format(
             "{}, which exceeds '{}'; not failed, because the {:g} % interval of the change is {}; {}", words,
             rule.limit.text, 100 * change.confidence, interval_limits(change),
             change.is_of_file_pages ? "the difference is file pages, whose number depends on the page cache"
             : change.is_of_step ? "it may be a step of the heap size; to find out, make three or more runs "
                                   "per side with 'headroom bench --aslr'"
                                 : "make more runs per side to find out"),
         false});
  else
    findings.push_back({fmt::format("{}; --fail-on '{}' does not allow it", words, rule.limit.text), true});
}

std::string outcome_words(const SideOutcome& outcome) {
  std::string words(name_of(outcome.status));
  if (!outcome.error.empty()) words += ": " + outcome.error;
  if (outcome.failed < outcome.runs) words += fmt::format("; {} of {} runs", outcome.failed, outcome.runs);
  return words;
}

// A model that fails in B fails every gate.
void check_outcomes(const RunComparison& comparison, std::vector<GateFinding>& findings) {
  for (const ModelComparison& model : comparison.models)
    if (model.fell() || model.outcome_after.never_came_through())
      findings.push_back({failure_words(model), true});
    else if (model.outcome_before.never_came_through())
      findings.push_back({failure_words(model) + ", so it was not compared", false});
  for (const GoneModel& model : comparison.only_before)
    findings.push_back({gone_words(model), model.is_worse()});
  for (const NewModel& model : comparison.only_after)
    if (model.outcome.failed > 0) findings.push_back({failure_words(model), true});
}

// The figures of B without a counterpart in A. Rules on B's own value apply to them.
struct ValuesOfB {
  std::string_view model;
  const std::vector<MetricValue>* values;
};

std::vector<ValuesOfB> values_of_b_alone(const GateRule& rule, const RunComparison& comparison) {
  std::vector<ValuesOfB> found;
  if (rule.limit.against != GateAgainst::value) return found;
  for (const ModelComparison& model : comparison.models)
    if (!model.values_after.empty() && (rule.model.empty() || model.is_called(rule.model)))
      found.push_back({model.name, &model.values_after});
  for (const NewModel& model : comparison.only_after)
    if (rule.model.empty() || model.name == rule.model) found.push_back({model.name, &model.values});
  return found;
}

const MetricValue* find_value(const ValuesOfB& of, const RunMetric* metric) {
  const auto known = std::ranges::find(*of.values, metric, &MetricValue::metric);
  return known == of.values->end() ? nullptr : &*known;
}

void check_values_of_b(const GateRule& rule, const RunComparison& comparison,
                       std::vector<GateFinding>& findings) {
  for (const ValuesOfB& of : values_of_b_alone(rule, comparison))
    if (const MetricValue* known = find_value(of, rule.metric);
        known != nullptr && rule.limit.is_beyond(rule.amount, 0, known->value))
      findings.push_back(
          {fmt::format("{} of {} is {} in B; --fail-on '{}' does not allow it", rule.metric->name, of.model,
                       words_for(*rule.metric, known->value), rule.limit.text),
           true});
}

// A figure that one side lacks is not skipped silently.
void check_one_sided(const GateRule& rule, const RunComparison& comparison,
                     std::vector<GateFinding>& findings) {
  if (rule.limit.against == GateAgainst::value || !rule.model.empty()) return;
  for (const ModelComparison& model : comparison.models)
    if (std::ranges::find(model.one_sided, rule.metric) != model.one_sided.end())
      findings.push_back(
          {fmt::format("{} of {} was measured on one side only, so '{}' was not checked for it",
                       rule.metric->name, model.name, rule.limit.text),
           false});
}

// A change of a time that the rule is on, with too few runs; null if there is none.
const MetricChange* inseparable_change(const GateRule& rule, const RunComparison& comparison) {
  if (rule.limit.against == GateAgainst::value) return nullptr;
  for (const ModelComparison& model : comparison.models)
    if (rule.model.empty() || model.is_called(rule.model))
      if (const MetricChange* change = model.find(rule.metric->name);
          change != nullptr && !change->is_separable)
        return change;
  return nullptr;
}

bool is_judgeable(const GateRule& rule, const RunComparison& comparison) {
  const std::vector<ValuesOfB> alone = values_of_b_alone(rule, comparison);
  if (std::ranges::any_of(alone, [&](const ValuesOfB& of) { return find_value(of, rule.metric) != nullptr; }))
    return true;
  // A model that succeeded in B alone has no change.
  return std::ranges::any_of(comparison.models, [&](const ModelComparison& model) {
    if (!rule.model.empty() && !model.is_called(rule.model)) return false;
    return model.find(rule.metric->name) != nullptr ||
           (model.outcome_before.never_came_through() && rule.limit.against != GateAgainst::value);
  });
}

// A name that neither side has is most often misspelt.
std::string why_not_of_model(const GateRule& rule, const RunComparison& comparison) {
  std::vector<std::string> names;
  for (const GoneModel& model : comparison.only_before) names.push_back(model.name);
  for (const NewModel& model : comparison.only_after) names.push_back(model.name);
  bool is_known = std::ranges::find(names, rule.model) != names.end();
  for (const ModelComparison& model : comparison.models) {
    is_known = is_known || model.is_called(rule.model);
    names.push_back(model.name);
  }
  if (is_known) return fmt::format("{} of {} was not measured on both sides", rule.metric->name, rule.model);
  return fmt::format("no model is named {}; the models are {}", rule.model, fmt::join(names, ", "));
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
  if (a.failed > 0 && b.failed > 0 && outcome_words(a) == outcome_words(b))
    return fmt::format("{} failed in A and in B ({})", model.name, outcome_words(a));
  if (a.failed > 0 && b.failed > 0)
    return fmt::format("{} failed in A ({}) and in B ({})", model.name, outcome_words(a), outcome_words(b));
  if (b.failed > 0)
    return fmt::format("{} succeeded in A but failed in B ({})", model.name, outcome_words(b));
  return fmt::format("{} succeeded in B but failed in A ({})", model.name, outcome_words(a));
}

std::string gone_words(const GoneModel& model) {
  if (model.outcome.never_came_through())
    return fmt::format("{} failed in A ({}) and is missing in B", model.name, outcome_words(model.outcome));
  return fmt::format("{} succeeded in A and is missing in B", model.name);
}

std::string failure_words(const NewModel& model) {
  return fmt::format("{} is new in B and failed ({})", model.name, outcome_words(model.outcome));
}

std::string percent_words(double ratio) {
  if (!std::isfinite(ratio)) return "from zero";
  return fmt::format("{:+.1f} %", 100 * (ratio - 1));
}

Result<std::vector<GateRule>> parse_gate(std::string_view text) {
  auto limits = split_gate(text);
  if (!limits) return forward_error(limits);
  std::vector<GateRule> rules;
  for (GateLimit& limit : *limits) {
    auto rule = rule_of(std::move(limit));
    if (!rule) return forward_error(rule);
    rules.push_back(std::move(*rule));
  }
  return rules;
}

bool GateJudgement::has_breach() const {
  return std::ranges::any_of(findings, [](const GateFinding& finding) { return finding.is_breach; });
}

GateJudgement check_gate(const std::vector<GateRule>& rules, const RunComparison& comparison) {
  GateJudgement judgement;
  std::vector<GateFinding>& findings = judgement.findings;
  check_outcomes(comparison, findings);
  const bool has_failed = judgement.has_breach();
  for (const GateRule& rule : rules) {
    for (const ModelComparison& model : comparison.models)
      if (rule.model.empty() || model.is_called(rule.model))
        if (const MetricChange* change = model.find(rule.metric->name))
          check_rule(rule, model, *change, findings);
    check_values_of_b(rule, comparison, findings);
    const bool can_be_judged = is_judgeable(rule, comparison);
    if (can_be_judged) check_one_sided(rule, comparison, findings);
    if (has_failed || judgement.not_judged) continue;  // it is known why not
    Error error{ErrorKind::input, fmt::format("cannot check --fail-on '{}'", rule.limit.text), "", ""};
    if (const MetricChange* change = inseparable_change(rule, comparison)) {
      error.why = fmt::format("a change of {} is not separable from noise {}", rule.metric->name,
                              words_for_runs(*change));
      error.fix = kMakeMoreRuns;
    } else if (!can_be_judged) {
      error.why = rule.model.empty() ? fmt::format("{} was not measured on both sides", rule.metric->name)
                                     : why_not_of_model(rule, comparison);
      error.fix = "headroom diff --json lists the measured metrics";
    }
    if (!error.why.empty()) judgement.not_judged = std::move(error);
  }
  return judgement;
}

}  // namespace headroom::comparison
