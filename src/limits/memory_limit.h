// Enforcing a memory limit on child processes, and proving what the enforcement is worth.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "model/limit.h"
#include "model/sample.h"

namespace headroom::limits {

// A limit that is in force for the children that enter it. Owns the control group, if there is one, and
// removes it at the end.
class MemoryLimit {
 public:
  virtual ~MemoryLimit() = default;
  virtual LimitMechanism mechanism() const = 0;
  virtual Bytes bytes() const = 0;
  // Runs in the child between fork and exec: async-signal-safe. 0 or an errno value. Valid as long as this
  // is.
  virtual std::function<int()> entry() = 0;
  // The kernel's account (absent fields where the mechanism has none).
  virtual CgroupMemory account() const = 0;
  // Resets the kernel's peak, where it can be reset.
  virtual bool reset_peak() = 0;
};

// Makes a limit of `bytes` named after `label` by the best mechanism that works here, or by the one forced
// ("cgroup", "rlimit", "watchdog", "none"; "auto"). `note` receives why a better one was not used. Without
// `bytes` a control group without a limit is made if possible (for its account), else none.
Result<std::unique_ptr<MemoryLimit>> make_memory_limit(std::string_view label, std::optional<Bytes> bytes,
                                                       std::string_view forced, std::string& note);

// The routes by which a process can take memory on a CPU.
std::vector<std::string> probe_routes();

// Child side of the probe (hidden verb `_probe`): takes memory by `route` until it is refused, killed or has
// taken `target`; prints one JSON line {"route", "taken_bytes", "outcome"} if it lives.
int run_limit_probe(std::string_view route, Bytes target);

// Starts a probe child for each route under the same mechanism with a small limit, and classifies what
// happened: hard, soft or unavailable (model/limit.h).
Result<Limit> probe_limit(Bytes limit, std::string_view forced);

}  // namespace headroom::limits
