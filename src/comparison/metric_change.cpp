#include "comparison/metric_change.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <string_view>

#include "comparison/turns_of_runs.h"
#include "comparison/two_sample.h"
#include "monitoring/robust_statistics.h"

namespace headroom::comparison {
namespace {

constexpr double kShownConfidence = 0.99;   // of metrics that change no verdict
constexpr std::size_t kTurnsToPair = 4;     // with fewer the sides are compared as two groups
constexpr std::size_t kRunsToTrust = 5;     // a side, without the allowance
constexpr std::size_t kFramesToTrust = 10;  // fewer say nothing of the error of a percentile or a mean
constexpr double kErrorOfFewFrames = 0.7;   // a factor of two

// What the process takes while a TorchScript runs differs from run to run by 1.1 % of its memory, where ONNX
// Runtime's differs by 0.1 to 0.3 % (benchmarks/results/diff_memory_spread.md).
constexpr double kLibTorchShare = 0.015;

// A run sees one state of the machine, however even its frames are: runs of 0.3 to 3 s of four models had one
// of two speeds, 20 to 30 % apart, when others built beside them, and had the processor all the time. Of 20
// frames of 4 ms, which wait for memory, it was more. Nothing else in the runs told so
// (benchmarks/results/diff_power.md). Three runs or more show most of it, but where they are short not all.
constexpr double kShareOfOneRun = 0.09, kShareOfVeryShortRun = 0.12, kShareOfShortRuns = 0.04;
constexpr double kVeryShort = 150e6, kShort = 500e6;

double share_by_state_of_machine(const RunsOfModel& runs) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const ComparedModel* run : runs.models)
    if (const auto& times = run->result->inference)
      shortest = std::min(shortest, times->mean_ns * static_cast<double>(times->n));
  if (runs.models.size() < kRunsToKnowTheirSpread)
    return shortest < kVeryShort ? kShareOfVeryShortRun : kShareOfOneRun;
  return shortest < kShort ? kShareOfShortRuns : 0;
}

// Of fewer frames than it has parts a percentile is the slowest frame, which is slower the more frames there
// are: runs of other numbers of them have another tail.
bool is_tail_of_few(const RunMetric& metric, const RunsOfModel& before, const RunsOfModel& after) {
  if (metric.tail <= 0) return false;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (const RunsOfModel* side : {&before, &after})
    for (const ComparedModel* run : side->models) {
      const std::int64_t frames = run->result->inference ? run->result->inference->n : 0;
      fewest = std::min(fewest, frames);
      most = std::max(most, frames);
    }
  return fewest != most && static_cast<double>(fewest) * (1 - metric.percentile) < 1;
}

// A value of the metric, and what of it are pages of files where the run tells.
struct Measured {
  double value = 0;
  std::optional<double> file_pages;
};

