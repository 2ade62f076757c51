#include "cli/history_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/metric_change.h"
#include "base/display_width.h"
#include "base/files.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "report/report_json.h"

namespace headroom::cli {
namespace {

using history::KeptRun;

constexpr std::string_view kSamplingError = "_error";  // behind a metric: its standard error by the frames
constexpr const char* kDisturbance = "disturbance";    // kept beside the metrics, for allowances

std::optional<double> figure_of(const KeptRun& run, const std::string& model, std::string_view metric) {
  for (const history::KeptFigure& figure : run.figures)
    if (figure.model == model && figure.metric == metric) return figure.value;
  return std::nullopt;
}

// By metric. None of a run that an earlier version kept.
std::map<std::string, double, std::less<>> sampling_errors_of(const KeptRun& run, const std::string& model) {
  std::map<std::string, double, std::less<>> errors;
  for (const history::KeptFigure& figure : run.figures)
    if (figure.model == model && figure.metric.ends_with(kSamplingError))
      errors[figure.metric.substr(0, figure.metric.size() - kSamplingError.size())] = figure.value;
  return errors;
}

std::string fingerprint_of(const KeptRun& run, const std::string& model) {
  for (const std::string_view line : split(run.fingerprints, '\n'))
    if (const std::size_t space = line.find(' ');
        space != std::string_view::npos && line.substr(space + 1) == model)
      return std::string(line.substr(0, space));
  return {};
}

}  // namespace

std::string host_of(const BenchResult& run) {
  return run.host.board.empty() ? run.host.hostname : run.host.board;
}

KeptRun kept_run(const analysis::ComparedRun& run) {
  KeptRun kept;
  BenchResult slim = *run.result;
  for (ModelResult& model : slim.models) model.memory_series.clear();  // of charts; most of its size
  kept.report = report::report_text(slim, false);
  kept.key = key_of(*run.result);
  kept.started_at = run.result->started_at;
  kept.added_at = timestamp_now();
  kept.host = host_of(*run.result);
  for (const analysis::ComparedModel& model : run.models) {
    if (!model.fingerprint.empty())
      kept.fingerprints += fmt::format("{} {}\n", model.fingerprint, model.result->name);
    // Of a model that fell they are of a part of its work, and no point of a plot.
    if (model.result->status != ModelStatus::ok) continue;
    for (const analysis::RunMetric& metric : analysis::run_metrics()) {
      if (const auto value = metric.value(model.figures()))
        kept.figures.push_back({model.result->name, std::string(metric.name), *value});
      if (const double error = analysis::sampling_error(metric, model); error > 0)
        kept.figures.push_back({model.result->name, std::string(metric.name).append(kSamplingError), error});
    }
    if (const auto disturbance = analysis::disturbance_of(model.figures()))
      kept.figures.push_back({model.result->name, kDisturbance, *disturbance});
  }
  return kept;
}

Result<LoadedSide> side_of(const std::vector<KeptRun>& runs, const std::vector<std::string>& models) {
  LoadedSide loaded;
  for (const KeptRun& run : runs) {
    const std::string name = fmt::format(
        "run {}{}", run.id, run.commit.empty() ? "" : fmt::format(" ({})", begin_of(run.commit, 10)));
    auto result = report::read_report(run.report, fmt::format("{} of the history", name));
    // It lies in the history, where nobody mends it.
    if (!result)
      return input_error(
          fmt::format("{} of the history cannot be read", name), result.error().sentence(),
          fmt::format("headroom history remove {} takes it out; add it again, if its folder is "
                      "still there",
                      run.id));
    loaded.results.push_back(std::make_unique<BenchResult>(std::move(*result)));
    const BenchResult& kept = *loaded.results.back();
    analysis::ComparedRun compared{name, &kept, {}};
    for (const ModelResult& model : kept.models)
      compared.models.push_back({&model,
                                 {},
                                 fingerprint_of(run, model.name),
                                 figure_of(run, model.name, "latency"),
                                 figure_of(run, model.name, kDisturbance),
                                 sampling_errors_of(run, model.name)});
    add_combined(loaded, compared);
    if (!models.empty())
      std::erase_if(compared.models, [&](const analysis::ComparedModel& model) {
        return std::find(models.begin(), models.end(), model.result->name) == models.end();
      });
    loaded.side.push_back(std::move(compared));
  }
  return loaded;
}

}  // namespace headroom::cli
