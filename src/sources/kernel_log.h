// Recognizes kernel messages about out-of-memory events.
#pragma once

#include <optional>
#include <string_view>

#include "types/sample.h"

namespace headroom::sources {

// Parses a kernel message without its prefix: an OOM kill with its victim, or an error of NvMap or the GPU
// driver. Absent for all other messages. In "NvMapMemAllocInternalTagged: 1075072515 error 12" the numbers
// are an ioctl number and ENOMEM, not a size. The anon-rss of a kill contains no GPU memory.
std::optional<KernelEvent> kernel_event_of(std::string_view message);

}  // namespace headroom::sources
