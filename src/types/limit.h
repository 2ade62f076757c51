// A memory limit, the mechanism that enforces it, and the probe's result in this run. Plain data.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "types/enum_names.h"

namespace headroom {

// What the probe proved on this machine in this run. The type describes the proof, not the intention.
enum class LimitType {
  hard,         // every allocation route was refused or killed
  soft,         // only a watchdog or an allocator cap enforces it, or a route exceeded the limit
  unavailable,  // nothing enforces it; memory is only monitored
};

enum class LimitMechanism { none, cgroup_v2, cgroup_v1, rlimit_data, watchdog, device_ledger };

// On an integrated GPU (Jetson, Thor, GB10) CUDA memory is the machine's memory, and the kernel may not
// charge it to a control group. A limit on the machine's memory is then called soft, for this reason.
inline constexpr std::string_view kCudaNotProved = "CUDA memory is not proved to be charged on this device";
inline constexpr std::string_view kCudaRoute = "cuda";  // the name of this route in the probe's table

constexpr std::string_view name_of(LimitType type) { return name_in({"hard", "soft", "unavailable"}, type); }
constexpr std::string_view name_of(LimitMechanism mechanism) {
  return name_in({"none", "cgroup_v2", "cgroup_v1", "rlimit_data", "watchdog", "device_ledger"}, mechanism);
}

// A route that the probe tried ("malloc", "mmap_private", "mmap_shared", "memfd").
struct LimitRoute {
  std::string name;
  std::string outcome;  // "refused", "killed", "escaped", "not_tried"
  std::string detail;   // "ENOMEM after 60.0 MiB"; may be empty
  friend bool operator==(const LimitRoute&, const LimitRoute&) = default;
};

// The probe sets the user's limit, but at most this one, and each route tries to allocate twice as much. This
// is large enough for a process with its libraries. It is small enough to be quick: at most 32,768 pages per
// route.
inline constexpr Bytes kLargestProbe = mebibytes(64);

struct Limit {
  Bytes bytes;
  LimitType type = LimitType::unavailable;
  LimitMechanism mechanism = LimitMechanism::none;
  std::vector<LimitRoute> routes;
  std::string note;  // why a stronger mechanism was not used; may be empty
  friend bool operator==(const Limit&, const Limit&) = default;
};

inline bool has_unproved_cuda(const Limit& limit) {
  return std::ranges::find(limit.routes, kCudaRoute, &LimitRoute::name) != limit.routes.end();
}
// "hard", or with the reason if CUDA memory may escape: "soft (CUDA memory is not proved to be charged …)".
inline std::string type_with_reason(const Limit& limit) {
  std::string text(name_of(limit.type));
  if (limit.type == LimitType::soft && has_unproved_cuda(limit))
    text += " (" + std::string(kCudaNotProved) + ")";
  return text;
}

}  // namespace headroom
