// ONNX Runtime: its arena could not grow, or the host had no memory for a session.
#include <fmt/format.h>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// It logs the failure, and throws it: with Python's traceback that is the second line of one event.
std::string part_of(std::string_view line) {
  if (has(line, "[E:onnxruntime")) return "log";
  return has(line, "ONNXRuntimeError") ? "exception" : "";
}

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  const bool is_arena = has(line, "BFCArena") || has(line, "bfc_arena");
  const bool no_buffer = has(line, "Failed to allocate memory for requested buffer of size");
  if (is_arena || no_buffer) {
    if (!no_buffer && !has(line, "is smaller than requested bytes of")) return std::nullopt;
    if (!is_arena && !has(line, "ONNXRuntimeError") && !has(line, "nnx")) return std::nullopt;
    if (!add_requested(message, text_after(line, "requested buffer of size ")))
      add_requested(message, text_after(line, "requested bytes of "));
    message.add("free_bytes", size_after(line, "Available memory of "));
    message.add("memory", "arena");
    if (const auto name = text_after(line, "Name:'")) message.add("node", name->substr(0, name->find('\'')));
    if (const auto name = text_after(line, "Name:\\'"))  // within a string of C's or of Python's
      message.add("node", name->substr(0, name->find("\\'")));
    if (const auto running = text_after(line, "while running "))
      message.add("operator", running->substr(0, running->find(" node")));
    message.part = part_of(line);
    return message;
  }
  // "CUDA failure 2: out of memory ; GPU=0 ; …; expr=cudaMalloc((void**)&p, size);"
  if (has(line, "CUDA failure 2: out of memory") || has(line, "cudaErrorMemoryAllocation:out of memory")) {
    message.add("memory", "driver");
    message.add("gpu", integer_after(line, "GPU="));
    if (has(line, "xception during initialization")) message.add("phase", "load");
    message.part = part_of(line);
    return message;
  }
  // DirectML's, on Windows: E_OUTOFMEMORY.
  if (has(line, "8007000E") && (has(line, "onnxruntime") || has(line, "Dml"))) {
    message.add("memory", "driver");
    message.part = part_of(line);
    return message;
  }
  const bool names_itself = has(line, "Status Message:") || has(line, "Load model from") ||
                            has(line, "ONNXRuntimeError") || has(line, "onnxruntime");
  if (names_itself && (has(line, "bad allocation") || has(line, "std::bad_alloc"))) {
    message.add("memory", "host");
    message.part = part_of(line);
    if (const auto model = text_after(line, "Load model from "))
      message.add("model", model->substr(0, model->find(" failed")));
    return message;
  }
  return std::nullopt;
}

Finding explain(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes"), free = message.bytes("free_bytes");
  const std::string node = message.text("node"), model = message.text("model");
  Finding finding;
  finding.id = "onnxruntime-out-of-memory";
  finding.severity = Severity::severe;
  finding.confidence = Confidence::likely;
  if (message.text("memory") == "host") {
    finding.title = model.empty()
                        ? "ONNX Runtime could not allocate host memory"
                        : fmt::format("ONNX Runtime could not allocate host memory to load {}", model);
    finding.cause =
        "While it loads, ONNX Runtime holds the file, the initializers and their re-packed copies at the "
        "same time.";
    finding.cures = {
        {"convert the model to the ORT format once, and map its weights",
         "session.use_memory_mapped_ort_model=1",
         {}},
        {"disable re-packed copies of the weights (slower runs)", "session.disable_prepacking=1", {}},
        {"measure the memory for loading and for running",
         fmt::format("headroom bench --model NAME={} --source DIR",
                     model.empty() ? "model.onnx" : shell_word(model)),
         {}}};
    return finding;
  }
  if (message.text("memory") == "driver")
    finding.title = "ONNX Runtime could not allocate GPU memory from the driver";
  else
    finding.title = fmt::format("ONNX Runtime's arena could not allocate {}{}", words_for_requested(message),
                                node.empty() ? "" : fmt::format(" for the node {}", node));
  if (has_wrong_size(message)) {
    finding.cause = cause_of_wrong_size(message) + " Most often, a dimension of an input is wrong.";
    finding.cures = {{"check the input's shape against the model's",
                      "python3 -c \"import onnxruntime; print([(i.name, i.shape) for i in "
                      "onnxruntime.InferenceSession('model.onnx').get_inputs()])\"",
                      {}},
                     {"run on the CPU provider, which names the node and its shapes",
                      "providers=['CPUExecutionProvider']",
                      {}}};
    return finding;
  }
  finding.cause = free ? "The arena's own limit (gpu_mem_limit or arena_cfg) is too small for this input."
                       : "The memory was full. This session's activations, other sessions, or an arena that "
                         "grows in powers of two may hold it.";
  if (message.text("phase") == "load") {
    finding.cause = "The weights did not fit in the free memory. No inference had run yet.";
    finding.cures = {{"see which processes hold the memory while it happens", "headroom top", {}},
                     {"store the weights in half precision",
                      "python3 -c \"import onnx, onnxruntime.transformers.float16 as half; "
                      "onnx.save(half.convert_float_to_float16(onnx.load('model.onnx'), keep_io_types=True), "
                      "'model_fp16.onnx')\"",
                      {}},
                     {"measure the memory for loading and for running",
                      "headroom bench --model NAME=model.onnx --source DIR",
                      {}}};
    return finding;
  }
  finding.cures = {{"shrink the arena after each run (cpu:0 for the CPU's arena)",
                    "memory.enable_memory_arena_shrinkage=gpu:0",
                    {}},
                   half_of_batch(requested),
                   {"let the arena grow by the requested size, not to the next power of two (measure it: it "
                    "can also grow more)",
                    "arena_extend_strategy=kSameAsRequested",
                    {}},
                   {"find out which nodes hold the memory",
                    "headroom bench --layers --model NAME=model.onnx --source DIR",
                    {}}};
  const std::string type = message.text("operator");
  if (type.empty() || has(type, "Conv"))
    finding.cures.insert(finding.cures.begin(),
                         {"choose convolution algorithms without a search: in one report, the search took "
                          "5.0 GB instead of 0.6 GB (runs then took twice as long)",
                          "cudnn_conv_algo_search=DEFAULT",
                          {}});
  if (free && requested && *free < *requested) {
    finding.cures.insert(
        finding.cures.begin(),
        {fmt::format("raise the arena's limit by at least {}", format_bytes(*requested - *free)),
         fmt::format("gpu_mem_limit=BYTES, the current limit plus {}", (*requested - *free).count),
         {}});
    finding.first_cure_meets_cause = true;
  }
  return finding;
}

}  // namespace

LogRule onnxruntime_rule() {
  return {"onnxruntime",
          {"requested buffer of size", "requested bytes of", "bad allocation", "std::bad_alloc",
           "CUDA failure 2: out of memory", "cudaErrorMemoryAllocation:out", "8007000E"},
          read,
          explain};
}

}  // namespace headroom::doctor
