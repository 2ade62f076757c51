#include "report/comparison/run_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "comparison/gate.h"
#include "report/comparison/diff_words.h"
#include "report/text_layout.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace comparison;

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

// The change as a share; infinite if A is zero.
double size_of(const MetricChange& change) {
  if (!change.has_ratio) return std::numeric_limits<double>::infinity();
  return std::abs(std::log(change.ratio));
}

// The largest changes of each model first.
Found judged_changes(const RunComparison& comparison) {
  Found found;
  for (const ModelComparison& model : comparison.models) {
    std::vector<const MetricChange*> changes;
    for (const MetricChange& change : model.metrics)
      if (change.is_judged && change.differs) changes.push_back(&change);
    std::ranges::stable_sort(changes, std::greater{},
                             [](const MetricChange* change) { return size_of(*change); });
    for (const MetricChange* change : changes) {
      (change->is_worse() ? found.worse : found.better) = true;
      const std::string adjective(words_of_change(*change));
      if (std::ranges::find(found.adjectives, adjective) == found.adjectives.end())
        found.adjectives.push_back(adjective);
      found.changes.push_back(change_words(model, *change, comparison.models.size() > 1));
    }
  }
  return found;
}

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  return fmt::format("{}", fmt::join(parts, between));
}

// The smallest changes that these runs can show: for each metric, half of its widest interval.
struct Reach {
  std::vector<std::string> seen;
  const MetricChange* of = nullptr;  // one that tells of how many runs
  const MetricChange* inseparable = nullptr;
};

Reach reach_of(const RunComparison& comparison) {
  Reach reach;
  for (const ModelComparison& model : comparison.models)
    if (reach.inseparable == nullptr) reach.inseparable = inseparable_latency(model);
  for (const std::string_view name : {"latency", "run_peak", "p50", "p99"}) {
    double widest = 0;
    for (const ModelComparison& model : comparison.models) {
      const MetricChange* change = model.find(name);
      if (change == nullptr || !change->has_ratio || !change->is_separable) continue;
      if (reach.of == nullptr) reach.of = change;
      widest = std::max({widest, std::sqrt(change->high / change->low) - 1, change->metric->least_share});
    }
    if (widest > 0) reach.seen.push_back(fmt::format("±{:.1f} % of {}", 100 * widest, name));
  }
  return reach;
}

// "One run per side shows only changes beyond ±1.7 % of run_peak."
std::string reach_words(const Reach& reach) {
  if (reach.of == nullptr) return "";
  const MetricChange& of = *reach.of;
  const std::string runs = of.was_in_step ? fmt::format("{} pairs of runs in step show", of.runs_before)
                           : of.runs_before != of.runs_after
                               ? fmt::format("{} and {} runs show", of.runs_before, of.runs_after)
                           : of.runs_before == 1 ? "One run per side shows"
                                                 : fmt::format("{} runs per side show", of.runs_before);
  return fmt::format("{} only changes beyond {}.", runs, enumerated(reach.seen));
}

// Changes of metrics that are not judged, each with an interval of 99 %. Left out if a judged metric of the
// same kind, memory or time, changed as well.
std::vector<std::string> changes_beside(const RunComparison& comparison) {
  std::vector<std::string> words;
  for (const ModelComparison& model : comparison.models) {
    const auto is_told = [&](bool of_memory) {
      return std::ranges::any_of(model.metrics, [&](const MetricChange& change) {
        return change.is_judged && change.differs && (change.metric->unit == MetricUnit::bytes) == of_memory;
      });
    };
    for (const MetricChange& change : model.metrics) {
      const std::string_view name = change.metric->name;
      // Detections have a sentence of their own, and files are an input.
      if (change.is_judged || !change.differs || name == "detections" || name == "file_size") continue;
      if (is_of_page_cache(change)) continue;
      if (is_told(change.metric->unit == MetricUnit::bytes)) continue;
      if (const MetricChange* fps = model.find("fps"); name == "mean" && fps != nullptr && fps->differs)
        continue;
      words.push_back(change_words(model, change, comparison.models.size() > 1));
    }
  }
  return words;
}

// p50 or the frame rate moved much, but these runs cannot show whether it is a change.
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

// The success of the models.
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
  for (const GoneModel& model : comparison.only_before)
    (model.is_worse() ? outcomes.worse : outcomes.unknown).push_back(gone_words(model));
  for (const NewModel& model : comparison.only_after)
    if (model.outcome.failed > 0) outcomes.worse.push_back(failure_words(model));
  return outcomes;
}

