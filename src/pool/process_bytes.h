// The memory of a process that the kernel cannot reclaim: anonymous and shared memory, in RAM or swapped,
// page tables, and the kernel stacks of its threads. Mapped files and the page cache are excluded, because
// the kernel drops them when memory is needed.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "base/units.h"

namespace headroom::pool {

// Bytes of this process, from /proc/self/status; takes about 30 µs. Absent if that file lacks the fields
// (before Linux 4.5).
std::optional<Bytes> own_bytes(const std::filesystem::path& status = "/proc/self/status");

// Bytes of another process, without shared memory: the tensors that it shares with this process are in this
// process's figure.
std::optional<Bytes> unshared_bytes(pid_t pid);

}  // namespace headroom::pool
