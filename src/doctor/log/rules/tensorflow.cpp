// TensorFlow; XLA, on which JAX runs; ONNX Runtime: its arena could not grow, or the host or the driver had
// no memory for a session.
#include <fmt/format.h>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rule_text.h"

namespace headroom::doctor {
namespace {

// "… and type float on …"
std::optional<std::int64_t> bytes_of_element(std::string_view line) {
  constexpr std::pair<std::string_view, std::int64_t> kTypes[] = {
      {"float", 4}, {"half", 2},  {"bfloat16", 2}, {"double", 8}, {"int32", 4},
      {"int64", 8}, {"uint8", 1}, {"int8", 1},     {"bool", 1},   {"complex64", 8}};
  const auto name = text_after(line, "and type ");
  for (const auto& [type, bytes] : kTypes)
    if (name && name->substr(0, name->find_first_of(" ,.")) == type) return bytes;
  return std::nullopt;
}

// "shape[32,256,256,64] and type float" is 536,870,912 bytes. Of a product that overflows, the shape
// stands for the size.
void add_tensor(std::string_view line, LogMessage& message) {
  auto shape = text_after(line, "shape[");
  if (!shape) shape = text_after(line, "shape [");
  const auto each = shape ? bytes_of_element(line) : std::nullopt;
  if (!each) return;
  const std::string_view dimensions = shape->substr(0, shape->find(']'));
  double product = static_cast<double>(*each);
  for (const std::string_view dimension : split(dimensions, ',')) {
    const auto size = parse_number<std::int64_t>(trim(dimension));
    if (!size || *size < 0) return;
    product *= static_cast<double>(*size);
  }
  constexpr double kMost = 9e15;  // a whole number up to here
  if (product < kMost)
    message.add("requested_bytes", Bytes{static_cast<std::int64_t>(product)});
  else
    message.add("wrong_size", std::string_view(fmt::format("a tensor of [{}]", dimensions)));
}

}  // namespace

RuleFamily tensorflow_rules() {
  return {R"rules(
# TensorFlow tried a faster way, had no memory for it, and goes on with another.
rule tensorflow-retry
  line "ran out of memory trying to allocate " && this is not a failure
    figures trying to allocate {requested_bytes}
  finding tensorflow-allocation-retried benign certain
    title TensorFlow continued without {requested_bytes|some memory} that would have made it faster
    cause The workspace was not available, so TensorFlow chose another convolution algorithm. Nothing failed.

rule tensorflow
  # Host and GPU have findings of their own; pinned memory is the host's, for copies to the GPU.
  figures " by allocator {allocator:word}" || Allocator ({allocator}) || host_bfc => subject=pinned ||
        if allocator~cpu => subject=host
  line failed to allocate memory [Op: || ResourceExhaustedError: failed to allocate memory -> part=tensor
    figures device:CPU => allocator=cpu
  line ": failed to allocate memory" && device: -> part=log; any=RESOURCE_EXHAUSTED || Resource exhausted
    figures device:CPU => allocator=cpu
  line RESOURCE_EXHAUSTED: failed to allocate memory -> part=log; is_vague
  or Resource exhausted: failed to allocate memory
  # "Non-OK-status: GpuLaunchKernel(…) status: INTERNAL: out of memory" ends the program.
  line status: INTERNAL: out of memory || status: Internal: out of memory -> part=tensor; is_final
  line OOM when allocating tensor -> call=add_tensor; figures=OP_REQUIRES failed => part=log || part=tensor
  line Allocator ( && "ran out of memory trying to allocate " -> part=allocator
    figures (rounded to {requested_bytes} || trying to allocate {requested_bytes}
  line "failed to alloc " && " bytes on host: " -> subject=pinned; part=driver; asks_for_less
    figures failed to alloc {requested_bytes}
  line "could not allocate pinned host memory of size: " -> subject=pinned; part=allocator
    figures memory of size: {requested_bytes}
  line Dst tensor is not initialized -> subject=copy
  # The driver refuses what the allocator asks for, which then asks for a tenth less: "3.90G (4187987968
  # bytes)". "I" is TensorFlow's own level of what is no error.
  line "failed to allocate " && " from device: CUDA_ERROR_OUT_OF_MEMORY" -> part=device; asks_for_less
  or "failed to allocate " && " from device: HIP_ERROR_OutOfMemory"
  or "failed to allocate " && " from device: RESOURCE_EXHAUSTED"
    figures " ({requested_bytes}" || failed to allocate {requested_bytes} || ": I tensorflow/" => goes_on
  finding tensorflow-out-of-memory when subject=pinned
    title TensorFlow could not pin {requested_bytes|some memory} of host memory
    cause TensorFlow copies to the GPU through pinned memory, which the kernel cannot swap. The host had too
          little free RAM.
    cure limit the pinned memory, in MiB (default: 64 GiB) => TF_GPU_HOST_MEM_LIMIT_IN_MB=2048
    cure @half-of-batch @see-holders
  finding tensorflow-out-of-memory when wrong_size, allocator~cpu
    title TensorFlow ran out of host memory: it asked for {requested}
    cause {cause_of_wrong_size}
    cure check the shapes before that operation: one dimension is far too large => print(tensor.shape)
  finding tensorflow-out-of-memory when wrong_size
    title TensorFlow ran out of GPU memory: it asked for {requested}
  finding tensorflow-out-of-memory when allocator~cpu
    title TensorFlow ran out of host memory: it asked for {requested|some memory}
    cause The host's memory was full. The program's own tensors, its dataset (cache, shuffling, prefetching)
          or other programs may hold it.
    cure @half-of-batch
    cure keep less of the dataset in memory, and do not cache it =>
          dataset.shuffle(1000).batch(batch_size).prefetch(1)
    cure @see-holders-now @trace-stacks
  finding tensorflow-out-of-memory
    title [[if subject=copy:TensorFlow could not copy a tensor to the GPU: most often the GPU is full]][[if
          subject!=copy:TensorFlow ran out of GPU memory: it asked for {requested_bytes|some memory}]]
    cause TensorFlow allocates nearly all GPU memory at its start and does not release it. Other programs, or
          TensorFlow itself, then find none left.
    cure allocate memory on demand => TF_FORCE_GPU_ALLOW_GROWTH=true
    cure use the driver's memory pool, which releases memory => TF_GPU_ALLOCATOR=cuda_malloc_async
    cure @half-of-batch

rule xla
  # The compiler sees before anything runs that a step does not fit.
  line Ran out of memory in memory space {memory:word} && Used {needed_bytes} of {total_bytes} ->
        subject=compile; part=compile
  or Ran out of memory in memory space {memory:word} && RESOURCE_EXHAUSTED
    figures Used {needed_bytes}
  line total allocation:{step_bytes} -> part=step; is_addition
  line external/xla/ && ran out of memory trying to allocate …(rounded to {requested_bytes} -> part=allocator
  line external/xla/ && ran out of memory trying to allocate {requested_bytes} -> part=allocator; is_rounded
  line external/xla/ && "failed to allocate " && " from device: " -> part=device; asks_for_less
    figures " ({requested_bytes}" || failed to allocate {requested_bytes}
  line RESOURCE_EXHAUSTED && ttempting to allocate {:size} -> part=error; is_rounded
    figures There are {free_bytes} || ttempting to allocate {requested_bytes} || on device ordinal {gpu:int}
  line emory while trying to allocate {requested_bytes} -> part=error
  or ut of memory allocating {requested_bytes}
    any RESOURCE_EXHAUSTED || Resource exhausted
    figures on device ordinal {gpu:int}
  line "Failed to allocate request for " && RESOURCE_EXHAUSTED -> part=error
    figures request for …({requested_bytes} || request for {requested_bytes} || on device ordinal {gpu:int}
  # "hbm" is the device's memory; "vmem", "smem" and others are a core's own, which one kernel must fit in.
  finding xla-out-of-memory certain when subject=compile, memory=hbm
    title XLA could not compile a step: it needs [[{needed_bytes} of {memory}]][[if !needed_bytes:more
          {memory} than the device has]][[, but the device has {total_bytes}]]
    cause The compiled step's arguments, results and temporary buffers are larger than the device's memory,
      even if no other program runs.[[if needed_bytes>total_bytes: {needed_bytes-total_bytes} are missing.]]
    cure use a smaller batch or shorter sequences => batch_size = batch_size // 2
    cure recompute activations instead of storing them (training) => jax.checkpoint(f)
    cure let a step overwrite its arguments => jax.jit(f, donate_argnums=(0,))
    cure split the arrays across several devices => jax.device_put(x, NamedSharding(…))
    cure compute in 16 bits => dtype=jnp.bfloat16
  finding xla-out-of-memory certain when subject=compile
    cause One kernel needs more of a core's own memory than the core has.
    cure use smaller blocks in your own kernel => pallas_call(…, block_shape=…)
    cure use a newer jaxlib and libtpu => pip install -U jax[tpu]
  finding xla-out-of-memory possible
    title XLA (JAX, TensorFlow) could not allocate {requested_bytes|some memory}[[, {free_bytes} were free]]
    cause The device was full. The program's own arrays and its compiled step, or another program, hold the
          memory. JAX takes three quarters of a GPU at its start, so two JAX programs do not fit.[[ The step
          takes {step_bytes} in total. Other arrays or programs held the rest of the device.]]
    cure allocate memory on demand, so that other processes get memory too =>
          XLA_PYTHON_CLIENT_PREALLOCATE=false
    cure limit JAX's allocation at its start, for each of several programs =>
          XLA_PYTHON_CLIENT_MEM_FRACTION=.40
    cure recompute activations instead of storing them (training) => jax.checkpoint(f)
    cure @half-of-batch @see-holders-now

cures default-search: choose convolution algorithms without a search: in one report, the search took 5.0 GB
      instead of 0.6 GB (runs then took twice as long) => cudnn_conv_algo_search=DEFAULT
figures of-onnxruntime
  requested buffer of size {requested_bytes} || requested bytes of {requested_bytes}
  Available memory of {free_bytes} || memory=arena || Name:'{node}' || Name:\'{node}\'
  while running {operator} node
rule onnxruntime
  # It logs the failure, and throws it: with Python's traceback that is the second line of one event.
  figures [E:onnxruntime => part=log || ONNXRuntimeError => part=exception
  line Failed to allocate memory for requested buffer of size -> figures=@of-onnxruntime
    any BFCArena || bfc_arena || ONNXRuntimeError || nnx
  line is smaller than requested bytes of -> figures=@of-onnxruntime; any=BFCArena || bfc_arena
  line CUDA failure 2: out of memory || cudaErrorMemoryAllocation:out of memory -> memory=driver
    figures GPU={gpu:int} || xception during initialization => phase=load
  # DirectML's E_OUTOFMEMORY.
  line 8007000E -> memory=driver; any=onnxruntime || Dml
    figures GPU={gpu:int}
  line bad allocation || std::bad_alloc -> memory=host
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
)rules",
          {{"add_tensor", add_tensor}}};
}

}  // namespace headroom::doctor
