// The end of graphs, graph execs and captures, after the driver has destroyed them.
#pragma once

#include "preload/device_hooks.h"

namespace headroom::preload::driver {

// `type`: a graph or a graph exec. Call it with the driver lock. `time` is that of the driver's call.
void drop_graph(DriverHook& hook, EntryType type, std::uint64_t graph, std::uint64_t time);
// Drops the graph of a capture that never ends. `graph` is 0 if the graph existed before the capture.
void drop_captured_graph(DriverHook& hook, std::uint64_t graph);
// Drops what an exec had before the driver updated it. Call it with the driver lock.
void drop_past_updates(DriverHook& hook, std::uint64_t exec, std::uint64_t time);
// The driver keeps memory of ended graph execs, and may allocate more for the next one instead of reusing it.
void trim_launched_graphs(DriverHook& hook);

}  // namespace headroom::preload::driver
