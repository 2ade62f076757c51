// TensorRT and TensorRT-LLM: building an engine, loading one, and running one.
#include <algorithm>

#include "doctor/log/common_cures.h"
#include "doctor/log/line_pattern.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// All three or the second alone: trtexec refuses the others.
constexpr std::string_view kSmallerShapes =
    "trtexec --onnx=model.onnx --minShapes=INPUT:SHAPE --optShapes=INPUT:SHAPE --maxShapes=INPUT:SHAPE";
constexpr std::string_view kWorkspaceAbove =
    "trtexec --onnx=model.onnx --memPoolSize=workspace:{requested_bytes:mib_above|MIB}";
constexpr CureRow kHalfPrecisionBuild{"build with half precision: tactics then need half of the memory",
                                      "trtexec --onnx=model.onnx --fp16"},
    kMeasureEngine{"measure the memory that the engine needs to load and to run",
                   "headroom bench --backend tensorrt --model NAME=model.engine --source DIR"};

using Texts = std::initializer_list<std::string_view>;

bool tells_tensorrt_memory(std::string_view line) {
  const bool asked = has_any(line, Texts{"Requested amount of GPU memory (", "Requested amount of memory ("});
  // "Error Code 1: Cuda Runtime" stands in trtexec's own lines.
  const bool is_tensorrt =
      has_any(line, Texts{"TRT", "TensorRT", "rtSafe", "virtualMemoryBuffer", "Error Code 2: OutOfMemory",
                          "defaultAllocator.cpp", "Error Code 1: Cuda Runtime", "during getBestTactic"});
  return asked || (is_tensorrt && has_any(line, Texts{"OutOfMemory", "out of memory",
                                                      "ut of memory error during getBestTactic"}));
}

std::string_view phase_of(std::string_view line) {
  if (has_any(line, Texts{"eserializeEngine", "eserializeCudaEngine"})) return "load";
  return has_any(line, Texts{"createExecutionContext", "executionContext.cpp"}) ? "context" : "";
}

// The builder may leave out the tactic that asked, and so may an allocator that works for it. A program that
// loads or runs an engine has no other tactic.
void add_tensorrt_phase(std::string_view line, LogMessage& message) {
  const bool asked = has_any(line, Texts{"Requested amount of GPU memory (", "Requested amount of memory ("});
  const bool may_be_builder = asked || has_any(line, Texts{"getBestTactic", "virtualMemoryBuffer",
                                                           "defaultAllocator", "uilder", "optimizer"});
  const std::string_view phase = phase_of(line);
  const bool is_size_told = !message.text("wrong_size").empty() || message.bytes("requested_bytes");
  message.part = !message.text("node").empty() ? "tactic"
                 : !phase.empty()              ? phase
                 : is_size_told                ? "request"
                                               : "error";
  message.is_final = !phase.empty() || !may_be_builder;
  message.add("phase", phase);
  if (asked || !phase.empty()) message.add("lacked", "GPU memory");
}

// TensorRT 8 prints MiB without a unit: "size of 449" behind "request: 448MB". TensorRT 7 prints bytes.
void read_mebibytes(std::string_view, LogMessage& message) {
  constexpr std::int64_t kLeastBytes = 1 << 20;
  const auto requested = message.number("requested_bytes");
  if (requested && *requested < kLeastBytes) message.set({"requested_bytes", mebibytes(*requested).count});
}

void trim_node(std::string_view, LogMessage& message) {
  std::string name = message.text("node");
  while (!name.empty() && std::string_view(".) \"\n").find(name.back()) != std::string_view::npos)
    name.pop_back();
  message.set({"node", name});
}

