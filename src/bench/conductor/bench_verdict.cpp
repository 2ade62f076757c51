#include "bench/conductor/bench_verdict.h"

#include <algorithm>

namespace headroom::bench {

bool any_model_failed(const BenchResult& result) {
  const auto failed = [](const ModelResult& model) {
    return model.status != ModelStatus::ok && model.status != ModelStatus::skipped;
  };
  if (std::any_of(result.models.begin(), result.models.end(), failed)) return true;
  if (result.parallel &&
      std::any_of(result.parallel->together.begin(), result.parallel->together.end(), failed))
    return true;
  return (result.pipeline && result.pipeline->status != ModelStatus::ok) ||
         (result.pool && result.pool->status != ModelStatus::ok);
}

bool limit_violated(const BenchResult& result) {
  const auto gpu_over = [](const std::vector<GpuMemory>& gpus) {
    return std::any_of(gpus.begin(), gpus.end(),
                       [](const GpuMemory& gpu) { return gpu.within_limit == false; });
  };
  const auto over = [&](const ModelResult& model) {
    return model.memory.within_limit == false || gpu_over(model.gpu_memory);
  };
  return std::any_of(result.models.begin(), result.models.end(), over) ||
         (result.parallel &&
          (result.parallel->within_limit == false ||
           std::any_of(result.parallel->gpu_memory.begin(), result.parallel->gpu_memory.end(),
                       [](const JointGpuMemory& gpu) { return gpu.is_over_limit(); }))) ||
         (result.pipeline &&
          (result.pipeline->memory.within_limit == false || gpu_over(result.pipeline->gpu_memory))) ||
         (result.pool && (result.pool->memory.within_limit == false || gpu_over(result.pool->gpu_memory)));
}

}  // namespace headroom::bench
