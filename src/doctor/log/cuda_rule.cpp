// The CUDA driver's and runtime's own words for memory that ran out, from whatever library.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"
#include "doctor/log/torch_servers.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kHip = "HIP", kNvenc = "NVENC", kNvdec = "NVDEC", kPaddle = "Paddle",
                           kFaiss = "Faiss", kRmm = "RMM", kXgboost = "XGBoost", kNccl = "NCCL",
                           kCycles = "Cycles";
// CuPy's, also where no word before it names CUDA: "Out of memory allocating 8,000 bytes (allocated so far:
// 4,000 bytes, limit set to: 9,000 bytes).", before 7 "out of memory to allocate 8000 bytes (total 12000
// bytes)", with the 8000 in the total.
constexpr std::string_view kOfCupy = " (allocated so far: ", kOfOldCupy = "out of memory to allocate ";

constexpr std::string_view kOfXgboost = "Memory allocation error on worker ";

// Which library's words they are; empty: of none that has to do with a GPU.
std::string_view library_of(std::string_view line) {
  const auto has_one_of = [line](const auto& all) {
    return std::any_of(std::begin(all), std::end(all),
                       [line](std::string_view words) { return has(line, words); });
  };
  constexpr std::string_view kEncoder[] = {"OpenEncodeSessionEx", "CreateBitstreamBuffer", "_nvenc @"};
  constexpr std::string_view kCuda[] = {
      "CUDA", "cuda", "Cuda", "GPUassert: ", kOfCupy, " (error code out of memory)"};  // CUDA's samples'
  constexpr std::string_view kRocm[] = {"HIP error", "HIP out of", "HIPError",
                                        "hipError",  "hipMalloc",  "ROCm error"};
  struct Library {
    std::string_view words, name;
  };
  constexpr Library kLibraries[] = {{"ut of memory error on GPU ", kPaddle},
                                    {"faiss::gpu", kFaiss},
                                    {"Faiss assertion ", kFaiss},
                                    {"alloc fail type ", kFaiss},
                                    {"/rmm/mr/", kRmm},
                                    {"RMM_ERROR_", kRmm},
                                    {kOfXgboost, kXgboost},
                                    {"Cuda failure 'out of memory'", kNccl}};
  for (const auto& [words, name] : kLibraries)
    if (has(line, words)) return name;
  if (has_one_of(kEncoder)) return kNvenc;
  if (has(line, "cuvid") || has(line, "CUVID")) return kNvdec;
  if (has_one_of(kRocm)) return kHip;
  const auto old_cupy = text_after(line, kOfOldCupy);
  return has_one_of(kCuda) || (old_cupy && has(*old_cupy, " bytes (total ")) ? "CUDA" : "";
}

// XGBoost tells its figures on lines of their own, behind the error: "- Free memory: 1048576", "- Requested
// memory: 33554432".
bool lacks_figures_of_xgboost(std::string_view line) {
  return has(line, kOfXgboost) && !has(line, "- Requested memory: ");
}

constexpr const char* kNoPool = "no pool";

// Triton's pool: "Failed to allocate CUDA memory with byte size 102236160 on GPU 0:
// CNMEM_STATUS_OUT_OF_MEMORY, falling back to pinned system memory".
std::optional<LogMessage> read_pool(std::string_view line) {
  const auto fallback = text_after(line, "falling back to ");
  if (fallback && has(line, "failed to allocate pinned system memory: no pinned memory pool, ")) {
    LogMessage message;
    message.subject = kNoPool;
    message.add("fallback", *fallback);
    return message;
  }
  if (!has(line, "CNMEM_STATUS_OUT_OF_MEMORY") || !fallback) return std::nullopt;
  LogMessage message;
  message.subject = "pool";
  message.add("requested_bytes", size_after(line, "with byte size "));
  message.add("fallback", *fallback);
  return message;
}

constexpr const char *kOwnPool = "own pool", *kOtherError = "other error";

