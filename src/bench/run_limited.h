// `headroom run`: any command under a limit that was tried out first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "ledger/account.h"

namespace headroom::bench {

struct RunLimitedOptions {
  std::vector<std::string> command;
  std::optional<Bytes> limit;      // of the machine's memory, of all processes of the command together
  std::string mechanism = "auto";  // as --limit-mechanism of bench
  ledger::Limits gpu_limits;       // likewise together
  std::string share;               // the name of the account of GPU memory that other commands share
};

// Returns the command's exit code, or 128 + the signal that ended it. Says on standard error, in one line at
// the end, what it used of what it might, and what the limit was worth. Errors: nothing was started.
Result<int> run_limited(const RunLimitedOptions& options);

}  // namespace headroom::bench
