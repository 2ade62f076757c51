// Which devices the driver shows to this program's children, and in which order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace headroom::cuda {

using Uuid = std::array<std::uint8_t, 16>;

// By ordinal. Asked of the driver in a child, as it never leaves a process that has loaded it; for programs
// with one thread. Empty where there is no driver, or where it does not answer within half a minute.
std::vector<Uuid> device_uuids();

}  // namespace headroom::cuda
