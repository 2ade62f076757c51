#include "types/limit.h"

#include <algorithm>

namespace headroom {

std::string_view name_of(LimitType type) {
  switch (type) {
    case LimitType::hard:
      return "hard";
    case LimitType::soft:
      return "soft";
    case LimitType::unavailable:
      return "unavailable";
  }
  return "unavailable";
}

std::string_view name_of(LimitMechanism mechanism) {
  switch (mechanism) {
    case LimitMechanism::none:
      return "none";
    case LimitMechanism::cgroup_v2:
      return "cgroup_v2";
    case LimitMechanism::cgroup_v1:
      return "cgroup_v1";
    case LimitMechanism::rlimit_data:
      return "rlimit_data";
    case LimitMechanism::watchdog:
      return "watchdog";
    case LimitMechanism::device_ledger:
      return "device_ledger";
  }
  return "none";
}

bool has_unproved_cuda(const Limit& limit) {
  return std::any_of(limit.routes.begin(), limit.routes.end(),
                     [](const LimitRoute& route) { return route.name == kCudaRoute; });
}

std::string type_with_reason(const Limit& limit) {
  std::string text(name_of(limit.type));
  if (limit.type == LimitType::soft && has_unproved_cuda(limit))
    text += " (" + std::string(kCudaNotProved) + ")";
  return text;
}

}  // namespace headroom