std::string detection_words(const RunComparison& comparison) {
  std::vector<std::string> sentences;
  for (const ModelComparison& model : comparison.models)
    if (const MetricChange* change = model.find("detections"); change != nullptr && change->differs)
      sentences.push_back(fmt::format("{} now finds {} per frame; before, it found {}.", model.name,
                                      words_for(*change->metric, change->after),
                                      words_for(*change->metric, change->before)));
  return joined(sentences, " ");
}

std::vector<FactChange> all_facts(const RunComparison& comparison) {
  std::vector<FactChange> facts;
  for (const ModelComparison& model : comparison.models)
    for (FactChange fact : model.facts) {
      if (comparison.models.size() > 1) fact.what = model.name + ": " + fact.what;
      facts.push_back(std::move(fact));
    }
  facts.insert(facts.end(), comparison.facts.begin(), comparison.facts.end());
  // After an out-of-memory failure, the memory limit is the likeliest cause.
  const bool is_of_memory = std::ranges::any_of(comparison.models, [](const ModelComparison& model) {
    return (model.fell() && model.outcome_after.status == ModelStatus::oom) ||
           (model.recovered() && model.outcome_before.status == ModelStatus::oom);
  });
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
               ? "The runs of one side differ from each other (see below), which may be the whole cause."
               : "";
  if (facts.empty())
    return is_unexplained ? "The runs record no cause: model files, settings, runtime, source and machine "
                            "are the same. Check the code of the program."
                          : "";
  std::vector<std::string> words;
  for (const FactChange& fact : facts) {
    if (words.size() == 3) break;
    words.push_back(fmt::format("{} ({} to {})", fact.what, fact.before, fact.after));
  }
  return fmt::format(
      "{}: {}{}.", changed ? "Also changed, the likeliest cause first" : "Changed", joined(words, "; "),
      facts.size() > words.size() ? fmt::format("; and {} more", facts.size() - words.size()) : "");
}

struct FiguresTold {
  Found found;
  std::vector<std::string> beside, open;
  std::string detections;
  bool are_there = false;  // where each model failed on a side there is none to be alike

  explicit FiguresTold(const RunComparison& comparison)
      : found(judged_changes(comparison)),
        beside(changes_beside(comparison)),
        open(open_questions(comparison)),
        detections(detection_words(comparison)),
        are_there(std::ranges::any_of(comparison.models,
                                      [](const ModelComparison& model) { return !model.metrics.empty(); })) {}

  bool are_alike() const { return are_there && beside.empty() && open.empty() && detections.empty(); }
};

RunDiffTone tone_of(const Outcomes& outcomes, const FiguresTold& figures) {
  const bool worse = figures.found.worse || !outcomes.worse.empty(),
             better = figures.found.better || !outcomes.better.empty();
  if (!outcomes.worse.empty()) return RunDiffTone::worse;
  if (worse && better) return RunDiffTone::mixed;
  if (worse) return RunDiffTone::worse;
  if (better) return RunDiffTone::better;
  return figures.are_alike() ? RunDiffTone::same : RunDiffTone::unknown;
}

std::string names_of_judged(const RunComparison& comparison) {
  std::vector<std::string> names;
  for (const ModelComparison& model : comparison.models)
    for (const MetricChange& change : model.metrics)
      if (std::string name(change.metric->name);
          change.is_judged && std::ranges::find(names, name) == names.end())
        names.push_back(std::move(name));
  return names.empty() ? "the judged figures" : enumerated(names);
}

bool has_failures(const RunComparison& comparison) {
  return std::ranges::any_of(comparison.models, [](const ModelComparison& model) {
    return model.outcome_before.failed + model.outcome_after.failed > 0;
  });
}

// No judged metric changed.
std::string unchanged_words(const RunComparison& comparison, const Outcomes& outcomes,
                            const FiguresTold& figures) {
  if (!figures.beside.empty())
    return fmt::format(
        "No change was found in {}. Other figures differ (at 99 % each, so one in a hundred differs by "
        "chance): {}.",
        names_of_judged(comparison), words_beside(figures.beside));
  const bool is_of_memory = reach_of(comparison).inseparable != nullptr;
  if (!figures.open.empty() && !is_of_memory)
    return "No change was found, but these runs cannot rule one out.";
  if (!figures.detections.empty())
    return fmt::format("{} did not change, but the detections did.",
                       is_of_memory ? "Memory" : "Memory and time");
  if (outcomes.unknown.empty())
    return is_of_memory ? "No change of memory was found." : "No change was found.";
  return has_failures(comparison) ? "No change was found in the runs that succeeded."
                                  : "Nothing that both sides measured changed.";
}

