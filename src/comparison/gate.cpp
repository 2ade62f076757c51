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

// Also for one device: "gpu_memory_used_bytes.0".
bool is_in_bytes(std::string_view name) { return name.substr(0, name.find('.')).ends_with("_bytes"); }

GateFinding finding_of(const FigureRule& rule, const GatedFigure& figure, const FigureWords& words) {
  if (rule.limit.against == GateAgainst::value)
    return {fmt::format("{} is {} in B; --fail-on '{}' does not allow it", figure.name,
                        words(figure.name, figure.after), rule.limit.text),
            true};
  const std::string moved = fmt::format("{} went from {} to {}", figure.name,
                                        words(figure.name, figure.before), words(figure.name, figure.after));
  // Beyond the limit, but the interval includes zero.
  if (figure.low <= 0 && figure.high >= 0 && figure.low < figure.high)
    return {
        fmt::format("{}, which exceeds '{}'; not failed, because the interval of the change is {} to {}",
                    moved, rule.limit.text, words(figure.name, figure.low), words(figure.name, figure.high)),
        false};
  return {fmt::format("{}; --fail-on '{}' does not allow it", moved, rule.limit.text), true};
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

}  // namespace headroom::comparison
