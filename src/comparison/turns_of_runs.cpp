#include "comparison/metric_change.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "monitoring/series_growth.h"

namespace headroom::comparison {
namespace {

constexpr std::size_t kLeastTurns = 30;
constexpr std::size_t kPairsWithoutAllowance = 5;  // three or four may lie close together by chance

// The difference between two equal runs in step, as a logarithm, one standard deviation. It comes from the
// place of their memory, and from the processor of each. Longer runs differ less: 1.0, 0.9 and 0.55 % for
// 0.3, 0.9 and 3 s on one processor beside a build (benchmarks/results/diff_in_step.md).
constexpr double kOnOneProcessor = 0.007, kOnSeveral = 0.010;
constexpr double kSettlesOnOne = 1e9, kSettlesOnSeveral = 3e9;  // ns

struct PairOfRuns {
  std::vector<double> before, after;  // ns, in turns
  bool on_one_processor = false;
};

const ComparedModel* partner_of(const ComparedModel& run, const RunsOfModel& others) {
  const auto is_partner = [&](const ComparedModel* other) {
    return other->result->in_step && other->result->in_step->id == run.result->in_step->id;
  };
  const auto found = std::ranges::find_if(others.models, is_partner);
  return found == others.models.end() ? nullptr : *found;
}

std::optional<PairOfRuns> pair_of(const ComparedModel& a, const ComparedModel& b) {
  const auto in_step = [](const ComparedModel& run) {
    return std::min(run.frames.size(),
                    static_cast<std::size_t>(std::max<std::int64_t>(0, run.result->in_step->frames)));
  };
  const std::size_t turns = std::min(in_step(a), in_step(b));
  if (turns < kLeastTurns) return std::nullopt;
  PairOfRuns pair;
  pair.on_one_processor = a.result->in_step->one_processor && b.result->in_step->one_processor;
  for (std::size_t i = 0; i < turns; ++i) {
    const std::int64_t before = a.frames[i].inference.count, after = b.frames[i].inference.count;
    if (before <= 0 || after <= 0) return std::nullopt;  // a time of nothing is no time
    pair.before.push_back(static_cast<double>(before));
    pair.after.push_back(static_cast<double>(after));
  }
  return pair;
}

std::vector<PairOfRuns> pairs_of_runs(const RunsOfModel& before, const RunsOfModel& after) {
  std::vector<PairOfRuns> pairs;
  if (before.models.size() != after.models.size()) return {};
  for (const ComparedModel* run : before.models) {
    if (!run->result->in_step) return {};
    const ComparedModel* partner = partner_of(*run, after);
    if (partner == nullptr) return {};
    auto pair = pair_of(*run, *partner);
    if (!pair) return {};
    pairs.push_back(std::move(*pair));
  }
  return pairs;
}

std::vector<double> log_ratios(const PairOfRuns& pair) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < pair.before.size(); ++i)
    ratios.push_back(std::log(pair.after[i] / pair.before[i]));
  return ratios;
}

double log_median(std::vector<double> times) { return std::log(monitoring::median(times)); }

double allowed_for(const PairOfRuns& pair) {
  double taken = 0;  // by one of the two
  for (const auto* side : {&pair.before, &pair.after})
    for (const double time : *side) taken += time / 2;
  const double share = pair.on_one_processor ? kOnOneProcessor : kOnSeveral;
  const double settles = pair.on_one_processor ? kSettlesOnOne : kSettlesOnSeveral;
  return share * std::sqrt(1 + settles / taken);
}

}  // namespace

std::optional<ChangeByTurns> change_by_turns(const RunsOfModel& before, const RunsOfModel& after,
                                             double confidence) {
  const std::vector<PairOfRuns> pairs = pairs_of_runs(before, after);
  if (pairs.empty()) return std::nullopt;
  std::vector<double> medians_before, ratios;
  double squares = 0;
  for (const PairOfRuns& pair : pairs) {
    std::vector<double> turns = log_ratios(pair);
    const double allowed = allowed_for(pair), sampling = median_error(turns);
    squares += allowed * allowed + sampling * sampling;
    ratios.push_back(monitoring::median(turns));
    medians_before.push_back(log_median(pair.before));
  }
  ChangeByTurns change;
  change.before = std::exp(mean_of(medians_before));
  const auto n = static_cast<double>(pairs.size());
  const Difference allowed = known_error(mean_of(ratios), std::sqrt(squares) / n, confidence);
  change.spread_was_measured = pairs.size() >= kRunsToKnowTheirSpread;
  if (!change.spread_was_measured) {
    change.difference = allowed;
    return change;
  }
  const std::vector<double> none(ratios.size(), 0.0);
  change.difference = bootstrap_of_pairs(none, ratios, confidence);
  if (pairs.size() < kPairsWithoutAllowance) change.difference = wider(change.difference, allowed);
  return change;
}

}  // namespace headroom::comparison
