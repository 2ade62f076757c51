// Searches the ancestors of a new graph node. The node may reuse only memory that one of its ancestors freed.
#pragma once

#include <cstdint>
#include <span>

#include "preload/driver_calls.h"

namespace headroom::preload::driver {

// Finds free nodes among `dependencies` and their ancestors whose block on this device has at least `wanted`
// bytes and is not reused yet. The nearest come first. The search ends at a block of exactly `wanted` bytes,
// or a fixed number of nodes after the first hit. Returns how many nodes were written to `found`.
//
// The driver is asked for the dependencies of each visited node. If there are too many, or the driver does
// not answer, fewer free nodes are found, which charges more.
std::size_t find_earlier_frees(Opaque graph, unsigned device, std::span<const Opaque> dependencies,
                               std::uint64_t wanted, std::span<std::uint64_t> found);

// In the child after fork.
void reset_walk_in_child();

}  // namespace headroom::preload::driver
