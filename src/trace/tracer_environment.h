// What the preload library is told: the environment variables that the traced command starts with.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "trace/trace_options.h"

namespace headroom::trace {

// How many segments a recording of this size holds.
std::uint64_t segments_in(Bytes recording);

// The bound of a recording where none is asked for: 8 GiB (about a milliard events), and never more than half
// of what its disk has free.
Bytes default_size_limit(const std::filesystem::path& recording);

// The value of HEADROOM_TRACE_OPTIONS.
std::string tracer_settings(const TraceOptions& options, Bytes size_limit);

// Variables that are added to the command's environment. The limit on GPU memory that this program runs under
// (trace/inherited_limit.h) holds for the command, too. An LD_PRELOAD that is set stays behind ours, without
// the preload libraries of a trace around this one; an NVTX_INJECTION64_PATH that is set is another tool's
// and is kept.
using Environment = std::vector<std::pair<std::string, std::string>>;
Environment tracer_environment(const TraceOptions& options, const std::filesystem::path& recording,
                               Bytes size_limit);

// The same for a program that is not recorded: it has the ledger of its GPU memory, with these limits, and
// joins the account of that file, if there is one. `library` is gpu_tracer_library(): nothing is asked of the
// program's malloc.
Environment ledger_environment(const std::filesystem::path& library, const ledger::Limits& limits,
                               const std::string& account);

// Where the library is: HEADROOM_TRACER, or beside this program.
std::filesystem::path tracer_library();
// The one that stands in front of GPU memory only, beside that.
std::filesystem::path gpu_tracer_library();
// Whether a preloaded library, or one for NVTX, is one of the two.
bool is_tracer_library(const std::filesystem::path& path);

// That the library is there, and at a path that LD_PRELOAD can hold.
Status check_library(const std::filesystem::path& library);

}  // namespace headroom::trace
