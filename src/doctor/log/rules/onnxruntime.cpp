// ONNX Runtime: its arena could not grow, or the host or the driver had no memory for a session.
#include "base/text.h"
#include "doctor/log/common_cures.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr CureRow kMeasurePhases{"measure the memory for loading and for running",
                                 "headroom bench --model NAME=model.onnx --source DIR"};

// It logs the failure, and throws it: with Python's traceback that is the second line of one event.
void set_onnxruntime_part(std::string_view line, LogMessage& message) {
  message.part = has(line, "[E:onnxruntime") ? "log" : has(line, "ONNXRuntimeError") ? "exception" : "";
}

bool names_onnxruntime(std::string_view line) {
  return has(line, "BFCArena") || has(line, "bfc_arena") || has(line, "ONNXRuntimeError") || has(line, "nnx");
}

void derive_onnxruntime(LogMessage& message) {
  const std::string model = message.text("model"), type = message.text("operator");
  message.add("model_word", model.empty() ? "model.onnx" : shell_word(model));
  if (type.empty() || has(type, "Conv")) message.add("may_be_convolution", "yes");
}

}  // namespace

LogRule onnxruntime_rule() {
  constexpr std::string_view kId = "onnxruntime-out-of-memory";
  const std::vector<std::string_view> arena{"requested buffer of size {requested_bytes}",
                                            "requested bytes of {requested_bytes}",
                                            "Available memory of {free_bytes}",
                                            "memory=arena",
                                            "Name:'{node}'",
                                            "Name:\\'{node}\\'",  // within a string of C's or of Python's
                                            "while running {operator} node"};
  const std::vector<std::string_view> driver{"memory=driver", "GPU={gpu:int}"};
  std::vector<CureRow> arena_cures{
      {"raise the arena's limit by at least {requested_bytes-free_bytes}",
       "gpu_mem_limit=BYTES, the current limit plus {requested_bytes-free_bytes:count}", "",
       "free_bytes<requested_bytes"},
      {"choose convolution algorithms without a search: in one report, the search took 5.0 GB instead of 0.6 "
       "GB "
       "(runs then took twice as long)",
       "cudnn_conv_algo_search=DEFAULT", "", "may_be_convolution"},
      {"shrink the arena after each run (cpu:0 for the CPU's arena)",
       "memory.enable_memory_arena_shrinkage=gpu:0"},
      kHalfOfBatch,
      {kHalfOfBatch.what, kHalfOfBatch.command, "", "!requested_bytes"},
      {"let the arena grow by the requested size, not to the next power of two (measure it: it can also grow "
       "more)",
       "arena_extend_strategy=kSameAsRequested"},
      {"find out which nodes hold the memory",
       "headroom bench --layers --model NAME=model.onnx --source DIR"}};
  return {
      .name = "onnxruntime",
      .wordings = {{.all = {"Failed to allocate memory for requested buffer of size"},
                    .figures = arena,
                    .check = names_onnxruntime,
                    .add = set_onnxruntime_part},
                   {.all = {"is smaller than requested bytes of"},
                    .any = {"BFCArena", "bfc_arena"},
                    .figures = arena,
                    .add = set_onnxruntime_part},
                   {.all = {"CUDA failure 2: out of memory", "xception during initialization"},
                    .figures = {"memory=driver", "GPU={gpu:int}", "phase=load"},
                    .add = set_onnxruntime_part},
                   {.all = {"CUDA failure 2: out of memory"}, .figures = driver, .add = set_onnxruntime_part},
                   {.all = {"cudaErrorMemoryAllocation:out of memory"},
                    .figures = driver,
                    .add = set_onnxruntime_part},
                   // DirectML's E_OUTOFMEMORY.
                   {.all = {"8007000E"},
                    .any = {"onnxruntime", "Dml"},
                    .figures = driver,
                    .add = set_onnxruntime_part},
                   {.all = {"Load model from {:word}", "bad allocation"},
                    .figures = {"memory=host", "Load model from {model} failed"},
                    .add = set_onnxruntime_part},
                   {.all = {"bad allocation"},
                    .any = {"Status Message:", "ONNXRuntimeError", "onnxruntime"},
                    .figures = {"memory=host"},
                    .add = set_onnxruntime_part},
                   {.all = {"std::bad_alloc"},
                    .any = {"Status Message:", "Load model from", "ONNXRuntimeError", "onnxruntime"},
                    .figures = {"memory=host", "Load model from {model} failed"},
                    .add = set_onnxruntime_part}},
      .explanations =
          {{.when = "memory=host",
            .id = kId,
            .title = "ONNX Runtime could not allocate host memory[[ to load {model}]]",
            .cause = "While it loads, ONNX Runtime holds the file, the initializers and their re-packed "
                     "copies at the "
                     "same time.",
            .cures = {{"convert the model to the ORT format once, and map its weights",
                       "session.use_memory_mapped_ort_model=1"},
                      {"disable re-packed copies of the weights (slower runs)",
                       "session.disable_prepacking=1"},
                      {kMeasurePhases.what, "headroom bench --model NAME={model_word} --source DIR"}}},
           {.when = "wrong_size",
            .id = kId,
            .title = "ONNX Runtime's arena could not allocate {requested}[[ for the node {node}]]",
            .cause = "{cause_of_wrong_size} Most often, a dimension of an input is wrong.",
            .cures = {{"check the input's shape against the model's",
                       "python3 -c \"import onnxruntime; print([(i.name, i.shape) for i in "
                       "onnxruntime.InferenceSession('model.onnx').get_inputs()])\""},
                      {"run on the CPU provider, which names the node and its shapes",
                       "providers=['CPUExecutionProvider']"}}},
           {.when = "phase=load",
            .id = kId,
            .title = "ONNX Runtime could not allocate GPU memory from the driver",
            .cause = "The weights did not fit in the free memory. No inference had run yet.",
            .cures =
                {kSeeHoldersNow,
                 {"store the weights in half precision",
                  "python3 -c \"import onnx, onnxruntime.transformers.float16 as half; "
                  "onnx.save(half.convert_float_to_float16(onnx.load('model.onnx'), keep_io_types=True), "
                  "'model_fp16.onnx')\""},
                 kMeasurePhases}},
           {.when = "memory=driver",
            .id = kId,
            .title = "ONNX Runtime could not allocate GPU memory from the driver",
            .cause =
                "The memory was full. This session's activations, other sessions, or an arena that grows in "
                "powers of two may hold it.",
            .cures = arena_cures},
           {.when = "free_bytes",
            .id = kId,
            .title =
                "ONNX Runtime's arena could not allocate {requested|some memory}[[ for the node {node}]]",
            .cause = "The arena's own limit (gpu_mem_limit or arena_cfg) is too small for this input.",
            .cures = arena_cures,
            .first_cure_meets_cause = true},
           {.id = kId,
            .title =
                "ONNX Runtime's arena could not allocate {requested|some memory}[[ for the node {node}]]",
            .cause =
                "The memory was full. This session's activations, other sessions, or an arena that grows in "
                "powers of two may hold it.",
            .cures = arena_cures}},
      .derive = derive_onnxruntime};
}

}  // namespace headroom::doctor