// A message of the engine that is built, or of none.
std::vector<Explanation> explanations_of_engine() {
  constexpr std::string_view kId = "tensorrt-out-of-memory";
  const std::vector<CureRow> load{
      {"load each engine once, and create a context for each thread: contexts share the weights"},
      {"keep part of the weights in host memory (TensorRT 10; programs call setWeightStreamingBudgetV2(); no "
       "gain "
       "on a Jetson, whose GPU shares the host's memory)",
       "trtexec --onnx=model.onnx --stronglyTyped --allowWeightStreaming --weightStreamingBudget=50%"}};
  const std::vector<CureRow> context{
      {"build the engine for a smaller batch or input: a context allocates memory for the largest",
       kSmallerShapes},
      {"create fewer contexts (trtexec --infStreams=1): each context holds its own activations"},
      {"let contexts that never run at the same time share one block of memory (before TensorRT 10: "
       "createExecutionContextWithoutDeviceMemory())",
       "createExecutionContext(ExecutionContextAllocationStrategy::kUSER_MANAGED), setDeviceMemoryV2()"}};
  const std::vector<CureRow> both{{"build the engine with half precision: weights and activations take half "
                                   "(--int8: a quarter, if the model "
                                   "is calibrated)",
                                   "trtexec --onnx=model.onnx --fp16 --saveEngine=model.engine"},
                                  kEndHolderOfRest,
                                  kMeasureEngine};
  return {
      {.when = "phase=load",
       .id = kId,
       .title = "TensorRT ran out of memory while it loaded a built engine[[: it asked for {requested}]]",
       .cause = "The engine's weights did not fit in the free memory.",
       .cures = joined<CureRow>({load, both})},
      {.when = "phase=context",
       .id = kId,
       .title = "TensorRT ran out of memory for a context of a built engine[[: it asked for {requested}]]",
       .cause = "Each execution context allocates activations for the largest shapes of the engine. They did "
                "not fit in the memory that was left after the weights.",
       .cures = joined<CureRow>({context, both})},
      {.id = kId,
       .title = "TensorRT ran out of memory[[: it asked for {requested}]]",
       .cause =
           "The engine's weights, its activations or the build's workspace did not fit in the free memory.",
       .cures = {{"build with a workspace of half this request",
                  "trtexec --onnx=model.onnx --memPoolSize=workspace:{requested_bytes/2:mib_16}",
                  "requested_bytes/2"},
                 {"build with a smaller workspace, below what is free",
                  "trtexec --onnx=model.onnx --memPoolSize=workspace:MIB", "", "!requested_bytes"},
                 {"build with half precision: weights and activations take half",
                  "trtexec --onnx=model.onnx --fp16"},
                 {"build in a separate process before the others start", "headroom build-engine model.onnx"},
                 kMeasureEngine}}};
}

// TensorRT-LLM's engine is built: settings of its own bound what it takes beside the weights.
std::vector<Explanation> explanations_of_llm() {
  const std::vector<CureRow> cures{
      {"build the engine for fewer requests and tokens at once",
       "trtllm-build --max_batch_size N --max_num_tokens N, below the current ones"},
      {"build the engine for shorter sequences", "trtllm-build --max_seq_len N, below the current one"},
      {"store the weights in 8 or 4 bits", "quantize.py --qformat fp8"},
      kSeeOthersOnGpu};
  const std::vector<CureRow> cache{{"give the cache a larger share of the free memory",
                                    "kv_cache_free_gpu_mem_fraction: SHARE, above the current one"}},
      other{{"give the cache a smaller share of the free memory (default: 0.9)",
             "kv_cache_free_gpu_mem_fraction: 0.8"}};
  return {
      {.when = "subject=cache",
       .id = "tensorrt-out-of-memory",
       .confidence = Confidence::certain,
       .title = "TensorRT-LLM's key-value cache is too small for one sequence",
       .cause =
           "The cache holds less than one sequence of the largest length. Weights and activations leave too "
           "little GPU memory, or max_tokens_in_paged_kv_cache is too small.",
       .cures = joined<CureRow>({cache, cures})},
      {.when = "runtime=TensorRT-LLM, !wrong_size",
       .id = "tensorrt-out-of-memory",
       .title = "TensorRT-LLM ran out of GPU memory[[: it asked for {requested}]]",
       .cause =
           "The weights, the activations of a batch and the key-value cache did not fit in the free memory.",
       .cures = joined<CureRow>({other, cures})}};
}

}  // namespace

