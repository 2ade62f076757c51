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

bool is_judged(const MetricChange& change) { return change.metric->alpha > 0; }

std::string change_words(const ModelComparison& model, const MetricChange& change, bool with_model) {
  return fmt::format("{}{} {} ({} to {})", with_model ? model.name + ": " : "", change.metric->name,
                     percent_words(change.ratio), words_for(*change.metric, change.before),
                     words_for(*change.metric, change.after));
}

struct Found {
  bool worse = false, better = false;
  std::vector<std::string> adjectives, changes;
};

Found judged_changes(const RunComparison& comparison) {
  Found found;
  for (const ModelComparison& model : comparison.models)
    for (const MetricChange& change : model.metrics) {
      if (!is_judged(change) || !change.differs) continue;
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
      if (const MetricChange* change = model.find(name))
        widest = std::max({widest, std::sqrt(change->high / change->low) - 1, change->metric->least_share});
    if (widest > 0) reaches.push_back(fmt::format("{} ±{:.1f} %", name, 100 * widest));
  }
  return joined(reaches, ", ");
}

std::vector<std::string> falls(const RunComparison& comparison) {
  std::vector<std::string> words;
  for (const ModelComparison& model : comparison.models)
    if (model.status_before == ModelStatus::ok && model.status_after != ModelStatus::ok)
      words.push_back(fmt::format("{} came through in A and not in B ({}: {})", model.name,
                                  words_for(model.status_after), model.error_after));
  for (const std::string& name : comparison.only_before) words.push_back(fmt::format("{} is not in B", name));
  return words;
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
  return facts;
}

std::string cause_of(const RunComparison& comparison, bool changed) {
  const std::vector<FactChange> facts = all_facts(comparison);
  if (facts.empty())
    return changed ? "Nothing that the runs record explains it: model files, settings, runtime, source and "
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
  RunDiffVerdict verdict;
  const std::vector<std::string> fallen = falls(comparison);
  const Found found = judged_changes(comparison);
  if (!fallen.empty()) {
    verdict.tone = RunDiffTone::worse;
    verdict.sentence = fmt::format("B is worse: {}.", joined(fallen, "; "));
  } else if (comparison.models.empty()) {
    verdict.sentence = "A and B have no model in common.";
  }
  if (!found.changes.empty()) {
    if (fallen.empty())
      verdict.tone = found.worse && found.better ? RunDiffTone::mixed
                     : found.worse               ? RunDiffTone::worse
                                                 : RunDiffTone::better;
    verdict.sentence += fmt::format("{}B is {}: {}.", verdict.sentence.empty() ? "" : " ",
                                    joined(found.adjectives, " and "), joined(found.changes, "; "));
  } else if (verdict.sentence.empty()) {
    const std::string reach = reach_words(comparison);
    verdict.sentence = fmt::format("B is as A: nothing changed by more than runs of one thing differ by{}.",
                                   reach.empty() ? "" : fmt::format(" ({})", reach));
  }
  const std::string detections = detection_words(comparison);
  verdict.sentence += detections;
  verdict.cause = cause_of(comparison, verdict.tone != RunDiffTone::same || !detections.empty());
  return verdict;
}

std::string interval_words(const MetricChange& change) {
  if (change.before == change.after) return "same";
  if (change.before == 0) return "from 0";
  if (change.low == change.high) return percent_words(change.after / change.before);
  return fmt::format("{} ({} to {})", percent_words(change.ratio), percent_words(change.low),
                     percent_words(change.high));
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
  return change.differs || is_judged(change) ||
         std::find(kAlwaysShown.begin(), kAlwaysShown.end(), change.metric->name) != kAlwaysShown.end();
}

}  // namespace headroom::report
