#include "types/bench_result.h"

#include <algorithm>
#include <array>

namespace headroom {
namespace {

constexpr std::array<std::string_view, 6> kStatusNames{"ok",      "oom",    "crashed",
                                                       "timeout", "failed", "skipped"};
constexpr std::array<std::string_view, 6> kPhaseNames{"start", "runtime_loaded", "model_loaded",
                                                      "warm",  "running",        "unloaded"};

template <class Enum, std::size_t N>
std::optional<Enum> parse_enum(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i)
    if (names.at(i) == name) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace

std::string_view name_of(ModelStatus status) { return kStatusNames.at(static_cast<std::size_t>(status)); }
std::string_view name_of(Phase phase) { return kPhaseNames.at(static_cast<std::size_t>(phase)); }
std::optional<ModelStatus> parse_model_status(std::string_view name) {
  return parse_enum<ModelStatus>(kStatusNames, name);
}
std::optional<Phase> parse_phase(std::string_view name) { return parse_enum<Phase>(kPhaseNames, name); }

std::optional<Bytes> limit_peak(const ModelMemory& memory, const std::optional<Limit>& limit) {
  if (!limit) return std::nullopt;
  if (limit->mechanism == LimitMechanism::cgroup_v1 || limit->mechanism == LimitMechanism::cgroup_v2)
    return memory.cgroup_peak;
  if (limit->mechanism == LimitMechanism::rlimit_data) return memory.data_peak;
  if (!memory.load_peak || !memory.run_peak) return memory.load_peak ? memory.load_peak : memory.run_peak;
  return std::max(*memory.load_peak, *memory.run_peak);
}

}  // namespace headroom
