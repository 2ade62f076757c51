// What `headroom trace` was asked to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "ledger/account.h"
#include "model/limit.h"

namespace headroom::trace {

struct TraceOptions {
  std::vector<std::string> command;
  std::filesystem::path library;  // tracer_library(), or gpu_tracer_library() if `gpu_only`
  std::filesystem::path output;   // empty: outputs/YYYY-MM-DD_HH-MM-SS/NAME.hrec
  bool replace_output = false;

  bool gpu_only = false;  // the host's memory is not recorded
  bool full = false;
  bool layers = true;
  std::string stacks;  // "fp", "unwind" or "off"; empty: the library's choice
  // At most one of these; none: default_size_limit().
  std::optional<Bytes> ring, max_size;
  std::optional<std::int64_t> max_events;
  Bytes large = kibibytes(4);            // allocations of this size and above are recorded each
  Bytes sample_period = kibibytes(256);  // the others are sampled once in so many bytes

  // Of GPU memory, for all processes of the command together.
  ledger::Limits device_limits;
  std::optional<LimitType> proved_limit;  // what a probe found of them, for the recording
  std::string share;                      // the name of the account that other commands share; empty: none do
  std::string account;                    // its file, once there is one
};

// A recording without segments for its threads is none.
inline constexpr Bytes kSmallestRecording = mebibytes(16);

}  // namespace headroom::trace
