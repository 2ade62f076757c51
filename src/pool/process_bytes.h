// What a process has that the kernel cannot take back by itself: anonymous and shared memory, in RAM or
// swapped, page tables and stacks of its threads in the kernel. Files that are mapped or were read can be
// dropped when memory is needed, so they are no part of it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "base/units.h"

namespace headroom::pool {

// Of this process, from /proc/self/status: about 30 µs. Absent where that does not tell (before Linux 4.5).
std::optional<Bytes> own_bytes(const std::filesystem::path& status = "/proc/self/status");

// Of another process, without the memory that it shares: this one has it, too.
std::optional<Bytes> unshared_bytes(pid_t pid);

}  // namespace headroom::pool
