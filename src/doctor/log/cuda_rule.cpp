// The CUDA driver's and runtime's own words for memory that ran out, from whatever library.
#include <fmt/format.h>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  // PyTorch's help behind its error: "Search for `cudaErrorMemoryAllocation' in …".
  if (is_prose(line) || has(line, "Search for `")) return std::nullopt;
  for (const std::string_view words :
       {"CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "out of memory", "Out of memory"}) {
    if (!has(line, words)) continue;
    // "Out of memory error on GPU 0. Cannot allocate 1.56GB memory on GPU 0, …" is Paddle's.
    const bool is_cuda = has(line, "CUDA") || has(line, "cuda") || has(line, "Cuda") ||
                         has(line, "ut of memory error on GPU ");
    if (!is_cuda || is_counter(line, words) || is_advice(line, words) || is_source_code(line, words))
      return std::nullopt;
    if (text_after(line, words)->starts_with("... ")) return std::nullopt;  // a check, and its answer
    // PyTorch's message goes on behind it.
    constexpr std::string_view kNext = ". Tried to allocate ";
    const std::string_view rest = *text_after(line, words);
    // CuPy's, which tells what it held: "Out of memory allocating 8,000 bytes (allocated so far: 4,000
    // bytes)."
    auto requested = size_after(line, "ut of memory allocating ");
    if (!requested) requested = size_after(line, "Cannot allocate ");
    message.add("requested_bytes", requested);
    message.add("allocated_bytes", size_after(line, "allocated so far: "));
    message.may_go_on = kNext.starts_with(rest) || rest.starts_with(kNext);
    return message;
  }
  return std::nullopt;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "cuda-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = "CUDA ran out of memory";
  if (const auto requested = message.bytes("requested_bytes")) {
    finding.title += ": it was asked for " + format_bytes(*requested);
    const auto allocated = message.bytes("allocated_bytes");
    finding.cause = allocated
                        ? fmt::format("The program held {} itself; the rest was others' or is too small.",
                                      format_bytes(*allocated))
                        : "The message does not tell who held the memory.";
  } else {
    finding.cause = "The message tells neither how much was asked for nor who held the memory.";
  }
  finding.confidence = Confidence::possible;
  finding.cures = {
      {"see who holds the memory while it happens", "headroom top", {}},
      {"measure what the program needs, on the host and on the GPU", "headroom trace -- COMMAND", {}},
      {"on a Jetson, give the page cache back before it starts",
       "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches",
       {}}};
  return finding;
}

}  // namespace

LogRule cuda_rule() {
  return {"cuda", {"ut of memory", "OUT_OF_MEMORY", "cudaErrorMemoryAllocation"}, read, explain};
}

}  // namespace headroom::doctor
