// How the entries of graphs and of their instances are numbered, for each device one.
#pragma once

#include <cstdint>

namespace headroom::ledger {

// A graph's or an instance's handle on one device; on the first it is the handle.
inline std::uint64_t key_on_device(std::uint64_t handle, unsigned device) {
  constexpr unsigned kAboveAddresses = 57;
  return handle ^ std::uint64_t{device} << kAboveAddresses;
}

// Graphs without a handle, and updates of instances, have numbers that no handle has on any device; so have
// instances and updates that the driver is being asked for.
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
