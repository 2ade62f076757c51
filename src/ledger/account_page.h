// Identifies a process, so that a later process with the same PID is not mistaken for it.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "ledger/account.h"

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

// The layout of an account's page, which processes with a common limit share. Only account*.cpp includes this
// file.
// A file with another size or magic number comes from another version of Headroom; open_shared() rejects it.
struct AccountPage {
  static constexpr std::uint64_t kMagic = 0x3454434341524448;  // "HDRACCT4"
  std::uint64_t magic;
  std::uint64_t page_bytes;
  pthread_mutex_t mutex;
  std::uint32_t slots_used;  // the slots after these were never used
  std::uint32_t unhooked_drivers;
  std::uint8_t uuids[kMaxDevices][16];  // zero: not known yet
  std::uint64_t limits[kMaxDevices];
  std::uint64_t peaks[kMaxDevices];  // of all processes together
  std::uint64_t refused[kMaxDevices], refused_bytes[kMaxDevices];
  struct Slot {
    ProcessIdentity owner;
    std::uint64_t has_byte_lock;  // the owner lives as long as the slot's byte is locked
    std::uint64_t charged[kMaxDevices];
  } slots[kMaxMembers];
};

// Initializes a zeroed page with these limits and nothing charged.
void initialize(AccountPage& page, const Limits& limits);

}  // namespace headroom::ledger
