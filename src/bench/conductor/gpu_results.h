// Report entries about GPU memory: warnings, and the totals of models that ran at the same time.
#pragma once

#include <vector>

#include "trace/device_account.h"
#include "types/bench_result.h"

namespace headroom::bench {

// Adds warnings about a run on a GPU: memory over the limit, refused requests, missing figures, nodes that
// run on the CPU.
void add_gpu_warnings(ModelResult& result);

// For each device that the models used together: their joint peak since the account's last reset, and the sum
// of their peaks alone. No sum if a model failed alone. Logs an error if the peak exceeded the limit.
std::vector<JointGpuMemory> joint_gpu_memory(const trace::DeviceAccount& account,
                                             const std::vector<unsigned>& ordinals,
                                             const std::vector<ModelResult>& together,
                                             const std::vector<ModelResult>& alone);

}  // namespace headroom::bench
