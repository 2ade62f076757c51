// A process, so that a later one with its number is not taken for it.
#pragma once

#include <cstdint>

namespace headroom::ledger {

struct ProcessIdentity {
  std::uint32_t pid = 0;            // 0: none
  std::uint64_t start_ticks = 0;    // field 22 of /proc/PID/stat
  std::uint64_t pid_namespace = 0;  // a number means something only in its namespace
  bool operator==(const ProcessIdentity&) const = default;
};
ProcessIdentity this_process();
// Of the calling process; 0: not known.
std::uint64_t own_pid_namespace();
// False only if it is certain that the process is gone.
bool may_be_alive(const ProcessIdentity& process);
// It is on its way out, and may have files open still. False where that cannot be told: in another namespace.
bool is_exiting(const ProcessIdentity& process);

}  // namespace headroom::ledger
