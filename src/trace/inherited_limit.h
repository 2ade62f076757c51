// The GPU memory limit of this process itself, if `headroom run --gpu-limit` or `headroom trace` started it.
// Every command that it starts stays within that limit, whatever limit it is given.
#pragma once

#include <string>
#include <vector>

#include "ledger/account.h"

namespace headroom::trace {

struct InheritedLimit {
  ledger::Limits limits;
  std::vector<std::string> accounts;  // files, innermost first
};

// Reads the limit from HEADROOM_TRACE_OPTIONS.
InheritedLimit inherited_limit();

// The smaller limit of each device.
ledger::Limits smaller_of(const ledger::Limits& a, const ledger::Limits& b);

}  // namespace headroom::trace
