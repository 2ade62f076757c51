#include "comparison/metric_change.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <string_view>

#include "comparison/two_sample.h"
#include "monitoring/series_growth.h"

namespace headroom::comparison {
namespace {

constexpr double kShownConfidence = 0.99;  // of metrics that change no verdict
constexpr std::size_t kTurnsToPair = 4;    // with fewer the sides are compared as two groups
constexpr std::size_t kLeastTurns = 30;

// While a TorchScript runs, memory varies by 1.1 % from run to run, with ONNX Runtime by 0.1 to 0.3 %
// (benchmarks/results/diff_memory_spread.md).
constexpr double kLibTorchShare = 0.015;

// A value of the metric, and the pages of files in it if the run has that figure.
struct Measured {
  double value = 0;
  std::optional<double> file_pages;
};

std::vector<Measured> measured_by(const RunMetric& metric, const RunsOfModel& runs) {
  std::vector<Measured> values;
  for (const ComparedModel* run : runs.models) {
    const auto value = metric.value(run->figures());
    // A time or rate of zero was not measured.
    if (!value || !std::isfinite(*value) || (metric.needs_repeats() && *value <= 0)) continue;
    Measured measured{*value, {}};
    const auto& files = run->result->memory.file_backed_peak;
    // A mapped model consists of pages of a file itself.
    if (metric.holds_file_pages && files && !run->result->settings.mapped)
      measured.file_pages = static_cast<double>(files->count);
    values.push_back(measured);
  }
  return values;
}

std::vector<double> values_of(const std::vector<Measured>& measured) {
  std::vector<double> values;
  for (const Measured& one : measured) values.push_back(one.value);
  return values;
}

// Whether A and B alternate, run by run. Then drift of the machine cancels out in pairs.
bool in_turns(const RunsOfModel& a, const RunsOfModel& b) {
  if (a.models.size() != b.models.size() || a.models.size() < kTurnsToPair) return false;
  for (std::size_t i = 0; i < a.models.size(); ++i) {
    if (!a.started[i] || !b.started[i] || a.started[i] == b.started[i]) return false;
    if (i > 0 && std::max(a.started[i - 1], b.started[i - 1]) >= std::min(a.started[i], b.started[i]))
      return false;
  }
  return true;
}

// The allowance for one run, as a share of its value.
double allowed_error(const RunMetric& metric, const RunsOfModel& runs, double value) {
  const bool is_run = metric.name == "run_peak" || metric.name == "run_mean";
  const bool is_libtorch = runs.models.front()->result->backend == "libtorch";
  const double share = is_run && is_libtorch ? kLibTorchShare : metric.run_to_run_share;
  const double absolute = value > 0 ? metric.run_to_run / value : 0;
  double squares = 0;
  for (const ComparedModel* run : runs.models) {
    const auto& files = run->result->memory.file_backed_peak;
    const double shared = files && value > 0 ? metric.shared_pages * static_cast<double>(files->count) / value
                                             : metric.shared_pages;
    squares += shared * shared;
  }
  return std::sqrt(share * share + absolute * absolute + squares / static_cast<double>(runs.models.size()));
}

// Half of the difference between the bare runtimes, beyond 512 KiB and up to a huge page. In one run in
// fifteen the bare runtime had 2 MiB more, by its size a huge page, and 1.2 MiB more in all later phases
// (benchmarks/results/diff_power.md). A larger difference is no such chance.
double chance_of_runtime(const RunsOfModel& before, const RunsOfModel& after) {
  constexpr double kUsual = 512 << 10, kHugePage = 2 << 20;
  const auto middle = [](const RunsOfModel& runs) {
    std::vector<double> values;
    for (const ComparedModel* run : runs.models)
      if (run->result->memory.runtime)
        values.push_back(static_cast<double>(run->result->memory.runtime->count));
    return monitoring::median(values);
  };
  if (before.models.front()->result->backend_version != after.models.front()->result->backend_version)
    return 0;
  const double a = middle(before), b = middle(after);
  const double apart = a > 0 && b > 0 ? std::abs(b - a) : 0;
  return apart > 2 * kHugePage ? 0 : std::clamp(apart - kUsual, 0.0, kHugePage) / 2;
}

// Compares logarithms: the change is a ratio, and twice as slow is as far as twice as fast.
class LogComparison {
 public:
  LogComparison(MetricChange& change, const RunsOfModel& before, const RunsOfModel& after)
      : change_(change), before_(before), after_(after) {
    change_.spread_was_measured =
        change_.runs_before >= kRunsToKnowTheirSpread && change_.runs_after >= kRunsToKnowTheirSpread;
    change_.was_paired = change_.spread_was_measured && !is_memory() &&
                         change_.runs_before == before.models.size() &&
                         change_.runs_after == after.models.size() && in_turns(before, after);
  }

