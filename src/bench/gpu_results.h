// What runs on GPUs come to in a report.
#pragma once

#include <vector>

#include "model/bench_result.h"
#include "trace/device_account.h"

namespace headroom::bench {

// What a person should know of a run on a GPU: more than the limit at a moment, requests that were refused,
// figures that are missing, nodes that stayed on the CPU.
void add_gpu_warnings(ModelResult& result);

// Of each device that the models used together: what all had at once since the account's last reset, and what
// they had alone. No sum where one of them did not come through alone. Says so where the peak passed the
// limit.
std::vector<JointGpuMemory> joint_gpu_memory(const trace::DeviceAccount& account,
                                             const std::vector<unsigned>& ordinals,
                                             const std::vector<ModelResult>& together,
                                             const std::vector<ModelResult>& alone);

}  // namespace headroom::bench
