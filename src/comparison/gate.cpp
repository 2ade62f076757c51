#include "comparison/gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "base/units.h"

namespace headroom::comparison {
namespace {

tl::unexpected<Error> no_gate_rule(std::string_view rule, std::string why) {
  return usage_error(fmt::format("invalid --fail-on rule '{}'", rule), std::move(why),
                     "use METRIC>+5%, METRIC>+20MiB or METRIC>512MiB, as in 'run_peak>+5%,p99>+10%'");
}

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

std::optional<double> bytes_of(const std::string& amount) {
  const auto size = parse_size(amount);
  return size ? std::optional(static_cast<double>(size->count)) : std::nullopt;
}

std::optional<double> number_of(const std::string& amount) { return parse_number<double>(amount); }

// With its sign: a share, or the amount in its unit. `example` shows valid limits.
Result<double> limit_of(const GateLimit& rule, std::optional<double> (*in_unit)(const std::string& amount),
                        std::string_view example) {
  const bool is_share = rule.against == GateAgainst::change_share;
  const std::optional<double> amount = is_share ? parse_number<double>(rule.amount) : in_unit(rule.amount);
  if (!amount || !std::isfinite(*amount) || *amount < 0)
    return no_gate_rule(rule.text,
                        fmt::format("'{}{}' is not {}", rule.amount, is_share ? "%" : "", example));
  return rule.direction * *amount / (is_share ? 100 : 1);
}

// Also for one device: "gpu_memory_used_bytes.0".
bool is_in_bytes(std::string_view name) { return name.substr(0, name.find('.')).ends_with("_bytes"); }

GateFinding breach_of(const GateLimit& limit, std::string_view words) {
  return {fmt::format("{}; --fail-on '{}' does not allow it", words, limit.text), true};
}

GateFinding finding_of(const FigureRule& rule, const GatedFigure& figure, const FigureWords& words) {
  if (rule.limit.against == GateAgainst::value)
    return breach_of(rule.limit, fmt::format("{} is {} in B", figure.name, words(figure.name, figure.after)));
  const std::string moved = fmt::format("{} went from {} to {}", figure.name,
                                        words(figure.name, figure.before), words(figure.name, figure.after));
  // Beyond the limit, but the interval includes zero.
  if (figure.low <= 0 && figure.high >= 0 && figure.low < figure.high)
    return {
        fmt::format("{}, which exceeds '{}'; not failed, because the interval of the change is {} to {}",
                    moved, rule.limit.text, words(figure.name, figure.low), words(figure.name, figure.high)),
        false};
  return breach_of(rule.limit, moved);
}

const GatedFigure* find_figure(const std::string& name, const std::vector<GatedFigure>& figures) {
  const auto found = std::ranges::find(figures, name, &GatedFigure::name);
  return found == figures.end() ? nullptr : &*found;
}

// A part of a name, such as "ram_used" for ram_used_bytes; else a misspelt one.
std::string close_figure(const std::string& name, const std::vector<std::string>& names) {
  std::vector<std::string> longer;
  for (const std::string& one : names)
    if (one.starts_with(name + "_") || one.ends_with("_" + name)) longer.push_back(one);
  return longer.size() == 1 ? longer.front() : closest_match(name, names);
}

// The likely figure, or the first few: a log has hundreds.
std::string figures_to_name(const std::string& name, const std::vector<GatedFigure>& figures) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> names, shown;
  for (const GatedFigure& figure : figures) names.push_back(figure.name);
  if (const std::string near = close_figure(name, names); !near.empty())
    return fmt::format("did you mean '{}'? headroom diff --json lists all of them", near);
  for (const std::string& one : names)
    if (shown.size() < kShown && !one.starts_with("max:")) shown.push_back(one);
  if (shown.empty()) return "headroom diff --json lists the figures of each input";
  return fmt::format("available figures: {}{}", fmt::join(shown, ", "),
                     shown.size() == kShown ? ", …: headroom diff --json lists all of them" : "");
}

// The usual example is one of runs.
Error with_example(Error error, const std::vector<GatedFigure>& figures) {
  const std::string name = figures.empty() ? "ram_used_bytes" : figures.front().name;
  error.fix =
      fmt::format("use FIGURE>+5%, or a limit in the figure's unit such as FIGURE>{}; example: '{}>+5%'",
                  is_in_bytes(name) ? "+20MiB" : "80", name);
  return error;
}

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
    findings.push_back(breach_of(rule.limit, words));
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

// A figure of B without a counterpart in A. Rules on B's own value apply to it.
struct ValueOfB {
  std::string_view model;
  double value = 0;
};

std::vector<ValueOfB> values_of_b_alone(const GateRule& rule, const RunComparison& comparison) {
  std::vector<ValueOfB> found;
  if (rule.limit.against != GateAgainst::value) return found;
  const auto add = [&](std::string_view model, const std::vector<MetricValue>& values) {
    const auto known = std::ranges::find(values, rule.metric, &MetricValue::metric);
    if (known != values.end()) found.push_back({model, known->value});
  };
  for (const ModelComparison& model : comparison.models)
    if (rule.model.empty() || model.is_called(rule.model)) add(model.name, model.values_after);
  for (const NewModel& model : comparison.only_after)
    if (rule.model.empty() || model.name == rule.model) add(model.name, model.values);
  return found;
}

void check_values_of_b(const GateRule& rule, const RunComparison& comparison,
                       std::vector<GateFinding>& findings) {
  for (const ValueOfB& of : values_of_b_alone(rule, comparison))
    if (rule.limit.is_beyond(rule.amount, 0, of.value))
      findings.push_back(breach_of(rule.limit, fmt::format("{} of {} is {} in B", rule.metric->name, of.model,
                                                           words_for(*rule.metric, of.value))));
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
  if (!values_of_b_alone(rule, comparison).empty()) return true;
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

bool GateLimit::is_beyond(double limit, double before, double after) const {
  double value = after;
  if (against != GateAgainst::value) value -= before;
  if (against == GateAgainst::change_share && value != 0)
    value = before == 0 ? std::copysign(std::numeric_limits<double>::infinity(), value)
                        : value / std::abs(before);
  return above ? value > limit : value < limit;
}

std::string words_for_left_out(const std::vector<std::string>& rules) {
  if (rules.empty()) return {};
  return fmt::format("A and B are the same, so these rules were not checked: {}", fmt::join(rules, ", "));
}

Result<std::vector<FigureRule>> parse_figure_gate(std::string_view text,
                                                  const std::vector<GatedFigure>& figures) {
  auto limits = split_gate(text);
  if (!limits) return tl::unexpected(with_example(std::move(limits.error()), figures));
  std::vector<FigureRule> rules;
  for (GateLimit& limit : *limits) {
    if (limit.name.empty())
      return tl::unexpected(
          with_example(Error{ErrorKind::usage, "a rule of --fail-on has no figure name", "", ""}, figures));
    if (find_figure(limit.name, figures) == nullptr) {
      rules.push_back({std::move(limit), 0});
      continue;
    }
    const bool in_bytes = is_in_bytes(limit.name);
    auto amount = limit_of(
        limit, in_bytes ? bytes_of : number_of,
        in_bytes ? "a percentage or a size: +5%, +20MiB, 6GiB" : "a percentage or a number: +5%, +10, 80");
    if (!amount) return tl::unexpected(with_example(std::move(amount.error()), {{.name = limit.name}}));
    rules.push_back({std::move(limit), *amount});
  }
  return rules;
}

GateJudgement check_figure_gate(const std::vector<FigureRule>& rules, const std::vector<GatedFigure>& figures,
                                const FigureWords& words) {
  GateJudgement judgement;
  for (const FigureRule& rule : rules) {
    const GatedFigure* figure = find_figure(rule.limit.name, figures);
    if (figure == nullptr) {
      if (!judgement.not_judged)
        judgement.not_judged =
            Error{ErrorKind::input, fmt::format("cannot check --fail-on '{}'", rule.limit.text),
                  fmt::format("A and B have no common figure '{}'", rule.limit.name),
                  figures_to_name(rule.limit.name, figures)};
    } else if (rule.limit.is_beyond(rule.amount, figure->before, figure->after)) {
      judgement.findings.push_back(finding_of(rule, *figure, words));
    }
  }
  return judgement;
}

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
