#include "report/run_diff_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

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
      return more ? "faster" : "slower";
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

// As a share, either way; of what was nothing before more than any.
double size_of(const MetricChange& change) {
  if (!change.has_ratio) return std::numeric_limits<double>::infinity();
  return std::abs(std::log(change.ratio));
}

// Of each model the largest first.
Found judged_changes(const RunComparison& comparison) {
  Found found;
  for (const ModelComparison& model : comparison.models) {
    std::vector<const MetricChange*> changes;
    for (const MetricChange& change : model.metrics)
      if (change.is_judged && change.differs) changes.push_back(&change);
    std::stable_sort(changes.begin(), changes.end(),
                     [](const MetricChange* a, const MetricChange* b) { return size_of(*a) > size_of(*b); });
    for (const MetricChange* change : changes) {
      (change->is_worse() ? found.worse : found.better) = true;
      const std::string adjective(words_of_change(*change));
      if (std::find(found.adjectives.begin(), found.adjectives.end(), adjective) == found.adjectives.end())
        found.adjectives.push_back(adjective);
      found.changes.push_back(change_words(model, *change, comparison.models.size() > 1));
    }
  }
  return found;
}

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  return fmt::format("{}", fmt::join(parts, between));
}

// What such a comparison could have missed: half the width of the widest interval of a metric.
std::string reach_words(const RunComparison& comparison) {
  std::vector<std::string> reaches;
  for (const std::string_view name : {"latency", "p50", "p99", "run_peak"}) {
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

// Rows that are told as changed and make no verdict: each by its own interval of 99 %. Those whose kind,
// memory or time, has made the verdict say nothing more.
std::vector<std::string> changes_beside(const RunComparison& comparison) {
  std::vector<std::string> words;
  for (const ModelComparison& model : comparison.models) {
    const auto is_told = [&](bool of_memory) {
      return std::any_of(model.metrics.begin(), model.metrics.end(), [&](const MetricChange& change) {
        return change.is_judged && change.differs && (change.metric->unit == MetricUnit::bytes) == of_memory;
      });
    };
    for (const MetricChange& change : model.metrics) {
      const std::string_view name = change.metric->name;
      // Findings have a sentence of their own, and a file is what the models are made of.
      if (change.is_judged || !change.differs || name == "detections" || name == "file_size") continue;
      if (is_told(change.metric->unit == MetricUnit::bytes)) continue;
      if (const MetricChange* fps = model.find("fps"); name == "mean" && fps != nullptr && fps->differs)
        continue;
      words.push_back(change_words(model, change, comparison.models.size() > 1));
    }
  }
  return words;
}

// The middle frame or the rate moved by much, and so few or so disturbed runs cannot tell whether that is a
// change: no reason to say that nothing did.
std::vector<std::string> open_questions(const RunComparison& comparison) {
  constexpr double kMuch = 0.25;
  std::vector<std::string> words;
  for (const ModelComparison& model : comparison.models)
    for (const std::string_view name : {"p50", "fps"})
      if (const MetricChange* change = model.find(name); change != nullptr && change->has_ratio &&
                                                         !change->differs && !change->is_judged &&
                                                         size_of(*change) > kMuch)
        words.push_back(change_words(model, *change, comparison.models.size() > 1));
  return words;
}

std::string words_beside(const std::vector<std::string>& changes) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> shown(changes.begin(), changes.begin() + std::min(changes.size(), kShown));
  if (changes.size() > kShown) shown.push_back(fmt::format("and {} more", changes.size() - kShown));
  return joined(shown, "; ");
}

// What became of the models themselves, before any figure of theirs.
struct Outcomes {
  std::vector<std::string> worse, better, unknown;
};

Outcomes outcomes_of(const RunComparison& comparison) {
  Outcomes outcomes;
  std::vector<std::string> left_out;
  for (const ModelComparison& model : comparison.models) {
    if (model.outcome_before.failed == 0 && model.outcome_after.failed == 0) continue;
    auto& of_kind = model.fell() ? outcomes.worse : model.recovered() ? outcomes.better : outcomes.unknown;
    of_kind.push_back(failure_words(model));
  }
  for (const GoneModel& model : comparison.only_before) {
    if (model.option_left_out.empty())
      (model.is_worse() ? outcomes.worse : outcomes.unknown).push_back(gone_words(model));
    else if (std::find(left_out.begin(), left_out.end(), model.option_left_out) == left_out.end())
      left_out.push_back(model.option_left_out);
  }
  for (const std::string& option : left_out)
    outcomes.unknown.push_back(fmt::format("B was made without {}, so nothing of it is compared", option));
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
           std::any_of(comparison.only_before.begin(), comparison.only_before.end(),
                       [&](const GoneModel& model) { return model.option_left_out == fact.what; });
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

// With fewer runs a tail and a rate are no part of the verdict.
std::string advice_for(const RunComparison& comparison) {
  for (const ModelComparison& model : comparison.models)
    for (const MetricChange& change : model.metrics)
      if (change.spread_was_measured)
        return "Of as many figures as are shown one may do so by chance: more runs a side tell.";
  return "Three runs or more a side, made in turns, tell: then p50, p99 and fps make the verdict, too.";
}

}  // namespace

std::string new_model_words(const NewModel& model) {
  std::vector<std::string> figures;
  for (const MetricValue& known : model.values)
    if (std::find(kAlwaysShown.begin(), kAlwaysShown.end(), known.metric->name) != kAlwaysShown.end())
      figures.push_back(fmt::format("{} {}", known.metric->name, words_for(*known.metric, known.value)));
  return fmt::format("{} is new in B{}{}.", model.name, figures.empty() ? "" : ": ", joined(figures, ", "));
}

RunDiffVerdict verdict_of(const RunComparison& comparison) {
  const Outcomes outcomes = outcomes_of(comparison);
  const Found found = judged_changes(comparison);
  const bool worse = found.worse || !outcomes.worse.empty(),
             better = found.better || !outcomes.better.empty();
  // Where each model failed on a side there is no figure to be alike.
  const bool has_figures = std::any_of(comparison.models.begin(), comparison.models.end(),
                                       [](const ModelComparison& model) { return !model.metrics.empty(); });
  const bool has_failures =
      std::any_of(comparison.models.begin(), comparison.models.end(), [](const ModelComparison& model) {
        return model.outcome_before.failed + model.outcome_after.failed > 0;
      });
  const std::vector<std::string> beside = changes_beside(comparison), open = open_questions(comparison);
  const std::string detections = detection_words(comparison);
  RunDiffVerdict verdict;
  verdict.tone = !outcomes.worse.empty()                                               ? RunDiffTone::worse
                 : worse && better                                                     ? RunDiffTone::mixed
                 : worse                                                               ? RunDiffTone::worse
                 : better                                                              ? RunDiffTone::better
                 : has_figures && beside.empty() && open.empty() && detections.empty() ? RunDiffTone::same
                                                                                       : RunDiffTone::unknown;
  std::vector<std::string> sentences;
  if (!outcomes.worse.empty())
    sentences.push_back(fmt::format("B is worse: {}.", joined(outcomes.worse, "; ")));
  if (!outcomes.better.empty())
    sentences.push_back(fmt::format("B is better: {}.", joined(outcomes.better, "; ")));
  if (!outcomes.unknown.empty()) sentences.push_back(joined(outcomes.unknown, "; ") + ".");
  const std::string reach = reach_words(comparison);
  if (!found.changes.empty()) {
    sentences.push_back(
        fmt::format("B is {}: {}.", joined(found.adjectives, " and "), joined(found.changes, "; ")));
    if (!beside.empty())
      sentences.push_back(
          fmt::format("Beside what makes this verdict differ (99 % each): {}.", words_beside(beside)));
  } else if (!beside.empty()) {
    sentences.push_back(fmt::format(
        "What makes the verdict did not change by more than runs of one thing "
        "differ by{}, but beside it differ (99 % each): {}. {}",
        reach.empty() ? "" : fmt::format(" ({})", reach), words_beside(beside), advice_for(comparison)));
  } else if (has_figures && !worse && !better && !open.empty()) {
    sentences.push_back(fmt::format(
        "What makes the verdict did not change by more than runs of one thing differ by{}, but "
        "these runs cannot tell whether the rest did: {}. {}",
        reach.empty() ? "" : fmt::format(" ({})", reach), words_beside(open), advice_for(comparison)));
  } else if (has_figures && !worse && !better && !detections.empty()) {
    sentences.push_back(
        fmt::format("Memory and time did not change by more than runs of one thing differ by{}, but what is "
                    "found did:",
                    reach.empty() ? "" : fmt::format(" ({})", reach)));
  } else if (has_figures && !worse && !better) {
    sentences.push_back(fmt::format("{} nothing changed by more than runs of one thing differ by{}.",
                                    outcomes.unknown.empty() ? "B is as A:"
                                    : has_failures           ? "In the runs that came through"
                                                             : "Of what both measured",
                                    reach.empty() ? "" : fmt::format(" ({})", reach)));
  } else if (comparison.models.empty()) {
    sentences.emplace_back("A and B have no model in common.");
  }
  verdict.sentence = joined(sentences, " ") + detections;
  // A failure has its error beside it: only figures are left unexplained.
  const bool moved = !found.changes.empty() || !beside.empty() || !detections.empty();
  verdict.cause = cause_of(comparison, worse || better || moved, moved);
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