std::vector<Measured> measured_by(const RunMetric& metric, const RunsOfModel& runs, double undisturbed) {
  std::vector<Measured> values;
  for (const ComparedModel* run : runs.models) {
    MeasuredFigures figures = run->figures();
    figures.undisturbed = undisturbed;
    const auto value = metric.value(figures);
    // A time of nothing is no time.
    if (!value || !std::isfinite(*value) || (metric.unit == MetricUnit::nanoseconds && *value <= 0)) continue;
    Measured measured{*value, {}};
    const auto& files = run->result->memory.file_backed_peak;
    // A model that is mapped from its file is pages of a file itself.
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

// A and B one after the other, again and again: then what both of a turn have in common, such as the clock
// of a machine that is shared, cancels out.
bool in_turns(const RunsOfModel& a, const RunsOfModel& b) {
  if (a.models.size() != b.models.size() || a.models.size() < kTurnsToPair) return false;
  for (std::size_t i = 0; i < a.models.size(); ++i) {
    if (!a.started[i] || !b.started[i] || a.started[i] == b.started[i]) return false;
    if (i > 0 && std::max(a.started[i - 1], b.started[i - 1]) >= std::min(a.started[i], b.started[i]))
      return false;
  }
  return true;
}

double allowed_share(const RunMetric& metric, const RunsOfModel& runs) {
  const bool is_run = metric.name == "run_peak" || metric.name == "run_mean";
  if (is_run && runs.models.front()->result->backend == "libtorch") return kLibTorchShare;
  if (metric.disturbance <= 0) return metric.run_to_run_share;  // of no frames
  return std::max(metric.run_to_run_share, share_by_state_of_machine(runs));
}

// How far the run stayed below the processor time that the best of them had, as a logarithm. Where frames are
// longer than what a scheduler gives in one go, all of them wait, and the fastest one tells nothing of it: of
// runs of a model of 60 ms that had 28 to 98 % of a core the fastest frames differed by a factor of 1.7
// (benchmarks/results/diff_power.md).
// That share of it is in the latency. Runs that had 12 % of a core were six times as slow as those that had
// all of one, so it counts up to seven times as long.
constexpr double kWaiting = 0.5, kMostWaiting = 2;
constexpr double kComputes = 30;  // percent of a core: below it the others wait for what else they do
double waiting_of(const ComparedModel& run, double most_processor_time) {
  const double had = run.result->cpu_percent.value_or(0);
  if (had <= 0 || most_processor_time <= had || most_processor_time < kComputes) return 0;
  return std::min(kMostWaiting, std::log(most_processor_time / had));
}

double most_processor_time(const RunsOfModel& before, const RunsOfModel& after) {
  double most = 0;
  for (const RunsOfModel* side : {&before, &after})
    for (const ComparedModel* run : side->models) most = std::max(most, run->result->cpu_percent.value_or(0));
  return most;
}

// Of one run of the metric, as a share of its value: what is allowed for from run to run, the sampling error
// of its percentile, how disturbed it was and how long it waited.
double allowed_error(const RunMetric& metric, const RunsOfModel& runs, double value, double undisturbed,
                     double most_processor_time) {
  double squares = 0;
  for (const ComparedModel* run : runs.models) {
    const double sampling = sampling_error(metric, *run, undisturbed);
    const double disturbed =
        metric.disturbance > 0 ? metric.disturbance * disturbance_of(run->figures()).value_or(0) : 0;
    const double waited = metric.disturbance > 0 ? kWaiting * waiting_of(*run, most_processor_time) : 0;
    const double tail = metric.tail * tail_of(*run->result);
    const auto& files = run->result->memory.file_backed_peak;
    const double shared = files && value > 0 ? metric.shared_pages * static_cast<double>(files->count) / value
                                             : metric.shared_pages;
    squares += sampling * sampling + disturbed * disturbed + waited * waited + tail * tail + shared * shared;
  }
  const double share = allowed_share(metric, runs);
  const double absolute = value > 0 ? metric.run_to_run / value : 0;
  return std::sqrt(share * share + absolute * absolute + squares / static_cast<double>(runs.models.size()));
}

// Half of what the bare runtimes of the sides differ by, beyond half a MiB, up to a huge page. It is there
// before the model is loaded, so where the runtime is the same it is chance: one run in fifteen had 2 MiB
// more there, by its size a huge page, and then 1.2 MiB more in all that follows
// (benchmarks/results/diff_power.md). What differs by more than that is no such chance.
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

// The wider of two intervals, about the first one's estimate.
Difference with_reach_of(Difference difference, const Difference& other) {
  const double reach = std::max(difference.high - difference.estimate, other.high - other.estimate);
  difference.low = difference.estimate - reach;
  difference.high = difference.estimate + reach;
  difference.p = std::max(difference.p, other.p);
  return difference;
}

// One comparison of logarithms, so that the change is a ratio and twice as slow is as far as twice as fast.
class LogComparison {
 public:
  LogComparison(MetricChange& change, const RunsOfModel& before, const RunsOfModel& after, double undisturbed)
      : change_(change), before_(before), after_(after), undisturbed_(undisturbed) {
    change_.spread_was_measured =
        change_.runs_before >= kRunsToKnowTheirSpread && change_.runs_after >= kRunsToKnowTheirSpread;
    change_.was_paired = change_.spread_was_measured && !is_memory() &&
                         change_.runs_before == before.models.size() &&
                         change_.runs_after == after.models.size() && in_turns(before, after);
  }

  // The middle of several values: of memory the median, since one run in twenty has a megabyte more of a
  // library's file mapped than all others; else the geometric mean.
  double middle_of(const std::vector<double>& values) const {
    if (std::all_of(values.begin(), values.end(), [&](double value) { return value == values.front(); }))
      return values.front();  // to the last digit
    std::vector<double> logs = logs_of(values);
    return std::exp(is_memory() && change_.spread_was_measured ? monitoring::median(logs) : mean_of(logs));
  }

  Difference difference(const std::vector<double>& a, const std::vector<double>& b) const {
    const std::vector<double> logs_a = logs_of(a), logs_b = logs_of(b);
    const double middle_a = middle_of(a), middle_b = middle_of(b);
    if (change_.was_paired)
      return ranks_can_tell(a.size(), change_.confidence) ? signed_ranks(logs_a, logs_b, change_.confidence)
                                                          : paired(logs_a, logs_b, change_.confidence);
    const double most = most_processor_time(before_, after_);
    const double of_a = allowed_error(*change_.metric, before_, middle_a, undisturbed_, most);
    const double of_b = allowed_error(*change_.metric, after_, middle_b, undisturbed_, most);
    if (change_.spread_was_measured && is_memory())
      return between_medians(logs_a, logs_b, std::max(of_a, of_b), change_.confidence);
    const double chance = is_memory() && !change_.has_one_layout
                              ? chance_of_runtime(before_, after_) / std::max(middle_a, middle_b)
                              : 0;
    const auto runs_a = static_cast<double>(a.size()), runs_b = static_cast<double>(b.size());
    const Difference allowed = known_error(
        mean_of(logs_b) - mean_of(logs_a),
        std::sqrt(of_a * of_a / runs_a + of_b * of_b / runs_b + chance * chance), change_.confidence);
    if (std::max(a.size(), b.size()) < kRunsToKnowTheirSpread) return allowed;
    // What the larger side knows of the spread holds for a single run of the other, too; of memory by the
    // distances' median, which one run in six with 2 MiB more does not move, from five runs on: three tell so
    // little that 2 % more would never be found.
    if (is_memory())
      return std::max(a.size(), b.size()) < kRunsToTrust
                 ? allowed
                 : with_reach_of(allowed, between_medians(logs_a, logs_b, 0, change_.confidence));
    const Difference together = pooled(logs_a, logs_b, change_.confidence);
    if (!change_.spread_was_measured) return wider(allowed, together);
    const Difference measured = wider(welch(logs_a, logs_b, change_.confidence), together);
    // Three or four runs may lie close together by chance, and often do where they have one of two speeds.
    return std::min(a.size(), b.size()) < kRunsToTrust ? wider(allowed, measured) : measured;
  }

 private:
  bool is_memory() const { return change_.metric->unit == MetricUnit::bytes; }
  static std::vector<double> logs_of(const std::vector<double>& values) {
    std::vector<double> logs;
    for (const double value : values) logs.push_back(std::log(value));
    return logs;
  }

  MetricChange& change_;
  const RunsOfModel &before_, &after_;
  double undisturbed_;
};

bool all_positive(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return value > 0; });
}

