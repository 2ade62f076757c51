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
  std::uint32_t out_of_reach;
  std::uint8_t uuids[kMostDevices][16];  // zero: not told yet
  std::uint64_t limits[kMostDevices];
  std::uint64_t peaks[kMostDevices];  // of the sum
  std::uint64_t refused[kMostDevices], refused_bytes[kMostDevices];
  struct Slot {
    ProcessIdentity owner;
    std::uint64_t is_locked;  // whoever has it holds the lock on its byte, so that alone tells
    std::uint64_t charged[kMostDevices];
  } slots[kMostMembers];
};

// With the limits, and nothing charged.
void set_up(AccountPage& page, const Limits& limits);

}  // namespace headroom::ledger
