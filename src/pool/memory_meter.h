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
  // Starts to watch. The returned function reports how far the memory has risen above the start. Null:
  // unknown.
  std::function<std::function<Bytes()>()> watch_peak;
  bool is_empty() const { return !read; }
};

// The memory of this process and of its isolated models' processes, without what the kernel can reclaim
// (process_bytes.h). The peak comes from the kernel; starting to watch resets it.
MemoryMeter process_meter();

// The memory of GPU "cuda:N".
// - Under the preload library of `headroom run`: the ledger's charges for this process, exact to the
//   byte, and the ledger's peak. If the GPU shares the machine's memory, plus what process_meter() reads.
// - Without the library: all used memory that the driver reports, of any process; no peak.
// Fails without such a device. Also fails without the library if the memory is shared, because the driver
// cannot attribute shared memory to a process.
Result<MemoryMeter> device_meter(const std::string& device);

}  // namespace headroom::pool
