#include "report/run_diff_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/metric_gate.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace analysis;

constexpr std::array<std::string_view, 8> kAlwaysShown{"load_peak", "run_mean", "run_peak", "latency",
                                                       "p50",       "p99",      "fps",      "detections"};

// An interval of more than this factor either way says nothing, and its ends are no figures to print.
constexpr double kWidestTold = 3;

std::string_view words_of_change(const MetricChange& change) {
  const bool more = change.after > change.before;
  switch (change.metric->unit) {
    case MetricUnit::bytes:
      return more ? "larger" : "smaller";
    case MetricUnit::nanoseconds:
      return more ? "slower" : "faster";
    case MetricUnit::per_second:
    case MetricUnit::count:
      break;
  }
  return more ? "more" : "less";
}

std::string signed_words(const RunMetric& metric, double value) {
  return (value > 0 ? "+" : "") + words_for(metric, value);
}

std::string change_words(const ModelComparison& model, const MetricChange& change, bool with_model) {
  const std::string amount =
      change.has_ratio ? percent_words(change.ratio) : signed_words(*change.metric, change.change());
  return fmt::format("{}{} {} ({} to {})", with_model ? model.name + ": " : "", change.metric->name, amount,
                     words_for(*change.metric, change.before), words_for(*change.metric, change.after));
}

struct Found {
  bool worse = false, better = false;
  std::vector<std::string> adjectives, changes;
};

Found judged_changes(const RunComparison& comparison) {
  Found found;
  for (const ModelComparison& model : comparison.models)
    for (const MetricChange& change : model.metrics) {
      if (!change.is_judged || !change.differs) continue;
      (change.is_worse() ? found.worse : found.better) = true;
      const std::string adjective(words_of_change(change));
      if (std::find(found.adjectives.begin(), found.adjectives.end(), adjective) == found.adjectives.end())
        found.adjectives.push_back(adjective);
      found.changes.push_back(change_words(model, change, comparison.models.size() > 1));
    }
  return found;
}

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  return fmt::format("{}", fmt::join(parts, between));
}

// What such a comparison could have missed: half the width of the widest interval of a metric.
std::string reach_words(const RunComparison& comparison) {
  std::vector<std::string> reaches;
  for (const std::string_view name : {std::string_view("latency"), std::string_view("run_peak")}) {
    double widest = 0;
    for (const ModelComparison& model : comparison.models)
      if (const MetricChange* change = model.find(name); change != nullptr && change->has_ratio)
        widest = std::max({widest, std::sqrt(change->high / change->low) - 1, change->metric->least_share});
    if (widest > kWidestTold - 1)
      reaches.push_back(fmt::format("{} cannot be told", name));
    else if (widest > 0)
      reaches.push_back(fmt::format("{} ±{:.1f} %", name, 100 * widest));
  }
  return joined(reaches, ", ");
}

// What became of the models themselves, before any figure of theirs.
struct Outcomes {
  std::vector<std::string> worse, better, unknown;
};

Outcomes outcomes_of(const RunComparison& comparison) {
  Outcomes outcomes;
  for (const ModelComparison& model : comparison.models) {
    if (model.outcome_before.failed == 0 && model.outcome_after.failed == 0) continue;
    auto& of_kind = model.fell() ? outcomes.worse : model.recovered() ? outcomes.better : outcomes.unknown;
    of_kind.push_back(failure_words(model));
  }
  for (const std::string& name : comparison.only_before)
    outcomes.worse.push_back(fmt::format("{} is not in B", name));
  for (const NewModel& model : comparison.only_after)
    if (model.outcome.failed > 0) outcomes.worse.push_back(failure_words(model));
  return outcomes;
}

std::string detection_words(const RunComparison& comparison) {
  std::string words;
  for (const ModelComparison& model : comparison.models)
    if (const MetricChange* change = model.find("detections"); change != nullptr && change->differs)
      words +=
          fmt::format(" {} finds {} per frame where it found {}.", model.name,
                      words_for(*change->metric, change->after), words_for(*change->metric, change->before));
  return words;
}

std::vector<FactChange> all_facts(const RunComparison& comparison) {
  std::vector<FactChange> facts;
  for (const ModelComparison& model : comparison.models)
    for (FactChange fact : model.facts) {
      if (comparison.models.size() > 1) fact.what = model.name + ": " + fact.what;
      facts.push_back(std::move(fact));
    }
  facts.insert(facts.end(), comparison.facts.begin(), comparison.facts.end());
  // What the kernel killed for its memory fell to a limit before anything else that changed.
  const bool is_of_memory =
      std::any_of(comparison.models.begin(), comparison.models.end(), [](const ModelComparison& model) {
        return (model.fell() && model.outcome_after.status == ModelStatus::oom) ||
               (model.recovered() && model.outcome_before.status == ModelStatus::oom);
      });
  // What B has no figures of because it was not asked for them.
  const auto is_of_absent = [&](const FactChange& fact) {
    return fact.what.starts_with("--") &&
           std::any_of(
               comparison.only_before.begin(), comparison.only_before.end(),
               [&](const std::string& name) { return name.find(fact.what.substr(2)) != std::string::npos; });
  };
  std::stable_partition(facts.begin(), facts.end(), is_of_absent);
  if (is_of_memory)
    std::stable_partition(facts.begin(), facts.end(), [](const FactChange& fact) {
      return fact.what.ends_with("memory limit") || fact.what == "limit of GPU memory";
    });
  return facts;
}

