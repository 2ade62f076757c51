// `headroom diff RUN RUN --json`; docs/diff.md names the keys.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "report/comparison/diff_words.h"
#include "report/comparison/run_diff.h"

namespace headroom::report {
namespace {

using namespace comparison;

std::string with_unit(std::string key, MetricUnit unit) {
  switch (unit) {
    case MetricUnit::bytes:
      return key + "_bytes";
    case MetricUnit::nanoseconds:
      return key + "_ns";
    case MetricUnit::per_second:
      return key + "_per_second";
    case MetricUnit::count:
      break;
  }
  return key;
}

Json number(const RunMetric& metric, double value) {
  if (metric.unit == MetricUnit::bytes || metric.unit == MetricUnit::nanoseconds) return std::llround(value);
  return value;
}

Json metric_json(const MetricChange& change) {
  const RunMetric& metric = *change.metric;
  Json json;
  json["name"] = metric.name;
  json[with_unit("before", metric.unit)] = number(metric, change.before);
  json[with_unit("after", metric.unit)] = number(metric, change.after);
  json[with_unit("change", metric.unit)] = number(metric, change.change());
  if (change.has_ratio) json["change_percent"] = 100 * (change.ratio - 1);
  if (change.has_ratio && change.is_separable) {
    json["change_low_percent"] = 100 * (change.low - 1);
    json["change_high_percent"] = 100 * (change.high - 1);
  } else if (!change.has_ratio) {
    json[with_unit("change_low", metric.unit)] = number(metric, change.low_change);
    json[with_unit("change_high", metric.unit)] = number(metric, change.high_change);
  }
  if (change.is_separable) {
    json["confidence"] = change.confidence;
    json["p"] = change.p;
  }
  json["spread"] = !change.is_separable         ? "none"
                   : change.was_in_step         ? "in_step"
                   : change.was_paired          ? "paired"
                   : change.spread_was_measured ? "measured"
                                                : "allowed";
  json["runs_before"] = change.runs_before;
  json["runs_after"] = change.runs_after;
  json["judged"] = change.is_judged;
  json["differs"] = change.differs;
  if (change.differs && !is_of_page_cache(change)) json["worse"] = change.is_worse();
  if (change.is_of_step) json["may_be_heap_step"] = true;
  if (change.is_of_file_pages) json["file_pages_change_bytes"] = std::llround(change.file_pages);
  return json;
}

// For models without a counterpart in A.
Json values_json(const std::vector<MetricValue>& values) {
  Json json = Json::array();
  for (const MetricValue& known : values)
    json.push_back({{"name", known.metric->name},
                    {with_unit("after", known.metric->unit), number(*known.metric, known.value)}});
  return json;
}

Json facts_json(const std::vector<FactChange>& facts) {
  Json json = Json::array();
  for (const FactChange& fact : facts)
    json.push_back({{"what", fact.what}, {"before", fact.before}, {"after", fact.after}});
  return json;
}

Json layer_changes_json(const std::vector<LayerChange>& changes) {
  Json json = Json::array();
  for (const LayerChange& change : changes) {
    Json row;
    row["name"] = change.name;
    set_if(row, "before_bytes", change.before);
    set_if(row, "after_bytes", change.after);
    row["change_bytes"] = change.change();
    json.push_back(std::move(row));
  }
  return json;
}

Json model_json(const ModelComparison& model) {
  Json json;
  json["name"] = model.name;
  if (model.name_after != model.name) json["name_after"] = model.name_after;
  for (const auto& [side, outcome] :
       {std::pair{"before", &model.outcome_before}, std::pair{"after", &model.outcome_after}}) {
    json[fmt::format("status_{}", side)] = name_of(outcome->status);
    json[fmt::format("runs_{}", side)] = outcome->runs;
    json[fmt::format("failed_{}", side)] = outcome->failed;
    if (!outcome->error.empty()) json[fmt::format("error_{}", side)] = outcome->error;
  }
  json["metrics"] = Json::array();
  for (const MetricChange& change : model.metrics) json["metrics"].push_back(metric_json(change));
  json["frames_before"] = model.frames_before;
  json["frames_after"] = model.frames_after;
  set_if(json, "latency_superiority", model.superiority);
  if (!model.values_after.empty()) json["values_after"] = values_json(model.values_after);
  json["facts"] = facts_json(model.facts);
  json["memory_kinds"] = layer_changes_json(model.shares);
  json["memory_nodes"] = layer_changes_json(model.nodes);
  return json;
}

}  // namespace

Json run_diff_to_json(const RunDiffReport& report) {
  const RunComparison& comparison = report.comparison;
  const RunDiffVerdict verdict = verdict_of(report);
  Json json;
  json["schema_version"] = kRunDiffSchemaVersion;
  json["kind"] = "runs";
  json["verdict"] = verdict.sentence;
  json["outcome"] = look_of(verdict.tone).name;
  json["cause"] = verdict.cause;
  json["before"] = report.before;
  json["after"] = report.after;
  json["models"] = Json::array();
  for (const ModelComparison& model : comparison.models) json["models"].push_back(model_json(model));
  json["only_before"] = Json::array();
  for (const GoneModel& model : comparison.only_before) json["only_before"].push_back(model.name);
  json["only_after"] = Json::array();
  for (const NewModel& model : comparison.only_after) json["only_after"].push_back(model.name);
  json["new_models"] = Json::array();
  for (const NewModel& model : comparison.only_after)
    json["new_models"].push_back({{"name", model.name},
                                  {"runs_after", model.outcome.runs},
                                  {"failed_after", model.outcome.failed},
                                  {"values_after", values_json(model.values)}});
  json["facts"] = facts_json(comparison.facts);
  json["caveats"] = notes_of(comparison);
  set_gate(json, report.gate, report.not_judged);
  return json;
}

}  // namespace headroom::report
