// What processes that share a limit have in common: one page, private or of a file. Of account*.cpp alone.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "ledger/account.h"

namespace headroom::ledger {

// In a file: what has another size or magic is of another version and not used.
struct AccountPage {
  static constexpr std::uint64_t kMagic = 0x3454434341524448;  // "HDRACCT4"
  std::uint64_t magic;
  std::uint64_t page_bytes;
  pthread_mutex_t mutex;
  std::uint32_t slots_used;  // behind these there never was a member
  std::uint32_t unhooked_drivers;
  std::uint8_t uuids[kMaxDevices][16];  // zero: not told yet
  std::uint64_t limits[kMaxDevices];
  std::uint64_t peaks[kMaxDevices];  // of the sum
  std::uint64_t refused[kMaxDevices], refused_bytes[kMaxDevices];
  struct Slot {
    ProcessIdentity owner;
    std::uint64_t has_byte_lock;  // whoever has it holds the lock on its byte, so that alone tells
    std::uint64_t charged[kMaxDevices];
  } slots[kMaxMembers];
};

// With the limits, and nothing charged.
void initialize(AccountPage& page, const Limits& limits);

}  // namespace headroom::ledger
