// The CUDA driver's and runtime's own words for memory that ran out, from whatever library.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kHip = "HIP", kNvenc = "NVENC", kNvdec = "NVDEC";

// Which library's words they are; empty: of none that has to do with a GPU.
std::string_view library_of(std::string_view line) {
  const auto has_one_of = [line](const auto& all) {
    return std::any_of(std::begin(all), std::end(all),
                       [line](std::string_view words) { return has(line, words); });
  };
  constexpr std::string_view kEncoder[] = {"OpenEncodeSessionEx", "CreateBitstreamBuffer", "_nvenc @"};
  constexpr std::string_view kCuda[] = {"CUDA",
                                        "cuda",
                                        "Cuda",
                                        "GPUassert: ",
                                        "ut of memory error on GPU ",    // Paddle's
                                        " (error code out of memory)"};  // CUDA's samples'
  constexpr std::string_view kRocm[] = {"HIP error", "HIP out of", "HIPError", "hipError", "hipMalloc"};
  if (has_one_of(kEncoder)) return kNvenc;
  if (has(line, "cuvid") || has(line, "CUVID")) return kNvdec;
  if (has_one_of(kRocm)) return kHip;
  return has_one_of(kCuda) ? "CUDA" : "";
}

// Triton's pool: "Failed to allocate CUDA memory with byte size 102236160 on GPU 0:
// CNMEM_STATUS_OUT_OF_MEMORY, falling back to pinned system memory".
std::optional<LogMessage> read_pool(std::string_view line) {
  const auto fallback = text_after(line, "falling back to ");
  if (!has(line, "CNMEM_STATUS_OUT_OF_MEMORY") || !fallback) return std::nullopt;
  LogMessage message;
  message.subject = "pool";
  message.add("requested_bytes", size_after(line, "with byte size "));
  message.add("fallback", *fallback);
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  if (auto pool = read_pool(line)) return pool;
  LogMessage message;
  // PyTorch's help behind its error: "Search for `cudaErrorMemoryAllocation' in …".
  if (has(line, "Search for `")) return std::nullopt;
  for (const std::string_view words : {"CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation",
                                       "hipErrorOutOfMemory", "out of memory", "Out of memory"}) {
    if (!has(line, words)) continue;
    const std::string_view library = library_of(line);
    if (library.empty()) return std::nullopt;
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
    if (library != "CUDA") message.add("library", library);
    message.goes_on = has(line, "alling back to ");
    message.may_go_on = kNext.starts_with(rest) || rest.starts_with(kNext);
    return message;
  }
  return std::nullopt;
}

Finding explain_pool(const LogMessage& message, Finding finding) {
  finding.severity = Severity::note;
  finding.title =
      fmt::format("A pool of GPU memory had no {} left; it went on with {}",
                  words_for(message.bytes("requested_bytes"), "memory"), message.text("fallback"));
  finding.cause = "The server's pool on the GPU is full: what does not fit is copied from the host's memory.";
  finding.confidence = Confidence::certain;
  const auto requested = message.bytes("requested_bytes");
  finding.cures = {{"give the pool more, in bytes",
                    fmt::format("tritonserver --cuda-memory-pool-byte-size=0:{}",
                                requested && !is_impossible(*requested)
                                    ? std::to_string(mebibytes(mebibytes_above(*requested)).count)
                                    : std::string("BYTES")),
                    {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "cuda-out-of-memory";
  finding.severity = Severity::severe;
  if (message.subject == "pool") return explain_pool(message, finding);
  const std::string library = message.text("library");
  finding.title = (library.empty() ? "CUDA" : library) + " ran out of memory";
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
  if (library == kNvenc)
    finding.cause =
        "The GPU's memory was full, or it has as many encoding sessions as its driver allows: both are told "
        "alike.";
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
  return {"cuda",
          {"ut of memory", "OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "hipErrorOutOfMemory"},
          read,
          explain};
}

}  // namespace headroom::doctor