// Few of those who tell it know a figure.
void read_figures(std::string_view line, LogMessage& message) {
  auto requested = size_after(line, "ut of memory allocating ");
  if (const auto old_cupy = text_after(line, kOfOldCupy)) {
    requested = leading_size(*old_cupy);
    const auto total = size_after(*old_cupy, " bytes (total ");
    if (requested && total && *total >= *requested) message.add("allocated_bytes", *total - *requested);
  }
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
  // "Failed to cudaMalloc 536870912 bytes on device 1 (error 2 out of memory", before 1.7 without the device.
  if (const auto of_malloc = text_after(line, "ailed to cudaMalloc ")) {
    requested = leading_size(*of_malloc);
    message.add("gpu", integer_after(*of_malloc, " bytes on device "));
  }
  // RMM since 24.12: "CUDA error (failed to allocate 8000000000 bytes) at: …/cuda_memory_resource.hpp:62: …"
  if (const auto of_rmm = text_after(line, "(failed to allocate ")) requested = leading_size(*of_rmm);
  if (const auto of_xgboost = text_after(line, kOfXgboost)) {
    message.add("free_bytes", size_after(*of_xgboost, "- Free memory: "));
    requested = size_after(*of_xgboost, "- Requested memory: ");
  }
  message.add("requested_bytes", requested);
  message.add("allocated_bytes", size_after(line, "allocated so far: "));
  message.add("limit_bytes", size_after(line, "limit set to: "));
}

// RMM, the allocator of RAPIDS: C++'s exception of host memory, thrown for the GPU's. "std::bad_alloc: RMM
// failure at: …/rmm/mr/device/pool_memory_resource.hpp:179: Maximum pool size exceeded", "std::bad_alloc:
// out_of_memory: CUDA error at: …/rmm/mr/device/cuda_memory_resource.hpp", "rmm.rmm.RMMError:
// RMM_ERROR_OUT_OF_MEMORY".
std::optional<LogMessage> read_rmm(std::string_view line) {
  const bool is_pool = has(line, "Maximum pool size exceeded") && has(line, "/rmm/mr/");
  const bool is_device = has(line, "std::bad_alloc") && has(line, "/rmm/mr/");
  if (!is_pool && !is_device && !has(line, "RMM_ERROR_OUT_OF_MEMORY")) return std::nullopt;
  LogMessage message;
  read_figures(line, message);
  message.add("library", kRmm);
  if (is_pool) message.subject = kOwnPool;
  // "std::bad_alloc: CUDA error at: …: cudaErrorIllegalAddress an illegal memory access was encountered"
  const std::size_t error = line.find("cudaError");
  if (error != line.npos && !line.substr(error).starts_with("cudaErrorMemoryAllocation")) {
    message.subject = kOtherError;
    message.add("code", line.substr(error, line.substr(error).find_first_of(" :,)")));
  }
  return message;
}

// Words that name no want of memory and stand for nothing else: "System is out of GPU and shared host memory"
// of Blender's Cycles, "'cudaMalloc(p, size) == cudaSuccess' failed" of Faiss and others (possible), and
// Paddle's of 2018, "enforce allocating <= available failed, 10513462067 > 1369702144".
std::optional<LogMessage> read_unnamed(std::string_view line) {
  LogMessage message;
  if (has(line, "System is out of GPU and shared host memory")) {
    message.add("library", kCycles);
    return message;
  }
  const std::size_t assertion = line.find(") == cudaSuccess' failed");
  const bool is_other = has(line, "CUDA error ") && !has(line, "CUDA error 2 ");
  if (assertion != line.npos && has(line.substr(0, assertion), "'cudaMalloc(") && !is_other) {
    if (const std::string_view library = library_of(line); library == kFaiss) message.add("library", library);
    return message;
  }
  if (const auto of_paddle = text_after(line, "enforce allocating <= available failed, ")) {
    message.add("library", kPaddle);
    message.add("requested_bytes", leading_size(*of_paddle));
    message.add("free_bytes", size_after(*of_paddle, " > "));
    return message;
  }
  return std::nullopt;
}