std::string cause_of(const RunComparison& comparison, bool changed, bool is_unexplained) {
  const std::vector<FactChange> facts = all_facts(comparison);
  if (facts.empty() && comparison.has_mixed_side)
    return is_unexplained
               ? "The runs of one side are not of one thing, as is told below, which may be all of it."
               : "";
  if (facts.empty())
    return is_unexplained
               ? "Nothing that the runs record explains it: model files, settings, runtime, source and "
                 "machine are the same, so look at the program that was built around them."
               : "";
  std::vector<std::string> words;
  for (const FactChange& fact : facts) {
    if (words.size() == 3) break;
    words.push_back(fmt::format("{} ({} to {})", fact.what, fact.before, fact.after));
  }
  return fmt::format(
      "{}: {}{}.", changed ? "What also changed, the likeliest cause first" : "What did change",
      joined(words, "; "),
      facts.size() > words.size() ? fmt::format("; and {} more", facts.size() - words.size()) : "");
}

}  // namespace

RunDiffVerdict verdict_of(const RunComparison& comparison) {
  const Outcomes outcomes = outcomes_of(comparison);
  const Found found = judged_changes(comparison);
  const bool worse = found.worse || !outcomes.worse.empty(),
             better = found.better || !outcomes.better.empty();
  // Where each model failed on a side there is no figure to be alike.
  const bool has_figures = std::any_of(comparison.models.begin(), comparison.models.end(),
                                       [](const ModelComparison& model) { return !model.metrics.empty(); });
  RunDiffVerdict verdict;
  verdict.tone = !outcomes.worse.empty() ? RunDiffTone::worse
                 : worse && better       ? RunDiffTone::mixed
                 : worse                 ? RunDiffTone::worse
                 : better                ? RunDiffTone::better
                 : has_figures           ? RunDiffTone::same
                                         : RunDiffTone::unknown;
  std::vector<std::string> sentences;
  if (!outcomes.worse.empty())
    sentences.push_back(fmt::format("B is worse: {}.", joined(outcomes.worse, "; ")));
  if (!outcomes.better.empty())
    sentences.push_back(fmt::format("B is better: {}.", joined(outcomes.better, "; ")));
  if (!outcomes.unknown.empty()) sentences.push_back(joined(outcomes.unknown, "; ") + ".");
  if (!found.changes.empty()) {
    sentences.push_back(
        fmt::format("B is {}: {}.", joined(found.adjectives, " and "), joined(found.changes, "; ")));
  } else if (has_figures && !worse && !better) {
    const std::string reach = reach_words(comparison);
    sentences.push_back(fmt::format("{} nothing changed by more than runs of one thing differ by{}.",
                                    outcomes.unknown.empty() ? "B is as A:" : "In the runs that came through",
                                    reach.empty() ? "" : fmt::format(" ({})", reach)));
  } else if (comparison.models.empty()) {
    sentences.emplace_back("A and B have no model in common.");
  }
  const std::string detections = detection_words(comparison);
  verdict.sentence = joined(sentences, " ") + detections;
  // A failure has its error beside it: only figures are left unexplained.
  verdict.cause = cause_of(comparison, worse || better || !detections.empty(),
                           !found.changes.empty() || !detections.empty());
  return verdict;
}

std::string interval_words(const MetricChange& change) {
  if (change.before == change.after) return "same";
  if (change.has_ratio && change.high > kWidestTold * kWidestTold * change.low)
    return percent_words(change.ratio) + " (too unsteady to tell)";
  if (change.has_ratio)
    return change.low == change.high ? percent_words(change.ratio)
                                     : fmt::format("{} ({} to {})", percent_words(change.ratio),
                                                   percent_words(change.low), percent_words(change.high));
  const RunMetric& metric = *change.metric;
  std::string moved = signed_words(metric, change.change());
  if (change.low_change == change.high_change) return moved;
  return fmt::format("{} ({} to {})", moved, signed_words(metric, change.low_change),
                     signed_words(metric, change.high_change));
}

std::string superiority_words(const ModelComparison& model) {
  if (!model.superiority) return "";
  return fmt::format(
      "{}: a frame of B takes longer than one of A in {:.0f} % of all pairs ({} and {} frames)", model.name,
      100 * *model.superiority, model.frames_before, model.frames_after);
}

std::vector<std::string> fact_lines(const RunComparison& comparison) {
  std::vector<std::string> lines;
  for (const FactChange& fact : all_facts(comparison))
    lines.push_back(fmt::format("{}: {} → {}", fact.what, fact.before.empty() ? "–" : fact.before,
                                fact.after.empty() ? "–" : fact.after));
  return lines;
}

bool is_shown(const MetricChange& change) {
  return change.differs || change.is_judged ||
         std::find(kAlwaysShown.begin(), kAlwaysShown.end(), change.metric->name) != kAlwaysShown.end();
}

}  // namespace headroom::report
