#include "comparison/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/units.h"
#include "comparison/compared_names.h"
#include "comparison/metric_change.h"
#include "comparison/two_sample.h"
#include "monitoring/series_growth.h"

namespace headroom::comparison {
namespace {

constexpr std::size_t kFramesOfASide = 65'536;  // for the effect size: known to 0.3 % by then

struct RunOfModel {
  const ComparedRun* run = nullptr;
  const ComparedModel* model = nullptr;
};

// The models of a side by name.
struct SideByModel {
  std::vector<std::string> names;                                 // in the order in which they come first
  std::unordered_map<std::string, std::vector<RunOfModel>> runs;  // of each, in the order of the side

  const std::vector<RunOfModel>& of(const std::string& name) const {
    static const std::vector<RunOfModel> kNone;
    const auto found = runs.find(name);
    return found == runs.end() ? kNone : found->second;
  }
  bool has(const std::string& name) const { return runs.contains(name); }
};

SideByModel by_model(const Side& side) {
  SideByModel found;
  for (const ComparedRun& run : side)
    for (const ComparedModel& model : run.models) {
      std::vector<RunOfModel>& runs = found.runs[model.result->name];
      if (runs.empty()) found.names.push_back(model.result->name);
      if (runs.empty() || runs.back().run != &run) runs.push_back({&run, &model});
    }
  return found;
}

// The successful runs of a model on one side, oldest first, and the outcome of all.
struct OneSide {
  RunsOfModel runs;
  SideOutcome outcome;
};

std::string layout_of(const ComparedModel& model, const BenchResult& run) {
  const ModelResult& result = *model.result;
  if (!result.memory.fixed_addresses.value_or(false)) return {};
  return fmt::format("{} {} {} {} {} {} {} {}", result.backend, result.backend_version, model.fingerprint,
                     result.file_size.value_or(Bytes{}).count, result.settings.describe(), result.input,
                     run.host.headroom_version, run.host.hostname);
}

OneSide side_of(const SideByModel& side, const std::string& name) {
  std::vector<RunOfModel> ordered = side.of(name);
  std::ranges::stable_sort(ordered, std::less{}, [](const RunOfModel& one) {
    return parse_timestamp(one.run->result->started_at);
  });
  OneSide found;
  for (const auto& [run, model] : ordered) {
    ++found.outcome.runs;
    if (model->result->status == ModelStatus::ok) {
      found.runs.models.push_back(model);
      found.runs.started.push_back(parse_timestamp(run->result->started_at));
      found.runs.layouts.push_back(layout_of(*model, *run->result));
    } else if (++found.outcome.failed == 1) {
      found.outcome.status = model->result->status;
      found.outcome.error = model->result->error;
    }
  }
  return found;
}

std::vector<std::int64_t> frames_of(const RunsOfModel& runs, std::int64_t& count) {
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

// Those that differ, the largest change first.
std::vector<LayerChange> paired(const std::map<std::string, std::int64_t>& before,
                                const std::map<std::string, std::int64_t>& after) {
  std::map<std::string, LayerChange> rows;
  for (const auto& [name, bytes] : before) rows[name].before = Bytes{bytes};
  for (const auto& [name, bytes] : after) rows[name].after = Bytes{bytes};
  std::vector<LayerChange> changes;
  for (auto& [name, row] : rows) {
    row.name = name;
    if (row.change() != 0) changes.push_back(std::move(row));
  }
  std::ranges::stable_sort(changes, std::greater{},
                           [](const LayerChange& change) { return std::abs(change.change()); });
  return changes;
}

std::map<std::string, std::int64_t> shares_of(const LayerMemory& layers) {
  std::map<std::string, std::int64_t> bytes;
  for (const MemoryShare& share : layers.shares)
    bytes[share.kind == MemoryKind::module ? share.name : std::string(name_of(share.kind))] +=
        share.bytes.count;
  return bytes;
}

// The numbered nodes of an operator form one row.
std::string row_of(const NodeMemory& node) {
  const auto stem = stem_of_counted_name(node.name);
  if (!stem) return node.name;
  return fmt::format("{} (added by the runtime, all)",
                     node.operation.empty() ? *stem : std::string_view(node.operation));
}

std::map<std::string, std::int64_t> nodes_of(const LayerMemory& layers) {
  std::map<std::string, std::int64_t> bytes;
  for (const NodeMemory& node : layers.nodes)
    bytes[row_of(node)] += node.activations.value_or(Bytes{}).count + node.parameters.value_or(Bytes{}).count;
  return bytes;
}

// All runs of the model: facts are known of failed ones, too.
std::vector<const ComparedModel*> all_of(const SideByModel& side, const std::string& name) {
  std::vector<const ComparedModel*> models;
  for (const RunOfModel& run : side.of(name)) models.push_back(run.model);
  return models;
}

// For each name, the median of the runs with --layers.
using BytesByName = std::map<std::string, std::int64_t>;
std::optional<BytesByName> median_of(const RunsOfModel& runs, BytesByName (*bytes_of)(const LayerMemory&)) {
  std::map<std::string, std::vector<double>> values;
  std::size_t with_layers = 0;
  for (const ComparedModel* run : runs.models) {
    if (!run->result->layers) continue;
    ++with_layers;
    for (const auto& [name, bytes] : bytes_of(*run->result->layers))
      values[name].push_back(static_cast<double>(bytes));
  }
  if (with_layers == 0) return std::nullopt;
  BytesByName medians;
  for (auto& [name, bytes] : values) {
    bytes.resize(with_layers, 0);  // not there
    if (const double middle = monitoring::median(bytes); middle != 0) medians[name] = std::llround(middle);
  }
  return medians;
}

void compare_layers(ModelComparison& model, const RunsOfModel& before, const RunsOfModel& after) {
  for (const auto& [changes, bytes_of] :
       {std::pair{&model.shares, &shares_of}, std::pair{&model.nodes, &nodes_of}}) {
    const auto a = median_of(before, bytes_of), b = median_of(after, bytes_of);
    if (a && b) *changes = paired(*a, *b);
  }
}

// Why latency does not affect the verdict although there are enough runs.
std::string latency_caveat(const ModelComparison& model, const RunsOfModel& before,
                           const RunsOfModel& after) {
  const MetricChange* latency = model.find("latency");
  if (latency != nullptr && latency->is_separable && !is_same_percentile(*latency->metric, before, after))
    return fmt::format(
        "latency of {} does not affect the verdict: its runs have different numbers of frames; measure "
        "{:.0f} or more",
        model.name, 1 / kUndisturbed);
  if (latency == nullptr && model.find("p50") != nullptr)
    return fmt::format(
        "latency of {} does not affect the verdict: {} has no frames/ folder, because the run is of an older "
        "version or its report.json was moved",
        model.name, model.frames_before == 0 ? "A" : "B");
  return {};
}

// Why a larger figure of memory is not a change.
std::string no_change_words(const ModelComparison& model, const MetricChange& change) {
  const auto moved = [](double bytes) {
    return (bytes > 0 ? "+" : "") + format_bytes({std::llround(bytes)});
  };
  const std::string differs =
      fmt::format("{} of {} differs by {}", change.metric->name, model.name, moved(change.change()));
  if (change.is_of_step)
    return differs +
           ", which does not count as a change: heaps make such steps at some addresses; to find out, make "
           "three or more runs per side with 'headroom bench --aslr'";
  return fmt::format(
      "{}, and its file pages by {}, which does not count as a change: the page cache decides how many pages "
      "of a library are mapped",
      differs, moved(change.file_pages));
}

struct Named {
  std::string before, after;  // the model's name in A and in B
};

ModelComparison compare_model(const Named& name, const SideByModel& side_a, const SideByModel& side_b,
                              std::size_t comparisons, std::vector<std::string>& caveats) {
  const OneSide before = side_of(side_a, name.before), after = side_of(side_b, name.after);
  ModelComparison model;
  model.name = name.before;
  model.outcome_before = before.outcome;
  model.outcome_after = after.outcome;
  model.facts = model_facts(all_of(side_a, name.before), all_of(side_b, name.after));
  model.name_after = name.after;
  if (name.before != name.after)
    caveats.push_back(fmt::format(
        "{} of A is named {} in B; each side has one model, so they are compared as the same model",
        name.before, name.after));
  if (model.outcome_before.never_came_through()) model.values_after = values_of_side(after.runs);
  if (model.has_no_figures()) return model;
  for (const RunMetric& metric : run_metrics()) {
    auto change = change_of(metric, before.runs, after.runs, comparisons);
    if (change)
      model.metrics.push_back(*change);
    else if (is_measured(metric, before.runs) != is_measured(metric, after.runs))
      model.one_sided.push_back(&metric);
  }
  for (const MetricChange& change : model.metrics)
    if (change.is_judged && (change.is_of_file_pages || change.is_of_step))
      caveats.push_back(no_change_words(model, change));
  const auto a = frames_of(before.runs, model.frames_before), b = frames_of(after.runs, model.frames_after);
  model.superiority = superiority(a, b);
  compare_layers(model, before.runs, after.runs);
  if (std::string caveat = latency_caveat(model, before.runs, after.runs); !caveat.empty())
    caveats.push_back(std::move(caveat));
  return model;
}

// Whether the runs of a side differ in their setup: then their spread means nothing.
bool add_mixture(const Side& side, const SideByModel& models, std::string_view which,
                 std::vector<std::string>& caveats) {
  const std::size_t known = caveats.size();
  for (const std::string& words : mixed_run_facts(side))
    caveats.push_back(fmt::format("the runs of {} differ in their setup: {}", which, words));
  for (const std::string& name : models.names)
    for (const std::string& words : mixed_model_facts(all_of(models, name)))
      caveats.push_back(fmt::format("the runs of {} differ in their setup: {}: {}", which, name, words));
  const bool is_mixed = caveats.size() > known;
  for (const ComparedRun& run : side)
    if (!run.result->complete)
      caveats.push_back(fmt::format("{} ({}) is incomplete: it was interrupted", run.name, which));
  return is_mixed;
}

}  // namespace

const MetricChange* ModelComparison::find(std::string_view metric) const {
  const auto found = std::ranges::find_if(
      metrics, [&](const MetricChange& change) { return change.metric->name == metric; });
  return found == metrics.end() ? nullptr : &*found;
}

std::string words_for_runs(const MetricChange& change) {
  if (change.runs_before != change.runs_after)
    return fmt::format("with {} and {} runs", change.runs_before, change.runs_after);
  return change.runs_before == 1 ? "with one run each" : fmt::format("with {} runs each", change.runs_before);
}

RunComparison compare_runs(const Side& before, const Side& after, std::size_t comparisons) {
  RunComparison comparison;
  const SideByModel a = by_model(before), b = by_model(after);
  std::vector<Named> both;
  if (a.names.size() == 1 && b.names.size() == 1) {
    both.push_back({a.names.front(), b.names.front()});
  } else {
    for (const std::string& name : a.names)
      if (b.has(name))
        both.push_back({name, name});
      else
        comparison.only_before.push_back({name, side_of(a, name).outcome});
    for (const std::string& name : b.names)
      if (!a.has(name)) {
        const OneSide side = side_of(b, name);
        comparison.only_after.push_back({name, side.outcome, values_of_side(side.runs)});
      }
  }
  for (const auto& [side, models, which] : {std::tuple(&before, &a, "A"), std::tuple(&after, &b, "B")})
    if (add_mixture(*side, *models, which, comparison.caveats)) comparison.has_mixed_side = true;
  for (const Named& name : both)
    comparison.models.push_back(compare_model(name, a, b, comparisons * both.size(), comparison.caveats));
  comparison.facts = run_facts(before, after);
  return comparison;
}

}  // namespace headroom::comparison
