// A memory control group of Headroom's own: cgroup v2 or v1, found below the group that this process runs in.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/result.h"
#include "base/units.h"
#include "model/limit.h"
#include "model/sample.h"

namespace headroom::limits {

// Where this process's memory group lies in the file system.
struct ControlGroupPlace {
  LimitMechanism version = LimitMechanism::none;  // cgroup_v1 or cgroup_v2
  std::filesystem::path folder;                   // /sys/fs/cgroup/memory/user/1000
};

// Reads `proc`/self/cgroup and `proc`/self/mountinfo; the memory controller's v1 hierarchy wins over a v2
// hierarchy that does not have it (hybrid systems). The error says why there is none.
Result<ControlGroupPlace> find_own_group(const std::filesystem::path& proc = "/proc");

class ControlGroup {
 public:
  // Makes a group `name` below `place`, with a limit if there is one. Error: not permitted, or the controller
  // is not enabled there; its fix says how an ordinary user gets one.
  static Result<ControlGroup> create(const ControlGroupPlace& place, const std::string& name,
                                     std::optional<Bytes> limit);
  ControlGroup(ControlGroup&& other) noexcept = default;
  ControlGroup& operator=(ControlGroup&& other) noexcept;
  ~ControlGroup();  // removes the group; processes still in it are killed first

  LimitMechanism version() const { return version_; }
  // Open for writing; a child that writes "0" to it enters the group.
  int entry_fd() const { return procs_.get(); }
  CgroupMemory account() const;
  bool reset_peak();

 private:
  ControlGroup() = default;
  void remove();
  LimitMechanism version_ = LimitMechanism::none;
  std::filesystem::path folder_;  // empty once moved from
  UniqueFd procs_;
};

// Removes groups below `place` that dead conductors left behind (headroom-PID-…, where PID is no more).
void remove_stale_groups(const ControlGroupPlace& place);

}  // namespace headroom::limits
