// Measures the memory that a budget limits, and the temporary peak of a load.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace headroom::pool {

struct MemoryMeter {
  // Absent: it cannot be measured now.
  std::function<std::optional<Bytes>()> read;
  // Starts to watch. The returned function returns the peak since then, in bytes above the memory at the
  // start. A null function (here or as the result): the peak cannot be measured.
  std::function<std::function<Bytes()>()> watch_peak;
  bool is_empty() const { return !read; }
};

// The memory of this process and of its isolated models' processes, without what the kernel can reclaim
// (process_bytes.h). The peak comes from the kernel; starting to watch resets it.
MemoryMeter process_meter();

// The memory of GPU "cuda:N".
// - With the preload library of `headroom run`: the ledger's charges for this process, exact to the byte,
//   and the ledger's peak. If the GPU shares the machine's memory, the memory of this process (own_bytes())
//   is added.
// - Without the library: all used memory that the driver reports, of any process; no peak.
// Fails if there is no such device. Without the library, also fails if the GPU shares the machine's memory,
// because the driver cannot attribute that memory to a process.
Result<MemoryMeter> device_meter(const std::string& device);

}  // namespace headroom::pool
