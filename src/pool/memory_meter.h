// Measures the memory that a budget limits, and the temporary peak of a load.
#pragma once

#include <sys/types.h>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

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
// (own_bytes()). The peak comes from the kernel; starting to watch resets it.
MemoryMeter process_meter();

// The memory of GPU "cuda:N".
// - With the preload library of `headroom run`: the ledger's charges for this process, exact to the byte,
//   and the ledger's peak. If the GPU shares the machine's memory, own_bytes() is added.
// - Without the library: all used memory that the driver reports, of any process; no peak. Fails if the GPU
//   shares the machine's memory, because the driver cannot attribute that memory to a process.
Result<MemoryMeter> device_meter(const std::string& device);

// The memory of a process that the kernel cannot reclaim: anonymous and shared memory, in RAM or swapped,
// page tables, and the kernel stacks of its threads. Mapped files and the page cache are excluded, because
// the kernel drops them when memory is needed.
//
// own_bytes(): of this process, from /proc/self/status; takes about 30 µs. Absent if that file lacks the
// fields (before Linux 4.5).
std::optional<Bytes> own_bytes(const std::filesystem::path& status = "/proc/self/status");

// Bytes of another process, without shared memory: the tensors that it shares with this process are in this
// process's figure.
std::optional<Bytes> unshared_bytes(pid_t pid);

}  // namespace headroom::pool