  // For memory the median: one run in twenty has a megabyte more of a library's file mapped.
  double middle_of(const std::vector<double>& values) const {
    if (std::ranges::all_of(values, [&](double value) { return value == values.front(); }))
      return values.front();  // to the last digit
    std::vector<double> logs = logs_of(values);
    if (!is_memory()) return std::exp(middle_mean(logs));
    return std::exp(change_.spread_was_measured ? monitoring::median(logs) : mean_of(logs));
  }

  Difference difference(const std::vector<double>& a, const std::vector<double>& b) const {
    const std::vector<double> logs_a = logs_of(a), logs_b = logs_of(b);
    if (is_memory()) return difference_of_memory(a, b, logs_a, logs_b);
    if (change_.was_paired) return bootstrap_of_pairs(logs_a, logs_b, change_.confidence);
    if (change_.spread_was_measured) return bootstrap(logs_a, logs_b, change_.confidence);
    const double estimate = middle_mean(logs_b) - middle_mean(logs_a);
    if (!change_.metric->needs_repeats()) return known_error(estimate, 0, change_.confidence);
    change_.is_separable = false;
    return {estimate, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), 1};
  }

 private:
  bool is_memory() const { return change_.metric->unit == MetricUnit::bytes; }
  static std::vector<double> logs_of(const std::vector<double>& values) {
    std::vector<double> logs;
    for (const double value : values) logs.push_back(std::log(value));
    return logs;
  }

  Difference difference_of_memory(const std::vector<double>& a, const std::vector<double>& b,
                                  const std::vector<double>& logs_a,
                                  const std::vector<double>& logs_b) const {
    const double middle_a = middle_of(a), middle_b = middle_of(b);
    const double of_a = allowed_error(*change_.metric, before_, middle_a);
    const double of_b = allowed_error(*change_.metric, after_, middle_b);
    if (change_.spread_was_measured)
      return between_medians(logs_a, logs_b, std::max(of_a, of_b), change_.confidence);
    const double chance =
        change_.has_one_layout ? 0 : chance_of_runtime(before_, after_) / std::max(middle_a, middle_b);
    const auto runs_a = static_cast<double>(a.size()), runs_b = static_cast<double>(b.size());
    return known_error(mean_of(logs_b) - mean_of(logs_a),
                       std::sqrt(of_a * of_a / runs_a + of_b * of_b / runs_b + chance * chance),
                       change_.confidence);
  }

  MetricChange& change_;
  const RunsOfModel &before_, &after_;
};

bool all_positive(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return value > 0; });
}

// The interval then includes that of the other difference.
void widen(MetricChange& change, const Difference& difference) {
  change.low = std::min(change.low, std::exp(difference.low));
  change.high = std::max(change.high, std::exp(difference.high));
  change.p = std::max(change.p, difference.p);
}

// The values if all runs had equally many pages of files. Empty if a run lacks that figure.
struct Sides {
  std::vector<double> a, b;
};
Sides with_equal_file_pages(const std::vector<Measured>& a, const std::vector<Measured>& b) {
  std::vector<double> pages;
  for (const auto* side : {&a, &b})
    for (const Measured& run : *side) {
      if (!run.file_pages) return {};
      pages.push_back(*run.file_pages);
    }
  const double same = mean_of(pages);
  Sides sides;
  for (const Measured& run : a) sides.a.push_back(run.value - *run.file_pages + same);
  for (const Measured& run : b) sides.b.push_back(run.value - *run.file_pages + same);
  return all_positive(sides.a) && all_positive(sides.b) ? sides : Sides{};
}

double mean_file_pages(const std::vector<Measured>& runs) {
  double sum = 0;
  for (const Measured& run : runs) sum += *run.file_pages;
  return sum / static_cast<double>(runs.size());
}

// The page cache decides how many pages of the libraries' files are mapped: after they were read from begin
// to end, the same program had 29 % more resident memory (benchmarks/results/diff_memory_spread.md). So a
// change must hold with and without them. The figure is the largest of a few samples, and a short run may
// end between two. Pages that explain too much were missed in one run; those that explain less than half do
// not count.
void widen_by_file_pages(MetricChange& change, const LogComparison& comparison,
                         const std::vector<Measured>& a, const std::vector<Measured>& b) {
  if (change.low <= 1 && change.high >= 1) return;
  const Sides without = with_equal_file_pages(a, b);
  if (without.a.empty()) return;
  const Difference difference = comparison.difference(without.a, without.b);
  if (std::abs(difference.estimate) > std::abs(std::log(change.ratio)) / 2) return;
  widen(change, difference);
  change.is_of_file_pages = change.low <= 1 && change.high >= 1;
  change.file_pages = mean_file_pages(b) - mean_file_pages(a);
}

