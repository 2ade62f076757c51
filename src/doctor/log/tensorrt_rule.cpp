// TensorRT ran out of memory while it built or ran an engine.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::size_t kLongestNode = 100;
// What it is, where it is not the usual want of GPU memory for weights, activations and workspace.
constexpr const char *kStart = "start", *kAllocation = "allocation", *kCache = "cache";
constexpr std::string_view kTensorrtLlm = "TensorRT-LLM";
// Of a built engine: its weights come to the GPU as it is loaded, its activations as a context is made.
constexpr std::string_view kLoad = "load", kContext = "context";
// All three or the second alone: trtexec refuses the others.
constexpr std::string_view kSmallerShapes =
    "trtexec --onnx=model.onnx --minShapes=INPUT:SHAPE --optShapes=INPUT:SHAPE --maxShapes=INPUT:SHAPE";
constexpr std::string_view kGpuMemory = "GPU memory";  // as tensorrt_node_rule.cpp reads it

// Of the builder, which may leave out the tactic that asked, or of an allocator that works for it, too. Who
// loads or runs an engine has no other tactic.
bool may_be_builder(std::string_view line) {
  for (const std::string_view words :
       {"Requested amount of GPU memory (", "Requested amount of memory (", "getBestTactic",
        "virtualMemoryBuffer", "defaultAllocator", "uilder", "optimizer"})
    if (has(line, words)) return true;
  return false;
}

std::string_view phase_of(std::string_view line) {
  if (has(line, "eserializeEngine") || has(line, "eserializeCudaEngine")) return kLoad;
  return has(line, "createExecutionContext") || has(line, "executionContext.cpp") ? kContext : "";
}

// "[E] Engine deserialization failed", "INVALID_CONFIG: Deserialize the cuda engine failed.": behind a
// refusal it tells what that was for; alone it may have any reason.
std::optional<LogMessage> read_load(std::string_view line) {
  if (!has(line, "ngine deserialization failed") && !has(line, "eserialize the cuda engine failed"))
    return std::nullopt;
  LogMessage message;
  message.add("phase", kLoad);
  message.part = "load";
  message.is_addition = true;
  return message;
}

// "[TRT] CUDA initialization failure with error: 2": of CUDA's numbers that alone is of memory.
std::optional<LogMessage> read_start(std::string_view line) {
  constexpr std::int64_t kNoMemory = 2;
  if (integer_after(line, "CUDA initialization failure with error: ") != kNoMemory) return std::nullopt;
  LogMessage message;
  message.subject = kStart;
  message.is_final = true;
  message.add("phase", kStart);
  return message;
}

// "FAILED_ALLOCATION: std::bad_alloc", "…: std::exception": TensorRT's name for a want of memory, of the host
// too, and of other exceptions as well: "…: basic_string::_S_construct null not valid".
std::optional<LogMessage> read_allocation(std::string_view line) {
  const auto exception = text_after(line, "FAILED_ALLOCATION: ");
  if (!exception) return std::nullopt;
  LogMessage message;
  message.subject = kAllocation;
  message.is_final = true;
  if (exception->starts_with("std::bad_alloc"))
    message.add("memory", "host");
  else if (!exception->starts_with("std::exception"))
    return std::nullopt;
  return message;
}

// TensorRT-LLM: "maxTokensInPagedKvCache must be large enough to process at least 1 sequence to completion".
std::optional<LogMessage> read_cache(std::string_view line) {
  if (!has(line, "axTokensInPagedKvCache must be large enough") || has(line, "ASSERT(")) return std::nullopt;
  LogMessage message;
  message.subject = kCache;
  message.is_final = true;
  message.add("runtime", kTensorrtLlm);
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  for (const auto& read_form : {read_start, read_allocation, read_cache, read_load})
    if (auto message = read_form(line)) return message;
  const bool asked =
      has(line, "Requested amount of GPU memory (") || has(line, "Requested amount of memory (");
  const bool is_tensorrt = asked || has(line, "TRT") || has(line, "TensorRT") || has(line, "rtSafe") ||
                           has(line, "virtualMemoryBuffer") || has(line, "Error Code 2: OutOfMemory") ||
                           has(line, "defaultAllocator.cpp") ||
                           has(line, "Error Code 1: Cuda Runtime") ||  // trtexec's own lines
                           has(line, "during getBestTactic");
  if (!is_tensorrt) return std::nullopt;
  const auto tactic = text_after(line, "ut of memory error during getBestTactic: ");
  const bool failed = asked || tactic || has(line, "OutOfMemory") || has(line, "out of memory");
  if (!failed) return std::nullopt;
  LogMessage message;
  bool is_size_told = false;
  for (const std::string_view words : {"Requested amount of GPU memory (", "Requested amount of memory (",
                                       "requested size of ", "Requested size was "})
    is_size_told = is_size_told || add_requested(message, text_after(line, words));
  if (has(line, "[TensorRT-LLM]")) message.add("runtime", kTensorrtLlm);
  if (tactic) message.add("node", trim(tactic->substr(0, kLongestNode)));
  const std::string_view phase = phase_of(line);
  message.part = tactic ? "tactic" : !phase.empty() ? phase : is_size_told ? "request" : "error";
  message.is_final = !phase.empty() || !may_be_builder(line);
  message.add("phase", phase);
  if (asked || !phase.empty()) message.add("lacked", kGpuMemory);
  return message;
}

