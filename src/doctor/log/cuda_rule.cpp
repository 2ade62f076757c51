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

// XGBoost tells its figures on lines of their own, behind the error: "- Free memory: 1048576", "- Requested
// memory: 33554432".
constexpr std::string_view kOfXgboost = "Memory allocation error on worker ";
bool lacks_figures_of_xgboost(std::string_view line) {
  return has(line, kOfXgboost) && !has(line, "- Requested memory: ");
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

// Few of those who tell it know a figure.
void read_figures(std::string_view line, LogMessage& message) {
  // CuPy: "Out of memory allocating 8,000 bytes (allocated so far: 4,000 bytes, limit set to: 9,000 bytes)."
  auto requested = size_after(line, "ut of memory allocating ");
  // Paddle: "Cannot allocate 1.5GB memory on GPU 0, 7.2GB memory has been allocated and available memory is
  // only 512MB.": by all programs on the GPU, as the driver counts.
  if (const auto of_paddle = text_after(line, "Cannot allocate ");
      of_paddle && has(*of_paddle, "memory on GPU ")) {
    requested = leading_size(*of_paddle);
    message.add("gpu", integer_after(*of_paddle, "memory on GPU "));
    message.add("used_bytes", size_after(*of_paddle, ", "));
    message.add("free_bytes", size_after(*of_paddle, "available memory is only "));
  }
  // Faiss: "StandardGpuResources: alloc fail type TemporaryMemoryOverflow dev 0 space Device stream 0x1 size
  // 1610612736 bytes (cudaMalloc error out of memory [2])".
  if (const auto of_faiss = text_after(line, "alloc fail type ")) {
    requested = size_after(*of_faiss, " size ");
    message.add("gpu", integer_after(*of_faiss, " dev "));
    message.add("wanted", of_faiss->substr(0, of_faiss->find(' ')));
  }
  if (const auto of_xgboost = text_after(line, kOfXgboost)) {
    message.add("free_bytes", size_after(*of_xgboost, "- Free memory: "));
    requested = size_after(*of_xgboost, "- Requested memory: ");
  }
  message.add("requested_bytes", requested);
  message.add("allocated_bytes", size_after(line, "allocated so far: "));
  message.add("limit_bytes", size_after(line, "limit set to: "));
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
    read_figures(line, message);
    if (library != "CUDA") message.add("library", library);
    message.goes_on = has(line, "alling back to ");
    message.may_go_on = kNext.starts_with(rest) || rest.starts_with(kNext) || lacks_figures_of_xgboost(line);
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

// CuPy counts what its pool holds, and gives no more than it was told to.
bool is_at_own_limit(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes"), allocated = message.bytes("allocated_bytes"),
             limit = message.bytes("limit_bytes");
  return requested && allocated && limit && *limit - *allocated < *requested;
}

std::string cause_of(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes"), allocated = message.bytes("allocated_bytes"),
             used = message.bytes("used_bytes"), free = message.bytes("free_bytes");
  if (is_at_own_limit(message))
    return fmt::format("The limit that the program set itself is used up: CuPy's pool held {} of {}.",
                       format_bytes(*allocated), format_bytes(*message.bytes("limit_bytes")));
  if (used && free)
    return fmt::format("{} of the GPU were in use, by this program and by others, and {} were free.",
                       format_bytes(*used), format_bytes(*free));
  if (free) return fmt::format("Only {} of the GPU were free.", format_bytes(*free));
  if (allocated)
    return fmt::format("The program held {} itself; the rest was others' or is too small.",
                       format_bytes(*allocated));
  return requested ? "The message does not tell who held the memory."
                   : "The message tells neither how much was asked for nor who held the memory.";
}

// What the library has of its own, before what helps with any.
void add_library_cures(const LogMessage& message, std::vector<Cure>& cures) {
  const auto requested = message.bytes("requested_bytes");
  if (is_at_own_limit(message)) {
    const Bytes needed = *message.bytes("allocated_bytes") + *requested;
    cures.push_back({"raise or take away CuPy's limit (0), or CUPY_GPU_MEMORY_LIMIT",
                     is_impossible(needed)
                         ? std::string("cupy.get_default_memory_pool().set_limit(size=0)")
                         : fmt::format("cupy.get_default_memory_pool().set_limit(size={})", needed.count),
                     {}});
  }
  if (message.bytes("allocated_bytes"))
    cures.push_back(
        {"give idle blocks back to the GPU", "cupy.get_default_memory_pool().free_all_blocks()", {}});
  if (message.text("wanted") == "TemporaryMemoryOverflow")
    cures.push_back({"search for fewer vectors at once: what Faiss needs for the time grows with them",
                     "index.search(queries[i:i + 1024], k)",
                     {}});
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "cuda-out-of-memory";
  finding.severity = Severity::severe;
  if (message.subject == "pool") return explain_pool(message, finding);
  const std::string library = message.text("library");
  finding.title = (library.empty() ? "CUDA" : library) + " ran out of memory";
  if (is_at_own_limit(message)) finding.title = "CuPy reached the limit of GPU memory that it was set";
  if (const auto requested = message.bytes("requested_bytes"))
    finding.title += ": it was asked for " + format_bytes(*requested);
  finding.cause = cause_of(message);
  finding.confidence = is_at_own_limit(message)      ? Confidence::certain
                       : message.bytes("free_bytes") ? Confidence::likely
                                                     : Confidence::possible;
  if (library == kNvenc)
    finding.cause =
        "The GPU's memory was full, or it has as many encoding sessions as its driver allows: both are told "
        "alike.";
  add_library_cures(message, finding.cures);
  finding.first_cure_meets_cause = is_at_own_limit(message);
  finding.cures.push_back({"see who holds the memory while it happens", "headroom top", {}});
  finding.cures.push_back(
      {"measure what the program needs, on the host and on the GPU", "headroom trace -- COMMAND", {}});
  if (!is_at_own_limit(message))
    finding.cures.push_back({"on a Jetson, give the page cache back before it starts",
                             "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches",
                             {}});
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
