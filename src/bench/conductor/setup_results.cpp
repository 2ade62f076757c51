#include "bench/conductor/setup_results.h"

#include "report/run/outcome.h"

namespace headroom::bench {

std::vector<ModelResult> models_not_reached(const BenchOptions& options) {
  std::vector<ModelResult> results;
  for (const ModelSpec& spec : options.models) {
    ModelResult& result = results.emplace_back();
    result.name = spec.name;
    result.path = spec.path;
    result.error = report::kNotReached;
  }
  return results;
}

ModelResult result_of_setup(const PreparedModel& model) {
  ModelResult result = model.trial.value_or(ModelResult{});
  result.name = model.name;
  result.path = model.path;
  result.backend = model.backend;
  result.backend_version = model.backend_version;
  result.task = model.task;
  result.input = model.input;
  result.file_size = model.file_size;
  result.status = model.status;
  result.error = model.error;
  result.settings = model.settings;
  result.trials = model.trials;
  result.smallest_settings = model.smallest_settings;
  if (!model.passed_over.empty()) result.warnings.push_back(model.passed_over);
  return result;
}

ModelResult not_yet_measured(const PreparedModel& model) {
  ModelResult result = result_of_setup(model);
  if (result.status != ModelStatus::ok) return result;
  result.status = ModelStatus::skipped;
  result.error = report::kNotReached;
  result.memory = {};  // the warm-up's memory is not a result of the run
  result.gpu_memory.clear();
  return result;
}

}  // namespace headroom::bench
