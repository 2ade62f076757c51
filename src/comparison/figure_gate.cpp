#include "comparison/figure_gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace headroom::comparison {
namespace {

// "ram_used_bytes", and of one device "gpu_memory_used_bytes.0".
bool is_in_bytes(std::string_view name) { return name.substr(0, name.find('.')).ends_with("_bytes"); }

double judged_figure(const FigureRule& rule, const GatedFigure& figure) {
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
    return {fmt::format("{} is {} in B; --fail-on '{}' does not allow it", figure.name,
                        words(figure.name, figure.after), rule.limit.text),
            true};
  const std::string moved = fmt::format("{} went from {} to {}", figure.name,
                                        words(figure.name, figure.before), words(figure.name, figure.after));
  // Beyond its limit, and within what the figure moves by itself.
  if (figure.low <= 0 && figure.high >= 0 && figure.low < figure.high)
    return {
        fmt::format("{}, which exceeds '{}'; not failed, because the interval of the change is {} to {}",
                    moved, rule.limit.text, words(figure.name, figure.low), words(figure.name, figure.high)),
        false};
  return {fmt::format("{}; --fail-on '{}' does not allow it", moved, rule.limit.text), true};
}

const GatedFigure* find_figure(const std::string& name, const std::vector<GatedFigure>& figures) {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [&](const GatedFigure& figure) { return figure.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

// A part of a name, as the unit is soon forgotten: "ram_used" is ram_used_bytes. Else a slip.
std::string close_figure(const std::string& name, const std::vector<std::string>& names) {
  std::vector<std::string> longer;
  for (const std::string& one : names)
    if (one.starts_with(name + "_") || one.ends_with("_" + name)) longer.push_back(one);
  return longer.size() == 1 ? longer.front() : closest_match(name, names);
}

// What could be meant, or else what there is; of the figures of a log there are hundreds.
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

// The rule's own example is one of runs.
Error with_example(Error error, const std::vector<GatedFigure>& figures) {
  const std::string name = figures.empty() ? "ram_used_bytes" : figures.front().name;
  error.fix =
      fmt::format("use FIGURE>+5%, or a limit in the figure's unit such as FIGURE>{}; example: '{}>+5%'",
                  is_in_bytes(name) ? "+20MiB" : "80", name);
  return error;
}

}  // namespace

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
    } else if (rule.limit.is_beyond(judged_figure(rule, *figure), rule.amount)) {
      judgement.findings.push_back(finding_of(rule, *figure, words));
    }
  }
  return judgement;
}

}  // namespace headroom::comparison
