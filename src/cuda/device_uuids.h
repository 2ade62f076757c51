// Which devices the driver shows to this program's children, and in which order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace headroom::cuda {

using Uuid = std::array<std::uint8_t, 16>;

// By ordinal. Asked of the driver in a child, as it never leaves a process that has loaded it; for programs
// with one thread. Empty where there is no driver, or where it does not answer within half a minute.
std::vector<Uuid> device_uuids();

// All that are written to a pipe until its other end is closed. Nothing if it still is open when `patience`
// is over: a part of the devices would be taken for all.
std::vector<Uuid> read_uuids(int from, Nanoseconds patience);

}  // namespace headroom::cuda
