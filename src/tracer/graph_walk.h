// Which nodes of a graph a new one comes behind: only of those that it does may it take the memory.
#pragma once

#include <cstdint>
#include <span>

#include "tracer/driver_types.h"

namespace headroom::tracer::driver {

// The nodes that `dependencies` stand behind, or are, and that freed a block of the graph on this device
// which no other node has taken and which has `wanted` bytes: the nearest first, until one has no more than
// that or some way behind the first. Returns how many were written to `found`. Asks the driver for the
// dependencies of each node on the way; where there are more than it can hold, or the driver does not tell,
// it finds fewer, which charges more.
std::size_t frees_before(Opaque graph, unsigned device, std::span<const Opaque> dependencies,
                         std::uint64_t wanted, std::span<std::uint64_t> found);

// After fork, in the child.
void reset_walk_in_child();

}  // namespace headroom::tracer::driver
