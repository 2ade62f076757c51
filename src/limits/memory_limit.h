// Enforcing a memory limit on child processes, and proving what the enforcement is worth. docs/limits.md
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/limit.h"
#include "model/sample.h"

namespace headroom::limits {

// A limit that is in force for the children that enter it; several children share one limit. Owns the control
// group, if there is one, and removes it at the end, with what still runs in it.
class MemoryLimit {
 public:
  virtual ~MemoryLimit() = default;
  virtual LimitMechanism mechanism() const = 0;
  virtual Bytes bytes() const = 0;  // 0: an account without a limit
  // Runs in the child between fork and exec: async-signal-safe. 0 or an errno value. Valid as long as this
  // is. Empty where there is nothing to enter.
  virtual std::function<int()> entry() = 0;
  // The kernel's account (absent fields where the mechanism has none).
  virtual CgroupMemory account() const = 0;
  // Resets the kernel's peak, where it can be reset.
  virtual bool reset_peak() = 0;
};

// Makes a limit of `bytes` named after `label` by the best mechanism that works here, or by the one forced
// ("cgroup", "rlimit", "watchdog", "none"; "auto" or empty). `note` receives what a person should know about
// it: why a better mechanism was not used, that the machine has less memory. Without `bytes` a control group
// without a limit is made if possible (for its account), else none.
// Errors: a limit too small for any process, an unknown mechanism, a forced one that is not to be had.
Result<std::unique_ptr<MemoryLimit>> make_memory_limit(std::string_view label, std::optional<Bytes> bytes,
                                                       std::string_view forced, std::string& note);

// The routes by which a process can take memory on a CPU.
std::vector<std::string> probe_routes();

// Child side of the probe (hidden verb `_probe --route R --target BYTES`): takes memory by `route` until it
// is refused, killed or has taken `target`. Prints JSON lines {"route", "taken_bytes"} on the way; the last
// one has "stopped_by" (an errno value) if the target was not reached. Returns the exit code.
int run_limit_probe(std::string_view route, Bytes target);

// Starts a probe child for each route under the same mechanism with a small limit (at most 64 MiB), and
// classifies what happened: hard, soft or unavailable (model/limit.h). `child_command` is what starts such a
// child, `--route R --target BYTES` is added; empty means this executable's `_probe`. A probe that cannot run
// makes a limit soft, never an error. Errors are those of make_memory_limit.
Result<Limit> probe_limit(Bytes limit, std::string_view forced, std::vector<std::string> child_command = {});

// For a machine with an integrated GPU: adds the route "cuda", not tried, and calls a hard limit soft. The host routes
// prove nothing about CUDA memory there: drivers were seen to allocate 12 GiB that no control group was charged for.
void note_unproved_cuda_memory(Limit& limit);

}  // namespace headroom::limits