std::optional<LogMessage> read_any(std::string_view line) {
  for (const auto& read_form : {read_pool, read_rmm, read_unnamed})
    if (auto message = read_form(line)) return message;
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

// "C:\src\app.cu", and not "error:\n" of a text that was escaped.
bool has_windows_path(std::string_view line) {
  const auto is_letter = [&](std::size_t at) {
    return std::isalpha(static_cast<unsigned char>(line[at])) != 0;
  };
  for (std::size_t at = line.find(":\\"); at != line.npos; at = line.find(":\\", at + 1))
    if (at > 0 && is_letter(at - 1) && (at == 1 || !is_letter(at - 2))) return true;
  return false;
}

std::optional<LogMessage> read(std::string_view line) {
  auto message = read_any(line);
  if (!message) return message;
  message->add("runtime", torch_server_of_message(line));
  if (has_windows_path(line)) message->add("system", "Windows");
  return message;
}

Finding explain_pool(const LogMessage& message, Finding finding) {
  finding.severity = Severity::note;
  finding.title =
      fmt::format("A pool of GPU memory had no {} left; the server continued with {}",
                  words_for(message.bytes("requested_bytes"), "memory"), message.text("fallback"));
  finding.cause = "The server's pool on the GPU is full. The server copies the rest from the host's memory.";
  finding.confidence = Confidence::certain;
  const auto requested = message.bytes("requested_bytes");
  finding.cures = {{"make the pool larger, in bytes",
                    fmt::format("tritonserver --cuda-memory-pool-byte-size=0:{}",
                                requested && !is_impossible(*requested)
                                    ? std::to_string(mebibytes(mebibytes_above(*requested)).count)
                                    : std::string("BYTES")),
                    {}}};
  return finding;
}

Finding explain_no_pool(const LogMessage& message, Finding finding) {
  finding.severity = Severity::note;
  finding.title =
      fmt::format("Triton has no pool of pinned memory; it continued with {}", message.text("fallback"));
  finding.cause =
      "Nothing failed, but copies to a GPU are slower. Either Triton sees no GPU, or the size of the pool is "
      "set to 0.";
  finding.confidence = Confidence::certain;
  finding.cures = {
      {"check whether the driver sees the GPU", "nvidia-smi", {}},
      {"set the size of the pool, in bytes", "tritonserver --pinned-memory-pool-byte-size=268435456", {}}};
  return finding;
}

// RMM tells whatever error CUDA had as C++'s and Python's want of memory.
Finding explain_other_error(const LogMessage& message, Finding finding) {
  finding.severity = Severity::note;
  finding.title = fmt::format("RMM reported a CUDA error as std::bad_alloc: {}", message.text("code"));
  finding.cause =
      "Memory did not run out. An earlier GPU operation failed, and this call is the first to report it.";
  finding.confidence = Confidence::certain;
  finding.cures = {{"see which call failed", "CUDA_LAUNCH_BLOCKING=1", {}}};
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
  if (message.subject == kOwnPool)
    return "The program's own pool of GPU memory (RMM) reached the limit that the program set.";
  if (is_at_own_limit(message))
    return fmt::format("CuPy's pool reached the limit that the program set: it held {} of {}.",
                       format_bytes(*allocated), format_bytes(*message.bytes("limit_bytes")));
  if (used && free)
    return fmt::format("{} of the GPU's memory were in use, by this program and others; {} were free.",
                       format_bytes(*used), format_bytes(*free));
  if (free) return fmt::format("Only {} of the GPU's memory were free.", format_bytes(*free));
  if (allocated)
    return fmt::format(
        "The program itself held {}. Other processes held the rest, or the rest was too small.",
        format_bytes(*allocated));
  return requested ? "The message does not say which process held the memory."
                   : "The message says neither how much was requested nor which process held the memory.";
}

// What the library has of its own, before what helps with any.
void add_library_cures(const LogMessage& message, std::vector<Cure>& cures) {
  const auto requested = message.bytes("requested_bytes");
  if (is_at_own_limit(message)) {
    const Bytes needed = *message.bytes("allocated_bytes") + *requested;
    cures.push_back({"raise or remove (0) CuPy's limit, also in CUPY_GPU_MEMORY_LIMIT",
                     is_impossible(needed)
                         ? std::string("cupy.get_default_memory_pool().set_limit(size=0)")
                         : fmt::format("cupy.get_default_memory_pool().set_limit(size={})", needed.count),
                     {}});
  }
  const std::string library = message.text("library");
  if (message.subject == kOwnPool)
    cures.push_back({"let the pool grow up to the size of the GPU's memory",
                     "rmm.reinitialize(pool_allocator=True, maximum_pool_size=None)",
                     {}});
  if (library == kRmm) {
    cures.push_back({"use managed memory, which moves to the host what does not fit (slower)",
                     "rmm.reinitialize(managed_memory=True)",
                     {}});
    cures.push_back({"read and compute in parts", "dask_cudf.read_parquet(path, split_row_groups=True)", {}});
  }
  if (library == kPaddle) {
    cures.push_back(half_of_batch(requested));
    cures.push_back({"allocate memory on demand, so that other processes get memory too",
                     "FLAGS_allocator_strategy=auto_growth",
                     {}});
  }
  if (library == kXgboost)
    cures.push_back(
        {"store the data compressed, in fewer bins", "xgboost.QuantileDMatrix(X, y, max_bin=64)", {}});
  if (library == kCycles) {
    cures.push_back({"render with a lower texture resolution", "Simplify > Texture Limit", {}});
    cures.push_back({"render in smaller tiles", "Performance > Memory > Use Tiling", {}});
  }
  if (message.bytes("allocated_bytes"))
    cures.push_back(
        {"release idle blocks to the GPU", "cupy.get_default_memory_pool().free_all_blocks()", {}});
  if (message.text("wanted") == "TemporaryMemoryBuffer")
    cures.push_back({"give Faiss a smaller temporary buffer: 256 MiB here, up to 1.5 GiB by default",
                     "res.setTempMemory(256 * 1024 * 1024)",
                     {}});
  if (message.text("wanted") == "TemporaryMemoryOverflow")
    cures.push_back(
        {"search for fewer vectors at once: the temporary buffer of Faiss grows with their number",
         "index.search(queries[i:i + 1024], k)",
         {}});
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "cuda-out-of-memory";
  finding.severity = Severity::severe;
  if (message.subject == "pool") return explain_pool(message, finding);
  if (message.subject == kNoPool) return explain_no_pool(message, finding);
  if (message.subject == kOtherError) return explain_other_error(message, finding);
  const std::string library = message.text("library");
  const bool is_on_gpu = library != kHip && library != kNvenc && library != kNvdec && !library.empty();
  finding.title =
      fmt::format("{} ran out of {}memory", library.empty() ? "CUDA" : library, is_on_gpu ? "GPU " : "");
  if (message.subject == kOwnPool) finding.title = "RMM reached the limit of its pool of GPU memory";
  if (is_at_own_limit(message)) finding.title = "CuPy reached the GPU memory limit that the program set";
  if (const auto requested = message.bytes("requested_bytes"))
    finding.title += ": the program asked for " + format_bytes(*requested);
  finding.cause = cause_of(message);
  const bool is_own_limit = is_at_own_limit(message) || message.subject == kOwnPool;
  finding.confidence = is_own_limit                  ? Confidence::certain
                       : message.bytes("free_bytes") ? Confidence::likely
                                                     : Confidence::possible;
  if (library == kNvenc)
    finding.cause =
        "The GPU's memory was full, or the GPU runs as many encoding sessions as its driver allows. The "
        "driver reports both with the same error.";
  add_library_cures(message, finding.cures);
  finding.first_cure_meets_cause = is_own_limit;
  if (const TorchServer* const server = torch_server_of(message))
    add_server_cures(*server, message, finding.cures);
  finding.cures.push_back({"see which processes hold the memory while it happens", "headroom top", {}});
  finding.cures.push_back({"measure how much memory the program needs, on the host and on the GPU",
                           "headroom trace -- COMMAND",
                           {}});
  // What runs on no Jetson: the others' libraries, more than one GPU, and Windows.
  const bool may_be_jetson = !is_on_gpu && library != kHip && message.number("gpu").value_or(0) == 0 &&
                             message.text("system").empty();
  if (!is_own_limit && may_be_jetson)
    finding.cures.push_back({"on a Jetson, drop the page cache before the program starts",
                             "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches",
                             {}});
  return finding;
}

}  // namespace

LogRule cuda_rule() {
  return {"cuda",
          {"ut of memory", "OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "hipErrorOutOfMemory",
           // From where two bytes are rare together (anchor_search.h).
           "n-pinned system memory", "rmm/mr/", "f GPU and shared host memory", "udaSuccess' failed",
           "ing <= available failed"},
          read,
          explain};
}

}  // namespace headroom::doctor
