#include "analysis/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/robust_statistics.h"
#include "analysis/run_facts.h"
#include "analysis/two_sample.h"

namespace headroom::analysis {
namespace {

constexpr double kShownConfidence = 0.99;       // of metrics that change no verdict
constexpr std::size_t kFramesOfASide = 65'536;  // for the effect size: known to 0.3 % by then

constexpr std::size_t kPairsToTrust = 4;

// One model on one side: its figures in each of the runs, in the order in which they were made.
struct Runs {
  std::vector<const ComparedModel*> models;
  std::vector<std::string> started_at;
};

const ComparedModel* find_model(const ComparedRun& run, const std::string& name) {
  const auto found = std::find_if(run.models.begin(), run.models.end(),
                                  [&](const ComparedModel& model) { return model.result->name == name; });
  return found == run.models.end() ? nullptr : &*found;
}

Runs runs_of(const Side& side, const std::string& name) {
  std::vector<const ComparedRun*> ordered;
  for (const ComparedRun& run : side) ordered.push_back(&run);
  std::stable_sort(ordered.begin(), ordered.end(), [](const ComparedRun* a, const ComparedRun* b) {
    return a->result->started_at < b->result->started_at;
  });
  Runs runs;
  for (const ComparedRun* run : ordered)
    if (const ComparedModel* model = find_model(*run, name)) {
      runs.models.push_back(model);
      runs.started_at.push_back(run->result->started_at);
    }
  return runs;
}

// A and B one after the other, again and again: then what both of a turn have in common, such as the clock
// of a machine that is shared, cancels out.
bool in_turns(const Runs& a, const Runs& b) {
  if (a.models.size() != b.models.size() || a.models.size() < kPairsToTrust) return false;
  for (std::size_t i = 0; i < a.models.size(); ++i) {
    if (a.started_at[i] == b.started_at[i]) return false;
    if (i > 0 &&
        std::max(a.started_at[i - 1], b.started_at[i - 1]) >= std::min(a.started_at[i], b.started_at[i]))
      return false;
  }
  return true;
}

std::vector<double> values_of(const RunMetric& metric, const Runs& runs) {
  std::vector<double> values;
  for (const ComparedModel* run : runs.models)
    if (const auto value = metric.value(run->figures())) values.push_back(*value);
  return values;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Of one run of the metric, as a share of its value: what is allowed for from run to run, and the sampling
// error of its percentile and how disturbed it was.
double allowed_error(const RunMetric& metric, const Runs& runs, double value) {
  double squares = 0;
  std::size_t sampled = 0;
  for (const ComparedModel* run : runs.models) {
    std::vector<std::int64_t> times;
    for (const FrameTimes& frame : run->frames) times.push_back(frame.inference.count);
    const double sampling = metric.percentile > 0 ? log_quantile_error(times, metric.percentile) : 0;
    const double disturbed = metric.disturbance * disturbance_of(run->figures()).value_or(0);
    squares += sampling * sampling + disturbed * disturbed;
    ++sampled;
  }
  const double sampling = sampled == 0 ? 0 : squares / static_cast<double>(sampled);
  const double absolute = value > 0 ? metric.run_to_run / value : 0;
  return std::sqrt(metric.run_to_run_share * metric.run_to_run_share + absolute * absolute + sampling);
}

// Half of what the bare runtimes of the sides differ by, beyond half a MiB. It is there before the model is
// loaded, so where the runtime is the same it is chance: one run in fifteen had 2 MiB more there, by its size
// a huge page, and then 1.2 MiB more in all that follows (bench/results/diff_power.md).
double chance_of_runtime(const Runs& before, const Runs& after) {
  constexpr double kUsual = 512 << 10;
  const auto middle = [](const Runs& runs) {
    std::vector<double> values;
    for (const ComparedModel* run : runs.models)
      if (run->result->memory.runtime)
        values.push_back(static_cast<double>(run->result->memory.runtime->count));
    return median(values);
  };
  if (before.models.front()->result->backend_version != after.models.front()->result->backend_version)
    return 0;
  const double a = middle(before), b = middle(after);
  return a > 0 && b > 0 ? std::max(0.0, std::abs(b - a) - kUsual) / 2 : 0;
}

bool metric_is_memory(const MetricChange& change) { return change.metric->unit == MetricUnit::bytes; }

// The middle of several runs: of memory the median, since one run in twenty has a megabyte more of a
// library's file mapped than all others; else the geometric mean.
double middle_of(const MetricChange& change, const std::vector<double>& values) {
  if (std::all_of(values.begin(), values.end(), [&](double value) { return value == values.front(); }))
    return values.front();  // to the last digit
  if (metric_is_memory(change) && values.size() >= kRunsToKnowTheirSpread) {
    std::vector<double> copy = values;
    return median(copy);
  }
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

// Compares logarithms, so that the change is a ratio and twice as slow is as far as twice as fast.
void compare_logs(MetricChange& change, const std::vector<double>& a, const std::vector<double>& b,
                  const Runs& before, const Runs& after) {
  std::vector<double> logs_a, logs_b;
  for (const double value : a) logs_a.push_back(std::log(value));
  for (const double value : b) logs_b.push_back(std::log(value));
  change.before = middle_of(change, a);
  change.after = middle_of(change, b);
  change.spread_was_measured = a.size() >= kRunsToKnowTheirSpread && b.size() >= kRunsToKnowTheirSpread;
  const double of_a = allowed_error(*change.metric, before, change.before);
  const double of_b = allowed_error(*change.metric, after, change.after);
  const auto runs_a = static_cast<double>(a.size()), runs_b = static_cast<double>(b.size());
  Difference difference;
  if (!change.spread_was_measured) {
    const double chance = metric_is_memory(change)
                              ? chance_of_runtime(before, after) / std::max(change.before, change.after)
                              : 0;
    difference = known_error(mean_of(logs_b) - mean_of(logs_a),
                             std::sqrt(of_a * of_a / runs_a + of_b * of_b / runs_b + chance * chance),
                             change.confidence);
  } else if (metric_is_memory(change)) {
    difference = between_medians(logs_a, logs_b, std::max(of_a, of_b), change.confidence);
  } else if (a.size() == before.models.size() && b.size() == after.models.size() && in_turns(before, after)) {
    change.was_paired = true;
    difference = paired(logs_a, logs_b, change.confidence);
  } else {
    difference = welch(logs_a, logs_b, change.confidence);
  }
  change.ratio = std::exp(difference.estimate);
  change.low = std::exp(difference.low);
  change.high = std::exp(difference.high);
  change.p = difference.p;
}

std::optional<MetricChange> change_of(const RunMetric& metric, const Runs& before, const Runs& after) {
  const std::vector<double> a = values_of(metric, before), b = values_of(metric, after);
  if (a.empty() || b.empty()) return std::nullopt;
  MetricChange change;
  change.metric = &metric;
  change.runs_before = a.size();
  change.runs_after = b.size();
  change.confidence = metric.alpha > 0 ? 1 - metric.alpha : kShownConfidence;
  const auto is_positive = [](double value) { return value > 0 && std::isfinite(value); };
  if (std::all_of(a.begin(), a.end(), is_positive) && std::all_of(b.begin(), b.end(), is_positive)) {
    compare_logs(change, a, b, before, after);
    const bool is_certain = change.low > 1 || change.high < 1;
    change.differs = is_certain && change.before != change.after &&
                     std::abs(change.ratio - 1) >= metric.least_share &&
                     std::abs(change.change()) >= metric.least;
    return change;
  }
  // A figure that may be zero, such as detections or what a footprint has over the runtime, has no ratio.
  change.before = mean_of(a);
  change.after = mean_of(b);
  if (change.before != 0) change.ratio = change.low = change.high = change.after / change.before;
  change.differs = std::abs(change.change()) > std::max(metric.least, 3 * metric.run_to_run);
  return change;
}

std::vector<std::int64_t> frames_of(const Runs& runs, std::int64_t& count) {
  std::size_t all = 0;
  for (const ComparedModel* run : runs.models) all += run->frames.size();
  count = static_cast<std::int64_t>(all);
  const std::size_t step = all / kFramesOfASide + 1;
  std::vector<std::int64_t> times;
  std::size_t i = 0;
  for (const ComparedModel* run : runs.models)
    for (const FrameTimes& frame : run->frames)
      if (i++ % step == 0) times.push_back(frame.inference.count);
  return times;
}

ModelStatus worst_status(const Runs& runs, std::string* error = nullptr) {
  for (const ComparedModel* run : runs.models) {
    if (run->result->status == ModelStatus::ok) continue;
    if (error != nullptr) *error = run->result->error;
    return run->result->status;
  }
  return ModelStatus::ok;
}

void sort_by_change(std::vector<LayerChange>& changes) {
  std::erase_if(changes, [](const LayerChange& change) { return change.change() == 0; });
  std::stable_sort(changes.begin(), changes.end(), [](const LayerChange& a, const LayerChange& b) {
    return std::abs(a.change()) > std::abs(b.change());
  });
}

std::vector<LayerChange> paired(const std::map<std::string, std::int64_t>& before,
                                const std::map<std::string, std::int64_t>& after) {
  std::vector<LayerChange> changes;
  for (const auto& [name, bytes] : before) {
    const auto same = after.find(name);
    changes.push_back(
        {name, Bytes{bytes}, same == after.end() ? std::nullopt : std::optional(Bytes{same->second})});
  }
  for (const auto& [name, bytes] : after)
    if (!before.contains(name)) changes.push_back({name, std::nullopt, Bytes{bytes}});
  sort_by_change(changes);
  return changes;
}

std::map<std::string, std::int64_t> shares_of(const LayerMemory& layers) {
  std::map<std::string, std::int64_t> bytes;
  for (const MemoryShare& share : layers.shares)
    bytes[share.kind == MemoryKind::module ? share.name : std::string(name_of(share.kind))] +=
        share.bytes.count;
  return bytes;
}

std::map<std::string, std::int64_t> nodes_of(const LayerMemory& layers) {
  std::map<std::string, std::int64_t> bytes;
  for (const NodeMemory& node : layers.nodes)
    bytes[node.name] += node.activations.value_or(Bytes{}).count + node.parameters.value_or(Bytes{}).count;
  return bytes;
}

ModelComparison compare_model(const std::string& name, const Runs& before, const Runs& after) {
  ModelComparison model;
  model.name = name;
  for (const RunMetric& metric : run_metrics())
    if (auto change = change_of(metric, before, after)) model.metrics.push_back(*change);
  const auto a = frames_of(before, model.frames_before), b = frames_of(after, model.frames_after);
  model.superiority = superiority(a, b);
  model.status_before = worst_status(before);
  model.status_after = worst_status(after, &model.error_after);
  model.facts = model_facts(*before.models.front(), *after.models.front());
  const auto &layers_a = before.models.front()->result->layers,
             &layers_b = after.models.front()->result->layers;
  if (layers_a && layers_b) {
    model.shares = paired(shares_of(*layers_a), shares_of(*layers_b));
    model.nodes = paired(nodes_of(*layers_a), nodes_of(*layers_b));
  }
  return model;
}

std::vector<std::string> names_of(const Side& side) {
  std::vector<std::string> names;
  for (const ComparedRun& run : side)
    for (const ComparedModel& model : run.models)
      if (std::find(names.begin(), names.end(), model.result->name) == names.end())
        names.push_back(model.result->name);
  return names;
}

// Runs that lie on one side must be of one thing, or their spread says nothing.
void add_mixture(const Side& side, std::string_view which, std::vector<std::string>& caveats) {
  for (const ComparedRun& run : side) {
    for (const ComparedModel& model : run.models) {
      const ComparedModel* first = find_model(side.front(), model.result->name);
      if (first == nullptr || first == &model) continue;
      const auto facts = model_facts(*first, model);
      if (facts.empty()) continue;
      caveats.push_back(fmt::format("the runs of {} are not of one thing: {} of {} is {} in one and {} in {}",
                                    which, facts.front().what, model.result->name, facts.front().before,
                                    facts.front().after, run.name));
      return;
    }
    if (!run.result->complete)
      caveats.push_back(fmt::format("{} ({}) is incomplete: it was interrupted", run.name, which));
  }
}

}  // namespace

const MetricChange* ModelComparison::find(std::string_view metric) const {
  const auto found = std::find_if(metrics.begin(), metrics.end(),
                                  [&](const MetricChange& change) { return change.metric->name == metric; });
  return found == metrics.end() ? nullptr : &*found;
}

RunComparison compare_runs(const Side& before, const Side& after) {
  RunComparison comparison;
  const std::vector<std::string> a = names_of(before), b = names_of(after);
  const bool one_each = a.size() == 1 && b.size() == 1;
  for (const std::string& name : a) {
    const std::string& other = one_each ? b.front() : name;
    if (std::find(b.begin(), b.end(), other) == b.end()) {
      comparison.only_before.push_back(name);
      continue;
    }
    comparison.models.push_back(compare_model(name, runs_of(before, name), runs_of(after, other)));
    if (name != other)
      comparison.models.back().facts.insert(comparison.models.back().facts.begin(), {"name", name, other});
  }
  for (const std::string& name : b)
    if (!one_each && std::find(a.begin(), a.end(), name) == a.end()) comparison.only_after.push_back(name);
  comparison.facts = run_facts(before.front(), after.front());
  add_mixture(before, "A", comparison.caveats);
  add_mixture(after, "B", comparison.caveats);
  for (const ModelComparison& model : comparison.models)
    if (model.find("p50") != nullptr && model.find("latency") == nullptr)
      comparison.caveats.push_back(fmt::format(
          "{} has no frames/ in {}, so its latency changes no verdict: the run was made by an earlier "
          "version, or its report.json was moved",
          model.name, model.frames_before == 0 ? "A" : "B"));
  return comparison;
}

}  // namespace headroom::analysis
