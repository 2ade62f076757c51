// `headroom run`: runs a command under a limit that was probed first.
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
  std::optional<Bytes> limit;      // host memory of all processes of the command together
  std::string mechanism = "auto";  // as --limit-mechanism of bench
  ledger::Limits gpu_limits;       // GPU memory of all processes together
  std::string share;               // name of the GPU memory account shared with other commands
};

// Returns the command's exit code, or 128 + the signal that ended it. At the end, one line on standard error
// reports the memory used, the limit and how far the limit was proved. After an error, no command was
// started.
Result<int> run_limited(const RunLimitedOptions& options);

}  // namespace headroom::bench
