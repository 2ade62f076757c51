// Keys of graphs and graph execs in the allocation table: one for each device on which they have memory.
#pragma once

#include <cstdint>

namespace headroom::ledger {

// The key of a graph or exec on one device. On device 0 it equals the handle.
inline std::uint64_t key_on_device(std::uint64_t handle, unsigned device) {
  constexpr unsigned kAboveAddresses = 57;
  return handle ^ std::uint64_t{device} << kAboveAddresses;
}

// Bits that no handle has set on any device. kInternalNumber marks graphs without a handle and updates of
// execs; kInProgress marks execs and updates that the driver is creating now.
inline constexpr std::uint64_t kInternalNumber = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kInProgress = std::uint64_t{1} << 62;

inline std::uint64_t smaller(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }

inline std::uint64_t round_up_to_step(std::uint64_t bytes, std::uint64_t step) {
  std::uint64_t all = bytes;
  if (step <= 1 || bytes % step == 0 || __builtin_add_overflow(bytes, step - bytes % step, &all))
    return bytes;
  return all;
}

}  // namespace headroom::ledger
