// Identifies a process, so that a later process with the same PID is not mistaken for it.
#pragma once

#include <cstdint>

namespace headroom::ledger {

struct ProcessIdentity {
  std::uint32_t pid = 0;            // 0: no process
  std::uint64_t start_ticks = 0;    // field 22 of /proc/PID/stat
  std::uint64_t pid_namespace = 0;  // a PID is valid only in its namespace
  bool operator==(const ProcessIdentity&) const = default;
};
ProcessIdentity this_process();
// The PID namespace of the calling process; 0: unknown.
std::uint64_t own_pid_namespace();
// Returns false only if the process has certainly ended.
bool may_be_alive(const ProcessIdentity& process);
// Returns whether the process is exiting and may still have files open. False if that is unknown: the process
// is in another PID namespace.
bool is_exiting(const ProcessIdentity& process);

}  // namespace headroom::ledger
