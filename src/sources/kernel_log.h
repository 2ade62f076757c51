// What the kernel says about memory that ran out.
#pragma once

#include <optional>
#include <string_view>

#include "model/sample.h"

namespace headroom::sources {

// A message of the kernel without its prefix: an OOM kill with its victim, an error of NvMap or of the GPU's
// driver. Nothing for all others. The figures in "NvMapMemAllocInternalTagged: 1075072515 error 12" are the
// number of a system call and ENOMEM, no size; and a kill's anon-rss has no GPU memory in it.
std::optional<KernelEvent> kernel_event_of(std::string_view message);

}  // namespace headroom::sources
