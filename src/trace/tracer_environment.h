// The environment variables that configure the preload library in the traced command.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "trace/trace_options.h"

namespace headroom::trace {

// The number of segments in a recording of this size.
std::uint64_t segments_in(Bytes recording);

// The size limit of a recording if none is given: 8 GiB (about 10⁹ events), but never more than half of the
// disk's free space.
Bytes default_size_limit(const std::filesystem::path& recording);

// The value of HEADROOM_TRACE_OPTIONS.
std::string tracer_settings(const TraceOptions& options, Bytes size_limit);

// Variables to add to the command's environment. The GPU memory limit of this process itself
// (trace/inherited_limit.h) also applies to the command. The libraries of an existing LD_PRELOAD follow
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

// The library's path: HEADROOM_TRACER, or next to this program.
std::filesystem::path tracer_library();
// The library that hooks only GPU memory, in the same folder.
std::filesystem::path gpu_tracer_library();
// Whether a preloaded or NVTX library is one of these two.
bool is_tracer_library(const std::filesystem::path& path);

// Checks that the library exists, and that LD_PRELOAD can contain its path.
Status check_library(const std::filesystem::path& library);

}  // namespace headroom::trace
