// Lists the devices that the driver shows to this program's children, in the driver's order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace headroom::cuda {

using Uuid = std::array<std::uint8_t, 16>;

struct VisibleDevice {
  Uuid uuid{};  // zero: unknown
  bool is_integrated = false;
  friend bool operator==(const VisibleDevice&, const VisibleDevice&) = default;
};

// Returns the devices by ordinal. A forked child asks the driver, because a driver cannot be unloaded; so
// call this before the program starts threads. Empty if there is no driver, or if it does not answer within
// 30 s.
std::vector<VisibleDevice> visible_devices();

// Writes one device to the pipe; the child calls it for each.
bool write_device(int to, const VisibleDevice& device);
// Reads devices until the other end of the pipe is closed. If that takes longer than `patience`, returns
// none: an incomplete list would be mistaken for a complete one.
std::vector<VisibleDevice> read_devices(int from, Nanoseconds patience);

}  // namespace headroom::cuda