// What the runs can show, what to do about it, and what may be chance.
void add_reach(const RunComparison& comparison, const FiguresTold& figures,
               std::vector<std::string>& sentences) {
  const Reach reach = reach_of(comparison);
  sentences.push_back(reach_words(reach));
  if (reach.inseparable != nullptr)
    sentences.push_back(inseparable_words(*reach.inseparable) +
                        ". Make more runs: headroom bench --repeat 8 for each side, or for both at once with "
                        "--in-step NAME, which is more precise.");
  if (figures.beside.empty() && !figures.open.empty())
    sentences.push_back(fmt::format("Differences that may be chance: {}.", words_beside(figures.open)));
}

void add_changes(const RunComparison& comparison, const Outcomes& outcomes, const FiguresTold& figures,
                 std::vector<std::string>& sentences) {
  const bool has_outcome = !outcomes.worse.empty() || !outcomes.better.empty();
  const bool is_unchanged =
      figures.found.changes.empty() && (!figures.beside.empty() || (figures.are_there && !has_outcome));
  if (!figures.found.changes.empty()) {
    sentences.push_back(fmt::format("B is {}: {}.", joined(figures.found.adjectives, " and "),
                                    joined(figures.found.changes, "; ")));
    if (!figures.beside.empty())
      sentences.push_back(
          fmt::format("Other figures also differ (at 99 % each): {}.", words_beside(figures.beside)));
  } else if (is_unchanged) {
    sentences.push_back(unchanged_words(comparison, outcomes, figures));
  } else if (comparison.models.empty()) {
    sentences.emplace_back("A and B have no model in common.");
  }
  sentences.push_back(figures.detections);
  if (is_unchanged) add_reach(comparison, figures, sentences);
}

RunDiffVerdict verdict_of_one_side(const RunDiffReport& report) {
  RunDiffVerdict verdict;
  verdict.sentence = report.before.size() == 1
                         ? "A and B are the same run: name one from before the change and one from after it."
                         : "A and B are the same runs: name runs from before the change and from after it.";
  for (const std::string& failed : outcomes_of(report.comparison).unknown)
    verdict.sentence += fmt::format(" {}.", failed);
  return verdict;
}

RunDiffVerdict verdict_of_two_sides(const RunComparison& comparison) {
  const Outcomes outcomes = outcomes_of(comparison);
  const FiguresTold figures(comparison);
  std::vector<std::string> sentences;
  if (!outcomes.worse.empty())
    sentences.push_back(fmt::format("B is worse: {}.", joined(outcomes.worse, "; ")));
  if (!outcomes.better.empty())
    sentences.push_back(fmt::format("B is better: {}.", joined(outcomes.better, "; ")));
  if (!outcomes.unknown.empty()) sentences.push_back(joined(outcomes.unknown, "; ") + ".");
  add_changes(comparison, outcomes, figures, sentences);
  std::erase(sentences, "");
  RunDiffVerdict verdict;
  verdict.tone = tone_of(outcomes, figures);
  verdict.sentence = joined(sentences, " ");
  // Failures have their error, and chance needs no cause.
  const bool is_unexplained = !figures.found.changes.empty() || !figures.detections.empty();
  const bool changed =
      is_unexplained || !figures.beside.empty() || !outcomes.worse.empty() || !outcomes.better.empty();
  verdict.cause = cause_of(comparison, changed, is_unexplained);
  return verdict;
}

}  // namespace

const MetricChange* inseparable_latency(const ModelComparison& model) {
  const MetricChange* latency = model.find("latency");
  if (latency != nullptr && latency->is_separable) return nullptr;
  const auto found =
      std::ranges::find_if(model.metrics, [](const MetricChange& change) { return !change.is_separable; });
  return found == model.metrics.end() ? nullptr : &*found;
}

std::string inseparable_words(const MetricChange& change) {
  return "Latency differences are not separable from noise " + words_for_runs(change);
}

RunDiffLook look_of(RunDiffTone tone) {
  // In the order of RunDiffTone.
  constexpr std::array<RunDiffLook, 5> kLooks{{{"worse", kRed, ":red_circle:"},
                                               {"mixed", kYellow, ":yellow_circle:"},
                                               {"better", kGreen, ":green_circle:"},
                                               {"same", kBold, ":white_circle:"},
                                               {"unknown", kYellow, ":yellow_circle:"}}};
  return kLooks.at(static_cast<std::size_t>(tone));
}

RunDiffVerdict verdict_of(const RunDiffReport& report) {
  return report.is_one_side ? verdict_of_one_side(report) : verdict_of_two_sides(report.comparison);
}

std::vector<std::string> fact_lines(const RunComparison& comparison) {
  std::vector<std::string> lines;
  for (const FactChange& fact : all_facts(comparison))
    lines.push_back(fmt::format("{}: {} → {}", fact.what, fact.before.empty() ? "–" : fact.before,
                                fact.after.empty() ? "–" : fact.after));
  return lines;
}

}  // namespace headroom::report