LogRule tensorrt_rule() {
  const std::vector<CureRow> allocation{
      kSeeHoldersNow,
      {"build in a separate process before the others start", "headroom build-engine model.onnx"},
      {"measure how much memory it needs, on the host and on the GPU",
       "headroom trace -- trtexec --onnx=model.onnx"}};
  LogRule rule{
      .name = "tensorrt",
      .anchors = {"OutOfMemory", "ut of memory", "Requested amount of GPU memory",
                  "Requested amount of memory", "FAILED_ALLOCATION", "CUDA initialization failure with error",
                  "PagedKvCache must", "deserialization failed", "eserialize the cuda engine"},
      .figures_for = "tensorrt-node",  // why no tactic for a node was left
      .told_better_by = "tensorrt-node",
      .wordings =
          {// Of CUDA's numbers, 2 alone is of memory.
           {.all = {"CUDA initialization failure with error: {:int=2}"},
            .figures = {"phase=start"},
            .subject = "start",
            .traits = {.is_final = true}},
           // TensorRT has this name for other exceptions as well: "FAILED_ALLOCATION: basic_string::_S_…".
           {.all = {"FAILED_ALLOCATION: std::bad_alloc"},
            .figures = {"memory=host"},
            .subject = "allocation",
            .traits = {.is_final = true}},
           {.all = {"FAILED_ALLOCATION: std::exception"},
            .subject = "allocation",
            .traits = {.is_final = true}},
           {.all = {"axTokensInPagedKvCache must be large enough"},
            .none = {"ASSERT("},
            .figures = {"runtime=TensorRT-LLM"},
            .subject = "cache",
            .traits = {.is_final = true}},
           // Behind a refusal it says what that was for. Alone it may have any reason.
           {.all = {"ngine deserialization failed"},
            .figures = {"phase=load"},
            .part = "load",
            .traits = {.is_addition = true}},
           {.all = {"eserialize the cuda engine failed"},
            .figures = {"phase=load"},
            .part = "load",
            .traits = {.is_addition = true}},
           {.all = {},
            .figures = {"Requested amount of GPU memory ({requested_bytes}",
                        "Requested amount of memory ({requested_bytes}",
                        "requested size of {requested_bytes}", "Requested size was {requested_bytes}",
                        "ut of memory error during getBestTactic: {node}"},
            .check = tells_tensorrt_memory,
            .add =
                [](std::string_view line, LogMessage& message) {
                  if (has(line, "[TensorRT-LLM]")) message.add("runtime", "TensorRT-LLM");
                  add_tensorrt_phase(line, message);
                }}},
      .explanations = {
          {.when = "subject=start",
           .id = "tensorrt-out-of-memory",
           .confidence = Confidence::certain,
           .title = "TensorRT could not allocate GPU memory for its CUDA context",
           .cause = "The GPU was full before TensorRT started: CUDA itself reported out of memory (error 2).",
           .cures = {kEndHolder, kDropPageCacheOnJetson}},
          {.when = "memory=host",
           .id = "tensorrt-out-of-memory",
           .title = "TensorRT could not allocate host memory",
           .cause =
               "A build holds several copies of the weights in host memory, and the host had too little.",
           .cures = allocation},
          {.when = "subject=allocation",
           .id = "tensorrt-out-of-memory",
           .confidence = Confidence::possible,
           .title = "TensorRT could not allocate memory (FAILED_ALLOCATION)",
           .cause = "The message does not say whether the host's memory or the GPU's was full.",
           .cures = allocation},
          {.when = "wrong_size",
           .id = "tensorrt-out-of-memory",
           .title = "TensorRT ran out of memory: it asked for {requested}",
           .cause = "{cause_of_wrong_size}",
           .cures = {{"check the largest shapes that the engine supports", kSmallerShapes}}}}};
  rule.explanations =
      joined<Explanation>({rule.explanations, explanations_of_llm(), explanations_of_engine()});
  return rule;
}

