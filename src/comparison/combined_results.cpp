#include "comparison/combined_results.h"

#include <algorithm>

namespace headroom::comparison {
namespace {

ModelResult named(std::string name) {
  ModelResult result;
  result.name = std::move(name);
  result.status = ModelStatus::ok;
  return result;
}

std::optional<double> per_second(const std::optional<LatencySummary>& latency) {
  if (!latency || latency->mean_ns <= 0) return std::nullopt;
  return 1e9 / latency->mean_ns;
}

// Of one model in company: what it took, and no memory, which all have in common.
ModelResult in_company(std::string name, const std::optional<LatencySummary>& inference,
                       const std::optional<Nanoseconds>& load) {
  ModelResult result = named(std::move(name));
  result.inference = inference;
  result.fps = per_second(inference);
  result.model_load_time = load;
  return result;
}

void add_pipeline(const PipelineResult& pipeline, std::vector<ModelResult>& results) {
  ModelResult all = named("(pipeline)");
  all.status = pipeline.status;
  all.error = pipeline.error;
  all.inference = pipeline.frame;
  all.fps = pipeline.fps;
  all.memory = pipeline.memory;
  all.memory.runtime = pipeline.runtime;
  all.memory.loaded = pipeline.loaded;
  if (!all.memory.run_peak) all.memory.run_peak = pipeline.peak;
  all.gpu_memory = pipeline.gpu_memory;
  all.frames = pipeline.frames;
  results.push_back(std::move(all));
  if (pipeline.status != ModelStatus::ok) return;  // told once
  for (const PipelineModel& model : pipeline.models)
    results.push_back(in_company(model.name + " (in pipeline)", model.inference, model.load_time));
}

void add_parallel(const ParallelResult& parallel, std::vector<ModelResult>& results) {
  ModelResult all = named("(parallel)");
  all.memory.run_peak = parallel.joint_peak;
  for (const ModelResult& model : parallel.together) {
    ModelResult one = model;
    one.name += " (in parallel)";
    one.memory_series.clear();
    if (one.status != ModelStatus::ok && all.status == ModelStatus::ok) {
      all.status = one.status;
      all.error = one.error;
    }
    results.push_back(std::move(one));
  }
  results.push_back(std::move(all));
}

void add_pool(const PoolResult& pool, std::vector<ModelResult>& results) {
  ModelResult all = named("(pool)");
  all.status = pool.status;
  all.error = pool.error;
  all.inference = pool.frame;
  all.fps = pool.fps;
  all.model_load_time = pool.load_time;
  all.memory = pool.memory;
  all.gpu_memory = pool.gpu_memory;
  all.frames = pool.frames;
  results.push_back(std::move(all));
  if (pool.status != ModelStatus::ok) return;
  for (const PooledModel& model : pool.models)
    results.push_back(
        in_company(model.name + " (in pool)", model.inference,
                   model.load ? std::optional(Nanoseconds{static_cast<std::int64_t>(model.load->mean_ns)})
                              : std::nullopt));
}

}  // namespace

std::vector<ModelResult> combined_results(const BenchResult& run) {
  std::vector<ModelResult> results;
  if (run.pipeline) add_pipeline(*run.pipeline, results);
  if (run.parallel) add_parallel(*run.parallel, results);
  if (run.pool) add_pool(*run.pool, results);
  std::erase_if(results, [&](const ModelResult& result) {
    return std::any_of(run.models.begin(), run.models.end(),
                       [&](const ModelResult& model) { return model.name == result.name; });
  });
  return results;
}

}  // namespace headroom::comparison
