// Where Headroom may make memory groups: below the control group that it runs in, or, with cgroup v2, below
// the nearest group above it that can have children.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "limits/group_files.h"
#include "model/limit.h"

namespace headroom::limits {

inline constexpr std::string_view kGroupPrefix = "headroom-";  // then the conductor's pid

// Where this process's memory group lies in the file system.
struct OwnGroup {
  LimitMechanism version = LimitMechanism::none;  // cgroup_v1 or cgroup_v2
  std::filesystem::path folder;                   // /sys/fs/cgroup/memory/user/1000
  std::filesystem::path top;                      // the mount point: nothing lies above it
};

// Reads `proc`/self/cgroup and `proc`/self/mountinfo. On hybrid systems, which mount both versions, the one
// that has the memory controller wins. The error says why there is none.
Result<OwnGroup> find_own_group(const std::filesystem::path& proc = "/proc");

// The group below which new ones are made.
//
// cgroup v2 gives a group either processes or children with controllers. So if the own group holds nothing
// but this process and its descendants, they move into a leaf of it, and back at the end. If it holds others
// too (a shell), the groups above are tried, as far as they may be written to and set no memory limit: to
// leave a limited group would be to escape the limit that someone set on Headroom.
class GroupParent {
 public:
  // How a value gets into a file; tests put a kernel of their own here.
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
  std::optional<std::filesystem::path> leaf_;  // where this process moved to
};

// Removes the groups in `folder` that dead conductors left (headroom-PID-…, where PID is no more), and kills
// what still runs in them.
void remove_stale_groups(const std::filesystem::path& folder);

// Kills the processes of a group and removes it; waits up to a second for the kernel to let them go.
bool remove_group(const std::filesystem::path& folder);

}  // namespace headroom::limits