// The values with as many pages of files in all of them. Empty where a run does not tell how many it has.
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

// How many pages of the libraries' files are mapped is settled by how the files came into the page cache: the
// same program had 29 % more resident memory after its libraries were read from begin to end
// (benchmarks/results/diff_memory_spread.md). So where there seems to be a change, the interval holds it with
// and without them. The pages are the most of a few samples, and a short run may end between two of them:
// those that would explain more than there is to explain were missed in one of the runs, and explain nothing;
// nor do those that explain less than half.
void widen_by_file_pages(MetricChange& change, const LogComparison& comparison,
                         const std::vector<Measured>& a, const std::vector<Measured>& b) {
  if (change.low <= 1 && change.high >= 1) return;
  const Sides without = with_equal_file_pages(a, b);
  if (without.a.empty()) return;
  const Difference difference = comparison.difference(without.a, without.b);
  if (std::abs(difference.estimate) > std::abs(std::log(change.ratio)) / 2) return;
  change.low = std::min(change.low, std::exp(difference.low));
  change.high = std::max(change.high, std::exp(difference.high));
  change.p = std::max(change.p, difference.p);
  change.is_of_file_pages = change.low <= 1 && change.high >= 1;
  change.file_pages = mean_file_pages(b) - mean_file_pages(a);
}

