// One memory control group (cgroup v2 or v1) made by Headroom, and the kernel's account of it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/result.h"
#include "base/units.h"
#include "limits/group_parent.h"
#include "types/limit.h"
#include "types/sample.h"

namespace headroom::limits {

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
  // Resets the peak to the current use. Returns false if the kernel cannot: v2 before Linux 6.12.
  bool reset_peak();

 private:
  ControlGroup(LimitMechanism version, std::filesystem::path folder)
      : version_(version), folder_(std::move(folder)) {}
  Status set_limit(Bytes limit);

  LimitMechanism version_;
  std::filesystem::path folder_;  // empty once moved from
  UniqueFd procs_;
  UniqueFd peak_;  // stays open: v2 resets the peak only for readers of this open file
};

}  // namespace headroom::limits