// The number of heap layouts of a side.
std::size_t layouts_of(const RunsOfModel& runs) {
  std::size_t random = 0;
  std::set<std::string_view> fixed;
  for (const std::string& layout : runs.layouts)
    if (layout.empty())
      ++random;
    else
      fixed.insert(layout);
  return random + fixed.size();
}

bool have_one_layout(const RunsOfModel& before, const RunsOfModel& after) {
  return !before.layouts.front().empty() && layouts_of(before) == 1 && layouts_of(after) == 1 &&
         before.layouts.front() == after.layouts.front();
}

// At random addresses, one run in six of a model had 2 MiB more from its load on, which its heap could not
// release (benchmarks/results/diff_memory_spread.md). One or two layouts cannot tell that from growth, so
// the interval includes the change without such a step. Clearly smaller or larger changes are no step, and
// equal layouts have none.
void widen_by_step(MetricChange& change, const LogComparison& comparison, std::vector<double> a,
                   std::vector<double> b, const RunsOfModel& before, const RunsOfModel& after) {
  constexpr double kStep = 2 << 20;
  if (change.low <= 1 && change.high >= 1) return;
  const bool grew = mean_of(b) > mean_of(a);
  std::vector<double>& larger = grew ? b : a;
  // One or both of two layouts may have the step.
  const std::size_t layouts = std::min(larger.size(), layouts_of(grew ? after : before));
  const double share = kStep / static_cast<double>(layouts);
  for (std::size_t i = 0; i < layouts; ++i) {
    for (double& value : larger) value -= share;
    if (!all_positive(larger)) return;
    const Difference difference = comparison.difference(a, b);
    if (difference.low > 0 || difference.high < 0) continue;
    widen(change, difference);
    change.is_of_step = true;
    return;
  }
}

bool is_change(const MetricChange& change) {
  const bool is_certain = change.low > 1 || change.high < 1;
  return is_certain && change.before != change.after &&
         std::abs(change.ratio - 1) >= change.metric->least_share &&
         std::abs(change.change()) >= change.metric->least;
}

// A run of A and its partner of B that measured in step (headroom bench --in-step). Frame i of one and frame
// i of the other ran one after the other, so their ratio excludes the state of the machine.
struct PairInStep {
  double before = 0;  // the logarithm of A's median, in ns
  double ratio = 0;   // the median of ln(B / A)
};

std::optional<PairInStep> pair_in_step(const ComparedModel& a, const ComparedModel& b) {
  std::size_t turns = std::min(a.frames.size(), b.frames.size());
  for (const ComparedModel* run : {&a, &b})
    turns =
        std::min(turns, static_cast<std::size_t>(std::max<std::int64_t>(0, run->result->in_step->frames)));
  if (turns < kLeastTurns) return std::nullopt;
  std::vector<double> before, ratios;
  for (std::size_t i = 0; i < turns; ++i) {
    const std::int64_t of_a = a.frames[i].inference.count, of_b = b.frames[i].inference.count;
    if (of_a <= 0 || of_b <= 0) return std::nullopt;  // not measured
    before.push_back(static_cast<double>(of_a));
    ratios.push_back(std::log(static_cast<double>(of_b) / static_cast<double>(of_a)));
  }
  return PairInStep{std::log(monitoring::median(before)), monitoring::median(ratios)};
}

// Empty unless each run has a partner on the other side.
std::vector<PairInStep> pairs_in_step(const RunsOfModel& before, const RunsOfModel& after) {
  std::vector<PairInStep> pairs;
  if (before.models.size() != after.models.size()) return {};
  for (const ComparedModel* run : before.models) {
    if (!run->result->in_step) return {};
    const auto partner = std::ranges::find_if(after.models, [&](const ComparedModel* other) {
      return other->result->in_step && other->result->in_step->id == run->result->in_step->id;
    });
    if (partner == after.models.end()) return {};
    const auto pair = pair_in_step(*run, **partner);
    if (!pair) return {};
    pairs.push_back(*pair);
  }
  return pairs;
}

void set_ratio(MetricChange& change, const Difference& difference) {
  change.ratio = std::exp(difference.estimate);
  change.low = std::exp(difference.low);
  change.high = std::exp(difference.high);
  change.p = difference.p;
}