// The builder leaves out a tactic that needs more than the workspace allows. The build goes on.
LogRule tensorrt_tactic_rule() {
  const std::vector<std::string_view> figures{"requested size of {requested_bytes}",
                                              "Skipping tactic {tactic:int}"};
  const LineTraits goes_on{.answers = true};
  constexpr std::string_view kCause =
      "The build continues with another tactic. The engine may be slower, but it is correct. Nothing failed.";
  constexpr std::string_view kTitle =
      "TensorRT skipped a tactic that needs {requested_bytes|more memory} while it built an engine";
  LogRule rule{
      .name = "tensorrt-tactic",
      .figures_for = "tensorrt-node",
      .answers = "tensorrt",
      .wordings = {{.all = {"insufficient to use tactic"},
                    .figures = {"request: {requested_bytes}", "Available: {free_bytes}"},
                    .part = "request"},
                   // TensorRT 7 tries the next tactic, unless there is none (tensorrt_node_rule()).
                   {.all = {"GPU memory allocation error during getBestTactic: {node}"},
                    .figures = {"lacked=GPU memory"},
                    .part = "skipped",
                    .traits = goes_on}},
      .explanations = {
          {.when = "lacked=GPU memory",
           .id = "tensorrt-tactic-skipped",
           .severity = Severity::benign,
           .confidence = Confidence::certain,
           .title = "TensorRT skipped a tactic of the node {node}: the GPU had no memory for it",
           .cause = kCause,
           .cures = {{"if the engine is slow, free GPU memory before the build", "headroom top"}}},
          {.when = "free_bytes<requested_bytes",  // a larger workspace would find no more
           .id = "tensorrt-tactic-skipped",
           .severity = Severity::benign,
           .confidence = Confidence::certain,
           .title = kTitle,
           .cause = kCause,
           .cures = {{"if the engine is slow, free GPU memory before the build: only {free_bytes} were free",
                      "headroom top", "requested_bytes-free_bytes"}}},
          {.id = "tensorrt-tactic-skipped",
           .severity = Severity::benign,
           .confidence = Confidence::certain,
           .title = kTitle,
           .cause = kCause,
           .cures = {{"if the engine is slow and memory is free, give the build more workspace",
                      kWorkspaceAbove}}}}};
  for (const std::string_view words : {"insufficient memory", "insuficient memory"})  // TensorRT 8 has one f
    rule.wordings.push_back({.all = {words},
                             .any = {"tactic", "Tactic"},
                             .figures = figures,
                             .part = "skipped",
                             .traits = goes_on,
                             .add = read_mebibytes});
  rule.wordings.push_back({.all = {"kipping tactic"},
                           .any = {"(out of memory)", "OutOfMemory", "due to oom error"},
                           .figures = figures,
                           .part = "skipped",
                           .traits = goes_on,
                           .add = read_mebibytes});
  return rule;
}

