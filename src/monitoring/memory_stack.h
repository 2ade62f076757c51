// The machine's memory as one bar: parts that do not overlap and add up to MemTotal.
#pragma once

#include <optional>

#include "types/sample.h"

namespace headroom::monitoring {

struct MemoryStack {
  Bytes total;
  Bytes free;       // MemFree
  Bytes cache;      // files that can be read again, buffers, reclaimable slab: given back on demand
  Bytes processes;  // anonymous memory and shared memory of the CPU's processes
  Bytes gpu;        // NvMap; zero where the machine has none
  Bytes system;     // the kernel and what no figure tells of: the rest
};

// Absent without MemTotal, MemFree, Buffers, Cached and AnonPages (a log of tegrastats has none of the last
// three). On an integrated GPU the device's memory is a part of used memory; figures are of slightly
// different moments, so a part is cut to what is left of the total rather than counted twice.
std::optional<MemoryStack> memory_stack_of(const SystemSample& sample);

}  // namespace headroom::monitoring
