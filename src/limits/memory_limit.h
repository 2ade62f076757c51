// Enforces a memory limit on child processes, and proves how well it is enforced. See docs/limits.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "limits/control_group.h"
#include "types/limit.h"
#include "types/sample.h"

namespace headroom::limits {

// A limit for the child processes that enter it; several children share it. Owns the control group, if there
// is one. The destructor removes the group and kills its processes.
class MemoryLimit {
 public:
  MemoryLimit(ControlGroup group, Bytes bytes)
      : mechanism_(group.version()), bytes_(bytes), group_(std::move(group)) {}
  MemoryLimit(LimitMechanism mechanism, Bytes bytes) : mechanism_(mechanism), bytes_(bytes) {}
  LimitMechanism mechanism() const { return mechanism_; }
  Bytes bytes() const { return bytes_; }  // 0: no limit, only the kernel's account
  // Returns a function that moves the calling process into the limit. It runs in the child between fork and
  // exec, so it is async-signal-safe. It returns 0 or an errno value, and is valid as long as this object.
  // Empty if the mechanism needs no such step.
  std::function<int()> entry() const;
  // The kernel's account; fields that the mechanism lacks are absent.
  CgroupMemory account() const { return group_ ? group_->account() : CgroupMemory{}; }

 private:
  LimitMechanism mechanism_;
  Bytes bytes_;
  std::optional<ControlGroup> group_;
};

// Makes a limit of `bytes`, named after `label`, with the best mechanism that works here. `forced` selects a
// mechanism: "cgroup", "rlimit", "watchdog" or "none". "auto" and an empty text force none. `note` receives
// notes for the user: why a better mechanism was not used, or that the machine has less memory. Without
// `bytes`, a control group without a limit is made if possible, for its account. Errors: a limit too small
// for any process, an unknown mechanism, a forced mechanism that is not available.
Result<std::unique_ptr<MemoryLimit>> make_memory_limit(std::string_view label, std::optional<Bytes> bytes,
                                                       std::string_view forced, std::string& note);

// The routes by which a process can allocate memory on a CPU.
std::vector<std::string> probe_routes();

// The child side of the probe (hidden verb `_probe --route R --target BYTES`). Allocates memory by `route`
// until it is refused, is killed, or reaches `target`. Prints JSON lines {"route", "taken_bytes"} meanwhile.
// The last line has "stopped_by" (an errno value) if the target was not reached. Returns the exit code.
int run_limit_probe(std::string_view route, Bytes target);

// Starts a probe child for each route, under the same mechanism with a small limit (at most 64 MiB).
// Classifies the result as hard, soft or unavailable (types/limit.h). `child_command` starts such a child,
// with `--route R --target BYTES` appended; empty means this executable's `_probe`. If a probe cannot run,
// the limit is soft, not an error. Errors are those of make_memory_limit().
Result<Limit> probe_limit(Bytes limit, std::string_view forced, std::vector<std::string> child_command = {});

// For a machine with an integrated GPU: adds the route "cuda", not tried, and calls a hard limit soft. The
// host routes prove nothing about CUDA memory there: drivers were seen to allocate 12 GiB that no control
// group was charged for.
void note_unproved_cuda_memory(Limit& limit);

}  // namespace headroom::limits
