// The limit on GPU memory that this program runs under itself, as one that `headroom run --gpu-limit`
// started: what it starts in its turn stays within that, whatever limit it is given.
#pragma once

#include <string>
#include <vector>

#include "ledger/account.h"

namespace headroom::trace {

struct InheritedLimit {
  ledger::Limits limits;
  std::vector<std::string> accounts;  // files; the innermost first
};

// Of HEADROOM_TRACE_OPTIONS.
InheritedLimit inherited_limit();

// Of each device the smaller of the two.
ledger::Limits smaller_of(const ledger::Limits& a, const ledger::Limits& b);

}  // namespace headroom::trace
