// The environment variables that configure the preload library in the traced command.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ledger/account.h"
#include "types/limit.h"

namespace headroom::trace {

// The options of `headroom trace`.
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
  bool allow_no_gpu = false;              // traces without these limits if there is no GPU driver
};

// A smaller recording has no space for segments.
inline constexpr Bytes kSmallestRecording = mebibytes(16);

// The number of segments in a recording of this size.
std::uint64_t segments_in(Bytes recording);

// The size limit of a recording if none is given: 8 GiB (about 10⁹ events), but never more than half of the
// disk's free space.
Bytes default_size_limit(const std::filesystem::path& recording);

// The value of HEADROOM_TRACE_OPTIONS.
std::string tracer_settings(const TraceOptions& options, Bytes size_limit);

// Variables to add to the command's environment. The GPU memory limit of this process itself
// (trace/device_account.h) also applies to the command. The libraries of an existing LD_PRELOAD follow
// Headroom's, except the preload libraries of an enclosing trace. An existing NVTX_INJECTION64_PATH belongs
// to another tool and is kept.
using Environment = std::vector<std::pair<std::string, std::string>>;
Environment tracer_environment(const TraceOptions& options, const std::filesystem::path& recording,
                               Bytes size_limit);

// The variables for a program that is not recorded. It gets the GPU memory ledger with these limits, and
// joins the account in that file, if there is one. `library` is gpu_tracer_library(), which does not hook the
// program's malloc.
Environment ledger_environment(const std::filesystem::path& library, const ledger::Limits& limits,
                               const std::string& account);

// Whether `headroom trace` records this process.
bool is_recorded();
// Like ledger_environment(), but if this process is recorded, the program is, too: it then keeps the library
// and settings of the enclosing trace, and gets these limits.
Environment limited_environment(const std::filesystem::path& library, const ledger::Limits& limits,
                                const std::string& account);

// The library's path: HEADROOM_TRACER, or where find_plugin() (base/files.h) finds it.
std::filesystem::path tracer_library();
// The library for processes that run already, in the same folder.
std::filesystem::path attach_library();
// The library that hooks only GPU memory, in the same folder.
std::filesystem::path gpu_tracer_library();
// Whether a preloaded or NVTX library is one of these two.
bool is_tracer_library(const std::filesystem::path& path);

// Checks that the library exists, and that LD_PRELOAD can contain its path.
Status check_library(const std::filesystem::path& library);

}  // namespace headroom::trace