// Every tactic was left out, often for want of workspace, and no engine is built.
LogRule tensorrt_node_rule() {
  const std::vector<CureRow> cures{
      {"build while no other process uses the GPU", "headroom build-engine model.onnx"}, kHalfPrecisionBuild};
  const auto with_room = [&](CureRow room) { return std::vector<CureRow>{room, cures[0], cures[1]}; };
  const auto explained = [&](std::string_view when, Confidence confidence, std::string_view cause,
                             CureRow room) {
    return Explanation{.when = when,
                       .id = "tensorrt-no-implementation",
                       .confidence = confidence,
                       .title = "TensorRT found no implementation for the node {node}",
                       .cause = cause,
                       .cures = with_room(room)};
  };
  constexpr CureRow kMoreWorkspace{"give the build more workspace than the skipped tactics requested",
                                   kWorkspaceAbove};
  return {
      .name = "tensorrt-node",
      // With a capital since TensorRT 8.
      .wordings =
          {{.all = {"ould not find any implementation for node {node} due to insufficient workspace"},
            .figures = {"reason=insufficient workspace"},
            .add = trim_node},
           {.all = {"ould not find any implementation for node {node}, try increasing the workspace size"},
            .add = trim_node},
           {.all = {"ould not find any implementation for node {node}"}, .add = trim_node}},
      // The figures are of the tactic that was left out last, or of what the GPU refused before.
      .explanations = {
          explained("free_bytes<requested_bytes", Confidence::likely,
                    "The last skipped tactic requested {requested_bytes}, but only {free_bytes} of the GPU's "
                    "memory "
                    "were free.",
                    {"free GPU memory before the build: {requested_bytes-free_bytes} more", "headroom top",
                     "requested_bytes-free_bytes"}),
          explained("lacked=GPU memory, !free_bytes, requested_bytes", Confidence::likely,
                    "The GPU had no memory for the {requested_bytes} that the last tactic requested.",
                    {"free GPU memory before the build: at least {requested_bytes}", "headroom top"}),
          explained("lacked=GPU memory, !free_bytes", Confidence::likely,
                    "The GPU had no memory for the last skipped tactic.",
                    {"free GPU memory before the build", "headroom top"}),
          explained("reason", Confidence::certain, "The workspace was too small for each of its tactics.",
                    kMoreWorkspace),
          explained(
              "", Confidence::possible,
              "TensorRT skipped every tactic for it. If lines before it skip tactics for memory, the "
              "workspace "
              "or the GPU's free memory was too small. Otherwise, TensorRT does not support the node in that "
              "type or shape.",
              kMoreWorkspace)}};
}

// A plugin needs more workspace than the build allows: "plugin node NAME requires N bytes of scratch space,
// but only M is available". TensorRT 7 says besides "OutOfMemory Error in checkPluginScratchSize: 0".
LogRule tensorrt_plugin_rule() {
  return {
      .name = "tensorrt-plugin",
      .wordings = {{.all = {"in checkPluginScratchSize"}, .part = "check", .traits = {.is_vague = true}},
                   {.all = {"plugin node ", "requires …bytes of scratch space"},
                    .figures = {"requires {requested_bytes} bytes", "but only {available_bytes}",
                                "plugin node {node}requires "},
                    .subject = "{node}",
                    .part = "node"}},
      .explanations =
          {{.id = "tensorrt-workspace-too-small",
            .confidence = Confidence::certain,
            .title =
                "{subject_of_title} needs [[{requested_bytes} of workspace, more]][[{more}]] than the build "
                "allows[[ ({available_bytes})]]",
            .cause = "TensorRT cannot choose another implementation for a plugin. The workspace limit of the "
                     "build is "
                     "too small for it.",
            .cures = {{"give the build at least that much workspace",
                       "trtexec --onnx=model.onnx --memPoolSize=workspace:{requested_bytes:mib_16|MIB}"},
                      {"or build for a smaller batch or input: the plugin then needs less",
                       "trtexec --onnx=model.onnx --maxShapes=INPUT:1x3x640x640"},
                      {"see which processes hold GPU memory, if the GPU has less than that free",
                       "headroom top"}},
            .first_cure_meets_cause = true}},
      .derive = [](LogMessage& message) {
        const std::string node = message.text("node");
        message.add("subject_of_title",
                    node.empty() ? "A TensorRT plugin" : "TensorRT's plugin node " + node);
        if (!message.bytes("requested_bytes")) message.add("more", "more workspace");
      }};
}

}  // namespace headroom::doctor
