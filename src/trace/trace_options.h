// The options of `headroom trace`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "ledger/account.h"
#include "types/limit.h"

namespace headroom::trace {

struct TraceOptions {
  std::vector<std::string> command;
  std::filesystem::path library;  // tracer_library(), or gpu_tracer_library() if `gpu_only`
  std::filesystem::path output;   // empty: outputs/YYYY-MM-DD_HH-MM-SS/NAME.hrec
  bool replace_output = false;

  bool gpu_only = false;  // host memory is not recorded
  bool full = false;
  bool layers = true;
  std::string stacks;  // "fp", "unwind" or "off"; empty: the library's default
  // At most one of these is set; if none, default_size_limit() applies.
  std::optional<Bytes> ring, max_size;
  std::optional<std::int64_t> max_events;
  Bytes large = kibibytes(4);            // record each allocation of at least this size
  Bytes sample_period = kibibytes(256);  // sample smaller allocations once per this many bytes

  // GPU memory limits, for all processes of the command together.
  ledger::Limits device_limits;
  std::optional<LimitType> proved_limit;  // the probe's result for these limits, stored in the recording
  std::string share;                      // name of the account that other commands share; empty: not shared
  std::string account;                    // the account's file, once it exists
};

// A smaller recording has no space for segments.
inline constexpr Bytes kSmallestRecording = mebibytes(16);

}  // namespace headroom::trace
