#include "types/bench_result.h"

#include <algorithm>

namespace headroom {

std::optional<Bytes> limit_peak(const ModelMemory& memory, const std::optional<Limit>& limit) {
  if (!limit) return std::nullopt;
  if (limit->mechanism == LimitMechanism::cgroup_v1 || limit->mechanism == LimitMechanism::cgroup_v2)
    return memory.cgroup_peak;
  if (limit->mechanism == LimitMechanism::rlimit_data) return memory.data_peak;
  if (!memory.load_peak || !memory.run_peak) return memory.load_peak ? memory.load_peak : memory.run_peak;
  return std::max(*memory.load_peak, *memory.run_peak);
}

}  // namespace headroom