MetricChange compare_turns(MetricChange change, const std::vector<PairInStep>& pairs) {
  std::vector<double> before, ratios;
  for (const PairInStep& pair : pairs) {
    before.push_back(pair.before);
    ratios.push_back(pair.ratio);
  }
  change.was_in_step = change.spread_was_measured = true;
  set_ratio(change, bootstrap_of_pairs(std::vector<double>(ratios.size()), ratios, change.confidence));
  change.before = std::exp(mean_of(before));
  change.after = change.before * change.ratio;
  change.differs = is_change(change);
  return change;
}

// The interval of a difference of values that may be 0 or less.
void compare_values(MetricChange& change, const std::vector<double>& a, const std::vector<double>& b) {
  change.has_ratio = false;
  change.before = mean_of(a);
  change.after = mean_of(b);
  change.spread_was_measured = a.size() >= kRunsToKnowTheirSpread && b.size() >= kRunsToKnowTheirSpread;
  const double allowed = change.metric->run_to_run *
                         std::sqrt(1 / static_cast<double>(a.size()) + 1 / static_cast<double>(b.size()));
  const Difference difference = change.spread_was_measured
                                    ? bootstrap(a, b, change.confidence)
                                    : known_error(change.change(), allowed, change.confidence);
  change.low_change = difference.low;
  change.high_change = difference.high;
  change.p = difference.p;
  change.differs = change.before != change.after && !change.is_noise() &&
                   std::abs(change.change()) >= change.metric->least;
}

}  // namespace

bool is_measured(const RunMetric& metric, const RunsOfModel& runs) {
  return !measured_by(metric, runs).empty();
}

bool is_same_percentile(const RunMetric& metric, const RunsOfModel& before, const RunsOfModel& after) {
  if (metric.percentile <= 0) return true;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (const RunsOfModel* side : {&before, &after})
    for (const ComparedModel* run : side->models) {
      const std::int64_t frames = run->result->inference ? run->result->inference->n : 0;
      fewest = std::min(fewest, frames);
      most = std::max(most, frames);
    }
  return fewest == most ||
         static_cast<double>(fewest) * std::min(metric.percentile, 1 - metric.percentile) >= 1;
}

std::vector<MetricValue> values_of_side(const RunsOfModel& runs) {
  std::vector<MetricValue> values;
  for (const RunMetric& metric : run_metrics()) {
    std::vector<double> measured = values_of(measured_by(metric, runs));
    if (measured.empty()) continue;
    const bool is_memory = metric.unit == MetricUnit::bytes;
    values.push_back({&metric, is_memory && measured.size() >= kRunsToKnowTheirSpread
                                   ? monitoring::median(measured)
                                   : mean_of(measured)});
  }
  return values;
}

std::optional<MetricChange> change_of(const RunMetric& metric, const RunsOfModel& before,
                                      const RunsOfModel& after, std::size_t comparisons) {
  const std::vector<Measured> measured_a = measured_by(metric, before);
  const std::vector<Measured> measured_b = measured_by(metric, after);
  if (measured_a.empty() || measured_b.empty()) return std::nullopt;
  const std::vector<double> a = values_of(measured_a), b = values_of(measured_b);
  MetricChange change;
  change.metric = &metric;
  change.runs_before = a.size();
  change.runs_after = b.size();
  change.is_judged = metric.alpha > 0 && is_same_percentile(metric, before, after);
  change.confidence =
      change.is_judged ? 1 - metric.alpha / static_cast<double>(comparisons) : kShownConfidence;
  change.has_one_layout = have_one_layout(before, after);
  if (metric.percentile == kUndisturbed && before.models.size() >= kRunsToKnowTheirSpread)
    if (const std::vector<PairInStep> pairs = pairs_in_step(before, after); !pairs.empty())
      return compare_turns(change, pairs);
  if (!all_positive(a) || !all_positive(b)) {
    compare_values(change, a, b);
    return change;
  }
  const LogComparison comparison(change, before, after);
  const Difference difference = comparison.difference(a, b);
  change.is_judged = change.is_judged && change.is_separable;
  set_ratio(change, difference);
  change.before = comparison.middle_of(a);
  change.after = change.was_paired ? change.before * change.ratio : comparison.middle_of(b);
  widen_by_file_pages(change, comparison, measured_a, measured_b);
  const std::size_t layouts = std::min(layouts_of(before), layouts_of(after));
  if (metric.holds_file_pages && !change.has_one_layout && layouts < kRunsToKnowTheirSpread) {
    widen_by_step(change, comparison, a, b, before, after);
    // Pages of files and a step at once.
    const Sides without = with_equal_file_pages(measured_a, measured_b);
    if (change.file_pages != 0 && !without.a.empty())
      widen_by_step(change, comparison, without.a, without.b, before, after);
  }
  change.differs = is_change(change);
  return change;
}

}  // namespace headroom::comparison
