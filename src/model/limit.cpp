#include "model/limit.h"

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

}  // namespace headroom
