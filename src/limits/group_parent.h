// Finds the control group below which Headroom can create memory groups. It is Headroom's own group or, with
// cgroup v2, the nearest group above that can have children.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "limits/group_files.h"
#include "types/limit.h"

namespace headroom::limits {

inline constexpr std::string_view kGroupPrefix = "headroom-";  // followed by the conductor's pid

// The memory control group of this process in the file system.
struct OwnGroup {
  LimitMechanism version = LimitMechanism::none;  // cgroup_v1 or cgroup_v2
  std::filesystem::path folder;                   // for example /sys/fs/cgroup/memory/user/1000
  std::filesystem::path top;                      // the mount point
};

// Reads `proc`/self/cgroup and `proc`/self/mountinfo. Hybrid systems mount both versions; the one with the
// memory controller is used. The error says why there is none.
Result<OwnGroup> find_own_group(const std::filesystem::path& proc = "/proc");

// The group below which new groups are created.
//
// A cgroup v2 group can have either processes, or children with controllers. So if Headroom's own group holds
// only this process and its descendants, they move into a leaf of it, and back at the end. If it holds other
// processes too (a shell), the groups above are tried, as long as they are writable and have no memory limit.
// Leaving a limited group would escape a limit that a user has set on Headroom.
class GroupParent {
 public:
  // Writes a value to a file; tests replace it with a fake kernel.
  using Write = std::function<Status(const std::filesystem::path&, std::string_view)>;

  static Result<GroupParent> prepare(const OwnGroup& own, const std::filesystem::path& proc = "/proc",
                                     Write write = write_value);
  GroupParent(GroupParent&& other) noexcept;
  GroupParent& operator=(GroupParent&&) = delete;
  ~GroupParent();

  LimitMechanism version() const { return version_; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  GroupParent(LimitMechanism version, std::filesystem::path folder, Write write)
      : version_(version), folder_(std::move(folder)), write_(std::move(write)) {}
  LimitMechanism version_;
  std::filesystem::path folder_;
  Write write_;
  std::optional<std::filesystem::path> leaf_;  // the leaf that this process moved to
};

// Removes groups in `folder` that dead conductors left behind (headroom-PID-…, where no process PID exists),
// and kills any processes in them.
void remove_stale_groups(const std::filesystem::path& folder);

// Kills the processes of a group and removes it. Waits up to a second until the kernel has removed the
// processes.
bool remove_group(const std::filesystem::path& folder);

}  // namespace headroom::limits
