// What a budget is held against, and how much more a load took for a moment.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace headroom::pool {

struct MemoryMeter {
  // Absent: it cannot be told now.
  std::function<std::optional<Bytes>()> read;
  // Begins to watch; what it gives tells how far above that moment it went since. Null: not known.
  std::function<std::function<Bytes()>()> watch_peak;
  bool is_empty() const { return !read; }
};

// The memory of this process, and of those that its isolated models have, that the kernel cannot take back
// (process_bytes.h); its peak is the kernel's, which watching sets back.
MemoryMeter process_meter();

// Of "cuda:N". Under the preload library of `headroom run` what its ledger has for this process, to the byte,
// with the ledger's own peak; on a GPU that shares the machine's memory, with what process_meter() reads.
// Without it what the driver says is not free, whoever has it; no peak. An error without such a device, and
// without the library where memory is shared: what is free there is nobody's in particular.
Result<MemoryMeter> device_meter(const std::string& device);

}  // namespace headroom::pool