Finding explain_start(Finding finding) {
  finding.title = "TensorRT could not allocate GPU memory for its CUDA context";
  finding.cause = "The GPU was full before TensorRT started: CUDA itself reported out of memory (error 2).";
  finding.confidence = Confidence::certain;
  finding.cures = {{"find the process that holds the memory, and end it", "headroom top", {}},
                   {"on a Jetson, drop the page cache before the program starts",
                    "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches",
                    {}}};
  return finding;
}

Finding explain_allocation(const LogMessage& message, Finding finding) {
  const bool on_host = message.text("memory") == "host";
  finding.title = on_host ? "TensorRT could not allocate host memory"
                          : "TensorRT could not allocate memory (FAILED_ALLOCATION)";
  finding.cause =
      on_host ? "A build holds several copies of the weights in host memory, and the host had too little."
              : "The message does not say whether the host's memory or the GPU's was full.";
  finding.confidence = on_host ? Confidence::likely : Confidence::possible;
  finding.cures = {
      {"see which processes hold the memory while it happens", "headroom top", {}},
      {"build in a separate process before the others start", "headroom build-engine model.onnx", {}},
      {"measure how much memory it needs, on the host and on the GPU",
       "headroom trace -- trtexec --onnx=model.onnx",
       {}}};
  return finding;
}

// The bound on the workspace is the builder's, and frees nothing of an engine that is built.
void add_context_cures(std::vector<Cure>& cures) {
  cures = {{"build the engine for a smaller batch or input: a context allocates memory for the largest",
            std::string(kSmallerShapes),
            {}},
           {"create fewer contexts (trtexec --infStreams=1): each context holds its own activations", "", {}},
           {"let contexts that never run at the same time share one block of memory (before TensorRT 10: "
            "createExecutionContextWithoutDeviceMemory())",
            "createExecutionContext(ExecutionContextAllocationStrategy::kUSER_MANAGED), setDeviceMemoryV2()",
            {}}};
}

void add_load_cures(std::vector<Cure>& cures) {
  cures = {
      {"load each engine once, and create a context for each thread: contexts share the weights", "", {}},
      {"keep part of the weights in host memory (TensorRT 10; programs call setWeightStreamingBudgetV2(); no "
       "gain on a Jetson, whose GPU shares the host's memory)",
       "trtexec --onnx=model.onnx --stronglyTyped --allowWeightStreaming --weightStreamingBudget=50%",
       {}}};
}

Finding explain_built(const LogMessage& message, Finding finding) {
  const bool is_load = message.text("phase") == kLoad;
  const std::string words = words_for_requested(message, "");
  finding.title = fmt::format("TensorRT ran out of memory {} a built engine{}",
                              is_load ? "while it loaded" : "for a context of",
                              words.empty() ? "" : ": it asked for " + words);
  finding.cause = is_load ? "The engine's weights did not fit in the free memory."
                          : "Each execution context allocates activations for the largest shapes of the "
                            "engine. They did not fit in the memory that was left after the weights.";
  finding.confidence = Confidence::likely;
  if (is_load)
    add_load_cures(finding.cures);
  else
    add_context_cures(finding.cures);
  const std::vector<Cure> others{{"build the engine with half precision: weights and activations take half "
                                  "(--int8: a quarter, if the model is calibrated)",
                                  "trtexec --onnx=model.onnx --fp16 --saveEngine=model.engine",
                                  {}},
                                 {"find the process that holds the rest, and end it", "headroom top", {}},
                                 {"measure the memory that the engine needs to load and to run",
                                  "headroom bench --backend tensorrt --model NAME=model.engine --source DIR",
                                  {}}};
  finding.cures.insert(finding.cures.end(), others.begin(), others.end());
  return finding;
}

