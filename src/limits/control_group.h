// Memory control groups (cgroup v2 or v1): finds the group below which Headroom can create others, creates
// them, and reads the kernel's account of them. The parent is Headroom's own group or, with cgroup v2, the
// nearest group above that can have children.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/result.h"
#include "base/units.h"
#include "types/limit.h"
#include "types/sample.h"

namespace headroom::limits {

// Writes to an existing file. The kernel accepts a value in one write or not at all.
Status write_value(const std::filesystem::path& path, std::string_view value);

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

// A memory control group made by Headroom.
class ControlGroup {
 public:
  // Makes a group `name` below `parent`. `limit`, if given, bounds memory and swap together.
  static Result<ControlGroup> create(const GroupParent& parent, const std::string& name,
                                     std::optional<Bytes> limit);
  // Uses an existing folder; the destructor removes it as if create() had made it.
  static Result<ControlGroup> adopt(LimitMechanism version, const std::filesystem::path& folder,
                                    std::optional<Bytes> limit);

  ControlGroup(ControlGroup&& other) noexcept;
  ControlGroup& operator=(ControlGroup&& other) = delete;
  ~ControlGroup();  // removes the group; processes still in it are killed

  LimitMechanism version() const { return version_; }
  const std::filesystem::path& folder() const { return folder_; }
  // Open for writing: a process that writes "0" to it enters the group.
  int entry_fd() const { return procs_.get(); }
  CgroupMemory account() const;

 private:
  ControlGroup(LimitMechanism version, std::filesystem::path folder)
      : version_(version), folder_(std::move(folder)) {}
  Status set_limit(Bytes limit);

  LimitMechanism version_;
  std::filesystem::path folder_;  // empty once moved from
  UniqueFd procs_;
};

}  // namespace headroom::limits