// How many layouts of the heap a side has seen.
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

// At random addresses one run in six of a model had 2 MiB more than the others from its load on, which its
// heap could not give back (benchmarks/results/diff_memory_spread.md). One or two layouts of the heap cannot
// tell that from growth of as much, so there the interval holds the change without such a step, too. What is
// clearly less, or more, is no step; and where all runs have the same layout there is none.
void widen_by_step(MetricChange& change, const LogComparison& comparison, std::vector<double> a,
                   std::vector<double> b, const RunsOfModel& before, const RunsOfModel& after) {
  constexpr double kStep = 2 << 20;
  if (change.low <= 1 && change.high >= 1) return;
  const bool grew = mean_of(b) > mean_of(a);
  std::vector<double>& larger = grew ? b : a;
  // Of two layouts one may have it, or both; runs of one layout have it all, or none.
  const std::size_t layouts = std::min(larger.size(), layouts_of(grew ? after : before));
  const double share = kStep / static_cast<double>(layouts);
  for (std::size_t i = 0; i < layouts; ++i) {
    for (double& value : larger) value -= share;
    if (!all_positive(larger)) return;
    const Difference difference = comparison.difference(a, b);
    if (difference.low > 0 || difference.high < 0) continue;
    change.low = std::min(change.low, std::exp(difference.low));
    change.high = std::max(change.high, std::exp(difference.high));
    change.p = std::max(change.p, difference.p);
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

// Of runs in step the latency is that of the turns: what the machine did to a frame it did to the one beside
// it, too.
bool compare_turns(MetricChange& change, const RunsOfModel& before, const RunsOfModel& after) {
  const auto by_turns = change_by_turns(before, after, change.confidence);
  if (!by_turns) return false;
  change.was_in_step = true;
  change.spread_was_measured = by_turns->spread_was_measured;
  change.before = by_turns->before;
  change.ratio = std::exp(by_turns->difference.estimate);
  change.after = change.before * change.ratio;
  change.low = std::exp(by_turns->difference.low);
  change.high = std::exp(by_turns->difference.high);
  change.p = by_turns->difference.p;
  change.differs = is_change(change);
  return true;
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
                                    ? welch(a, b, change.confidence)
                                    : known_error(change.change(), allowed, change.confidence);
  change.low_change = difference.low;
  change.high_change = difference.high;
  change.p = difference.p;
  change.differs = change.before != change.after && !change.is_noise() &&
                   std::abs(change.change()) >= change.metric->least;
}

}  // namespace

bool is_measured(const RunMetric& metric, const RunsOfModel& runs) {
  return !measured_by(metric, runs, kUndisturbed).empty();
}

std::vector<MetricValue> values_of_side(const RunsOfModel& runs) {
  std::vector<MetricValue> values;
  for (const RunMetric& metric : run_metrics()) {
    std::vector<double> measured = values_of(measured_by(metric, runs, kUndisturbed));
    if (measured.empty()) continue;
    const bool is_memory = metric.unit == MetricUnit::bytes;
    values.push_back({&metric, is_memory && measured.size() >= kRunsToKnowTheirSpread
                                   ? monitoring::median(measured)
                                   : mean_of(measured)});
  }
  return values;
}

double sampling_error(const RunMetric& metric, const ComparedModel& run, double undisturbed) {
  if (metric.percentile <= 0 && !metric.is_mean) return 0;
  if (run.frames.empty()) {
    const auto kept = run.sampling_errors.find(metric.name);
    return kept == run.sampling_errors.end() ? 0 : kept->second;
  }
  // So few frames say nothing of it: a frame may be the slow one.
  if (run.frames.size() < kFramesToTrust && metric.percentile != kUndisturbed) return kErrorOfFewFrames;
  std::vector<std::int64_t> times;
  for (const FrameTimes& frame : run.frames) times.push_back(frame.inference.count);
  if (metric.is_mean) return log_mean_error(times);
  return log_quantile_error(times, metric.percentile == kUndisturbed ? undisturbed : metric.percentile);
}

UndisturbedLevel undisturbed_level(const RunsOfModel& before, const RunsOfModel& after) {
  UndisturbedLevel level;
  std::size_t most = 0;
  bool all_have_frames = true;
  for (const RunsOfModel* side : {&before, &after})
    for (const ComparedModel* run : side->models) {
      all_have_frames = all_have_frames && !run->frames.empty();
      // A run of the history is kept without its frames, and knows how many they were.
      const std::size_t frames = !run->frames.empty() ? run->frames.size()
                                 : run->latency       ? static_cast<std::size_t>(run->result->frames)
                                                      : 0;
      if (frames == 0) continue;
      level.fewest = level.fewest == 0 ? frames : std::min(level.fewest, frames);
      most = std::max(most, frames);
    }
  if (level.fewest == 0) return level;
  level.percentile = std::max(kUndisturbed, 1 / (static_cast<double>(level.fewest) + 1));
  if (all_have_frames || level.percentile == kUndisturbed) return level;
  level.is_comparable = level.fewest == most;
  level.percentile = kUndisturbed;
  return level;
}

std::optional<MetricChange> change_of(const RunMetric& metric, const RunsOfModel& before,
                                      const RunsOfModel& after, std::size_t comparisons, double undisturbed) {
  const std::vector<Measured> measured_a = measured_by(metric, before, undisturbed);
  const std::vector<Measured> measured_b = measured_by(metric, after, undisturbed);
  if (measured_a.empty() || measured_b.empty()) return std::nullopt;
  const std::vector<double> a = values_of(measured_a), b = values_of(measured_b);
  MetricChange change;
  change.metric = &metric;
  change.runs_before = a.size();
  change.runs_after = b.size();
  const double alpha = std::min(a.size(), b.size()) < kRunsToKnowTheirSpread ? metric.alpha
                       : is_tail_of_few(metric, before, after)               ? 0
                                                                             : metric.alpha_of_runs;
  change.confidence = alpha > 0 ? 1 - alpha / static_cast<double>(comparisons) : kShownConfidence;
  change.is_judged = alpha > 0;
  change.has_one_layout = have_one_layout(before, after);
  if (metric.percentile == kUndisturbed && compare_turns(change, before, after)) return change;
  if (!all_positive(a) || !all_positive(b)) {
    compare_values(change, a, b);
    return change;
  }
  const LogComparison comparison(change, before, after, undisturbed);
  const Difference difference = comparison.difference(a, b);
  change.before = comparison.middle_of(a);
  change.after = comparison.middle_of(b);
  change.ratio = std::exp(difference.estimate);
  change.low = std::exp(difference.low);
  change.high = std::exp(difference.high);
  change.p = difference.p;
  widen_by_file_pages(change, comparison, measured_a, measured_b);
  const std::size_t layouts = std::min(layouts_of(before), layouts_of(after));
  if (metric.holds_file_pages && !change.has_one_layout && layouts < kRunsToKnowTheirSpread) {
    widen_by_step(change, comparison, a, b, before, after);
    // Both at once: pages of files, and what is left is a step.
    const Sides without = with_equal_file_pages(measured_a, measured_b);
    if (change.file_pages != 0 && !without.a.empty())
      widen_by_step(change, comparison, without.a, without.b, before, after);
  }
  change.differs = is_change(change);
  return change;
}

}  // namespace headroom::comparison
