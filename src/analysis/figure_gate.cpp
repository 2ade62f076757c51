#include "analysis/figure_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace headroom::analysis {
namespace {

// "ram_used_bytes", and of one device "gpu_memory_used_bytes.0".
bool is_in_bytes(std::string_view name) { return name.substr(0, name.find('.')).ends_with("_bytes"); }

double judged_value(const FigureRule& rule, const GatedFigure& figure) {
  switch (rule.limit.against) {
    case GateAgainst::change_share:
      if (figure.change() == 0) return 0;
      return figure.before == 0 ? std::copysign(std::numeric_limits<double>::infinity(), figure.change())
                                : figure.change() / std::abs(figure.before);
    case GateAgainst::change:
      return figure.change();
    case GateAgainst::value:
      break;
  }
  return figure.after;
}

GateFinding finding_of(const FigureRule& rule, const GatedFigure& figure, const FigureWords& words) {
  if (rule.limit.against == GateAgainst::value)
    return {fmt::format("{} is {} in B, and --fail-on says '{}'", figure.name,
                        words(figure.name, figure.after), rule.limit.text),
            true};
  const std::string moved = fmt::format("{} went from {} to {}", figure.name,
                                        words(figure.name, figure.before), words(figure.name, figure.after));
  // Beyond its limit, and within what the figure moves by itself.
  if (figure.low <= 0 && figure.high >= 0 && figure.low < figure.high)
    return {fmt::format("{}, beyond '{}', but the interval of the change is {} to {}: not failed", moved,
                        rule.limit.text, words(figure.name, figure.low), words(figure.name, figure.high)),
            false};
  return {fmt::format("{}, and --fail-on says '{}'", moved, rule.limit.text), true};
}

std::string closest_figure(const std::string& name, const std::vector<GatedFigure>& figures) {
  std::vector<std::string> names;
  for (const GatedFigure& figure : figures) names.push_back(figure.name);
  const std::string near = closest_match(name, names);
  return near.empty() ? "headroom diff --json lists those that they have"
                      : fmt::format("did you mean {}?", near);
}

}  // namespace

Result<std::vector<FigureRule>> parse_figure_gate(std::string_view text) {
  auto limits = split_gate(text);
  if (!limits) return forward_error(limits);
  std::vector<FigureRule> rules;
  for (GateLimit& limit : *limits) {
    const bool in_bytes = is_in_bytes(limit.name);
    auto amount = limit_of(
        limit, in_bytes ? bytes_of : number_of,
        in_bytes ? "a percentage or a size: +5%, +20MiB, 6GiB" : "a percentage or a number: +5%, +10, 80");
    if (!amount) return forward_error(amount);
    rules.push_back({std::move(limit), *amount});
  }
  return rules;
}

GateJudgement check_figure_gate(const std::vector<FigureRule>& rules, const std::vector<GatedFigure>& figures,
                                const FigureWords& words) {
  GateJudgement judgement;
  for (const FigureRule& rule : rules) {
    const auto figure = std::find_if(figures.begin(), figures.end(),
                                     [&](const GatedFigure& one) { return one.name == rule.limit.name; });
    if (figure == figures.end()) {
      if (!judgement.not_judged)
        judgement.not_judged =
            Error{ErrorKind::input, fmt::format("--fail-on '{}' cannot be judged", rule.limit.text),
                  fmt::format("A and B have no figure '{}' in common", rule.limit.name),
                  closest_figure(rule.limit.name, figures)};
    } else if (rule.limit.is_beyond(judged_value(rule, *figure), rule.amount)) {
      judgement.findings.push_back(finding_of(rule, *figure, words));
    }
  }
  return judgement;
}

}  // namespace headroom::analysis
