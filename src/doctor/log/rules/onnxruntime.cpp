// ONNX Runtime: its arena could not grow, or the host or the driver had no memory for a session.
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// It logs the failure, and throws it: with Python's traceback that is the second line of one event.
void set_onnxruntime_part(std::string_view line, LogMessage& message) {
  message.part = has(line, "[E:onnxruntime") ? "log" : has(line, "ONNXRuntimeError") ? "exception" : "";
}

bool names_onnxruntime(std::string_view line) {
  return has(line, "BFCArena") || has(line, "bfc_arena") || has(line, "ONNXRuntimeError") || has(line, "nnx");
}

constexpr std::string_view kOnnxruntimeText = R"rules(
cures default-search
  cure choose convolution algorithms without a search: in one report, the search took 5.0 GB instead of 0.6 GB
        (runs then took twice as long) => cudnn_conv_algo_search=DEFAULT
figures of-onnxruntime
  requested buffer of size {requested_bytes}
  requested bytes of {requested_bytes}
  Available memory of {free_bytes}
  memory=arena
  Name:'{node}'
  Name:\'{node}\'
  while running {operator} node
rule onnxruntime
  line Failed to allocate memory for requested buffer of size -> figures=@of-onnxruntime;
        check=names_onnxruntime; add=set_onnxruntime_part
  line is smaller than requested bytes of -> figures=@of-onnxruntime; add=set_onnxruntime_part
    any BFCArena || bfc_arena
  line CUDA failure 2: out of memory && xception during initialization -> add=set_onnxruntime_part
    figures memory=driver || GPU={gpu:int} || phase=load
  line CUDA failure 2: out of memory -> memory=driver; add=set_onnxruntime_part
    figures GPU={gpu:int}
  line cudaErrorMemoryAllocation:out of memory -> memory=driver; add=set_onnxruntime_part
    figures GPU={gpu:int}
  # DirectML's E_OUTOFMEMORY.
  line 8007000E -> memory=driver; add=set_onnxruntime_part
    any onnxruntime || Dml
    figures GPU={gpu:int}
  line Load model from {:word} && bad allocation -> memory=host; add=set_onnxruntime_part
    figures Load model from {model} failed
  line bad allocation -> memory=host; add=set_onnxruntime_part
    any Status Message: || ONNXRuntimeError || onnxruntime
  line std::bad_alloc -> memory=host; add=set_onnxruntime_part
    any Status Message: || Load model from || ONNXRuntimeError || onnxruntime
    figures Load model from {model} failed
  finding onnxruntime-out-of-memory when memory=host
    title ONNX Runtime could not allocate host memory[[ to load {model}]]
    cause While it loads, ONNX Runtime holds the file, the initializers and their re-packed copies at the same
          time.
    cure convert the model to the ORT format once, and map its weights =>
          session.use_memory_mapped_ort_model=1
    cure disable re-packed copies of the weights (slower runs) => session.disable_prepacking=1
    cure measure the memory for loading and for running => headroom bench --model
          NAME={model:shell|model.onnx} --source DIR
  finding onnxruntime-out-of-memory when wrong_size
    title ONNX Runtime's arena could not allocate {requested}[[ for the node {node}]]
    cause {cause_of_wrong_size} Most often, a dimension of an input is wrong.
    cure check the input's shape against the model's => python3 -c "import onnxruntime; print([(i.name,
          i.shape) for i in onnxruntime.InferenceSession('model.onnx').get_inputs()])"
    cure run on the CPU provider, which names the node and its shapes => providers=['CPUExecutionProvider']
  finding onnxruntime-out-of-memory when phase=load
    title ONNX Runtime could not allocate GPU memory from the driver
    cause The weights did not fit in the free memory. No inference had run yet.
    cure @see-holders-now
    cure store the weights in half precision => python3 -c "import onnx, onnxruntime.transformers.float16 as
          half; onnx.save(half.convert_float_to_float16(onnx.load('model.onnx'), keep_io_types=True),
          'model_fp16.onnx')"
    cure measure the memory for loading and for running => headroom bench --model NAME=model.onnx --source DIR
  finding onnxruntime-out-of-memory when memory=driver
    cause The memory was full. This session's activations, other sessions, or an arena that grows in powers of
          two may hold it.
    cure raise the arena's limit by at least {requested_bytes-free_bytes} => gpu_mem_limit=BYTES, the current
          limit plus {requested_bytes-free_bytes:count} :: when free_bytes<requested_bytes
    cure @default-search :: when !operator
    cure @default-search :: when operator~Conv
    cure shrink the arena after each run (cpu:0 for the CPU's arena) =>
          memory.enable_memory_arena_shrinkage=gpu:0
    cure @half-of-batch
    cure let the arena grow by the requested size, not to the next power of two (measure it: it can also grow
          more) => arena_extend_strategy=kSameAsRequested
    cure find out which nodes hold the memory => headroom bench --layers --model NAME=model.onnx --source DIR
  finding onnxruntime-out-of-memory first_cure_meets_cause when free_bytes
    title ONNX Runtime's arena could not allocate {requested|some memory}[[ for the node {node}]]
    cause The arena's own limit (gpu_mem_limit or arena_cfg) is too small for this input.
  finding onnxruntime-out-of-memory
    cause The memory was full. This session's activations, other sessions, or an arena that grows in powers of
          two may hold it.
)rules";

}  // namespace

RuleFamily onnxruntime_rules() {
  return {kOnnxruntimeText,
          {{"set_onnxruntime_part", set_onnxruntime_part}, {"names_onnxruntime", names_onnxruntime}}};
}

}  // namespace headroom::doctor
