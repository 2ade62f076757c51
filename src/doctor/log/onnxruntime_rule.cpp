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
    finding.title = model.empty() ? "ONNX Runtime had no host memory"
                                  : fmt::format("ONNX Runtime had no host memory to load {}", model);
    finding.cause = "Loading takes the file, the initializers and their re-packed copies at once.";
    finding.cures = {
        {"prepare the model once in the ORT format and map its weights",
         "session.use_memory_mapped_ort_model=1",
         {}},
        {"keep no re-packed copies of the weights (slower runs)", "session.disable_prepacking=1", {}},
        {"measure what loading takes, and what running does",
         fmt::format("headroom bench --model NAME={} --source DIR",
                     model.empty() ? "model.onnx" : shell_word(model)),
         {}}};
    return finding;
  }
  if (message.text("memory") == "driver")
    finding.title = "ONNX Runtime got no GPU memory from the driver";
  else
    finding.title = fmt::format("ONNX Runtime's arena could not get {}{}", words_for_requested(message),
                                node.empty() ? "" : fmt::format(" for the node {}", node));
  if (has_wrong_size(message)) {
    finding.cause = cause_of_wrong_size(message) + " Most often a dimension of an input is broken.";
    finding.cures = {{"check the input's shape against the model's",
                      "python3 -c \"import onnxruntime; print([(i.name, i.shape) for i in "
                      "onnxruntime.InferenceSession('model.onnx').get_inputs()])\"",
                      {}},
                     {"run on the CPU provider, which names the node and its shapes",
                      "providers=['CPUExecutionProvider']",
                      {}}};
    return finding;
  }
  finding.cause =
      free ? "The arena's own limit (gpu_mem_limit or arena_cfg) is too small for this input."
           : "The memory was full: by this session's activations, by other sessions, or by an arena that "
             "grew in powers of two.";
  if (message.text("phase") == "load") {
    finding.cause = "The weights did not fit beside what was there; nothing was run yet.";
    finding.cures = {{"see who holds the memory while it happens", "headroom top", {}},
                     {"keep the weights in half precision",
                      "python3 -c \"import onnx, onnxruntime.transformers.float16 as half; "
                      "onnx.save(half.convert_float_to_float16(onnx.load('model.onnx'), keep_io_types=True), "
                      "'model_fp16.onnx')\"",
                      {}},
                     {"measure what loading takes, and what running does",
                      "headroom bench --model NAME=model.onnx --source DIR",
                      {}}};
    return finding;
  }
  finding.cures = {
      {"give back after a run what it needed no longer (cpu:0 for the CPU's arena)",
       "memory.enable_memory_arena_shrinkage=gpu:0",
       {}},
      half_of_batch(requested),
      {"let the arena grow by what is asked for, not to the next power of two (measure it: it can also grow "
       "more)",
       "arena_extend_strategy=kSameAsRequested",
       {}},
      {"find out which nodes hold the memory",
       "headroom bench --layers --model NAME=model.onnx --source DIR",
       {}}};
  const std::string type = message.text("operator");
  if (type.empty() || has(type, "Conv"))
    finding.cures.insert(
        finding.cures.begin(),
        {"choose convolutions without a search: it took 5.0 GB where this took 0.6 GB in one "
         "report, and ran twice as long there",
         "cudnn_conv_algo_search=DEFAULT",
         {}});
  if (free && requested && *free < *requested) {
    finding.cures.insert(
        finding.cures.begin(),
        {fmt::format("raise the arena's limit by {} at least", format_bytes(*requested - *free)),
         fmt::format("gpu_mem_limit=BYTES, the present one and {} more", (*requested - *free).count),
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
