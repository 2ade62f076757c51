// Which devices the driver shows to this program's children, and in which order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace headroom::cuda {

using Uuid = std::array<std::uint8_t, 16>;

struct VisibleDevice {
  Uuid uuid{};  // zero: the driver does not say
  bool is_integrated = false;
  friend bool operator==(const VisibleDevice&, const VisibleDevice&) = default;
};

// By ordinal. Asked of the driver in a child, as it never leaves a process that has loaded it; for programs
// with one thread. Empty where there is no driver, or where it does not answer within half a minute.
std::vector<VisibleDevice> visible_devices();

// What the child writes to a pipe, a device after the other.
bool write_device(int to, const VisibleDevice& device);
// All of them, until its other end is closed. Nothing if it still is open when `patience` is over: a part of
// the devices would be taken for all.
std::vector<VisibleDevice> read_devices(int from, Nanoseconds patience);

}  // namespace headroom::cuda