// Its engine is built and runs: what it takes beside the weights is bounded by settings of its own.
Finding explain_llm(const LogMessage& message, Finding finding) {
  const bool is_cache = message.subject == kCache;
  const std::string words = words_for_requested(message, "");
  finding.title =
      is_cache ? "TensorRT-LLM's key-value cache is too small for one sequence"
               : "TensorRT-LLM ran out of GPU memory" + (words.empty() ? "" : ": it asked for " + words);
  finding.cause =
      is_cache
          ? "The cache holds less than one sequence of the largest length. Weights and activations leave too "
            "little GPU memory, or max_tokens_in_paged_kv_cache is too small."
          : "The weights, the activations of a batch and the key-value cache did not fit in the free memory.";
  finding.confidence = is_cache ? Confidence::certain : Confidence::likely;
  const Cure share{is_cache ? "give the cache a larger share of the free memory"
                            : "give the cache a smaller share of the free memory (default: 0.9)",
                   is_cache ? "kv_cache_free_gpu_mem_fraction: SHARE, above the current one"
                            : "kv_cache_free_gpu_mem_fraction: 0.8",
                   {}};
  finding.cures = {
      share,
      {"build the engine for fewer requests and tokens at once",
       "trtllm-build --max_batch_size N --max_num_tokens N, below the current ones",
       {}},
      {"build the engine for shorter sequences", "trtllm-build --max_seq_len N, below the current one", {}},
      {"store the weights in 8 or 4 bits", "quantize.py --qformat fp8", {}},
      {"see which other processes hold GPU memory", "headroom top", {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes");
  const std::string words = words_for_requested(message, "");
  Finding finding;
  finding.id = "tensorrt-out-of-memory";
  finding.severity = Severity::severe;
  if (message.subject == kStart) return explain_start(finding);
  if (message.subject == kAllocation) return explain_allocation(message, finding);
  if (message.text("runtime") == kTensorrtLlm && !has_wrong_size(message))
    return explain_llm(message, finding);
  finding.title = "TensorRT ran out of memory" + (words.empty() ? "" : ": it asked for " + words);
  if (has_wrong_size(message)) {
    finding.cause = cause_of_wrong_size(message);
    finding.confidence = Confidence::likely;
    finding.cures = {{"check the largest shapes that the engine supports", std::string(kSmallerShapes), {}}};
    return finding;
  }
  if (!message.text("phase").empty()) return explain_built(message, std::move(finding));
  finding.cause =
      "The engine's weights, its activations or the build's workspace did not fit in the free memory.";
  finding.confidence = Confidence::likely;
  constexpr std::int64_t kLeast = 16;  // MiB
  const std::string workspace =
      requested ? std::to_string(std::max(kLeast, requested->count / 2 / mebibytes(1).count)) : "MIB";
  finding.cures = {
      {requested ? "build with a workspace of half this request"
                 : "build with a smaller workspace, below what is free",
       "trtexec --onnx=model.onnx --memPoolSize=workspace:" + workspace,
       requested ? std::optional(Bytes{requested->count / 2}) : std::nullopt},
      {"build with half precision: weights and activations take half",
       "trtexec --onnx=model.onnx --fp16",
       {}},
      {"build in a separate process before the others start", "headroom build-engine model.onnx", {}},
      {"measure the memory that the engine needs to load and to run",
       "headroom bench --backend tensorrt --model NAME=model.engine --source DIR",
       {}}};
  return finding;
}

}  // namespace

LogRule tensorrt_rule() {
  LogRule rule{"tensorrt",
               {"OutOfMemory", "ut of memory", "Requested amount of GPU memory", "Requested amount of memory",
                "FAILED_ALLOCATION", "CUDA initialization failure with error", "PagedKvCache must",
                "deserialization failed", "eserialize the cuda engine"},
               read,
               explain};
  rule.figures_for = rule.told_better_by = "tensorrt-node";  // why no tactic for a node was left
  return rule;
}

}  // namespace headroom::doctor
