// TensorFlow, and XLA, on which JAX runs.
#include <fmt/format.h>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<std::int64_t> bytes_of_type(std::string_view name) {
  constexpr std::pair<std::string_view, std::int64_t> kTypes[] = {
      {"float", 4},  {"float32", 4}, {"half", 2},      {"float16", 2},    {"bfloat16", 2},
      {"double", 8}, {"float64", 8}, {"int32", 4},     {"int64", 8},      {"uint8", 1},
      {"int8", 1},   {"bool", 1},    {"complex64", 8}, {"complex128", 16}};
  for (const auto& [type, bytes] : kTypes)
    if (type == name) return bytes;
  return std::nullopt;
}

// "… and type float on …"; up to 1.3 only the node's own: "[[Node: x = Mul[T=DT_FLOAT, _device=…".
std::optional<std::int64_t> bytes_of_element(std::string_view line) {
  if (const auto type = text_after(line, "and type "))
    return bytes_of_type(type->substr(0, type->find_first_of(" ,.")));
  const auto type = text_after(line, "[T=DT_");
  return type ? bytes_of_type(to_lower(type->substr(0, type->find_first_of(",]")))) : std::nullopt;
}

// "shape[32,256,256,64] and type float" is 536,870,912 bytes; "of shape [32,…" in 1.x. Of a product that
// overflows, the shape stands for the size.
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

// Host and GPU have findings of their own; pinned memory is the host's, for copies to the GPU.
void add_allocator(std::string_view allocator, LogMessage& message) {
  if (has(allocator, "host_bfc"))
    message.subject = "pinned";
  else if (has(allocator, "cpu"))
    message.subject = "host";
  message.add("allocator", allocator);
}

void read_tensor(std::string_view line, LogMessage& message) {
  add_tensor(line, message);
  if (const auto allocator = text_after(line, " by allocator "))
    add_allocator(allocator->substr(0, allocator->find_first_of(" \n[")), message);
  message.part = has(line, "OP_REQUIRES failed") ? "log" : "tensor";
}

void read_allocator(std::string_view line, LogMessage& message) {
  const auto allocator = text_after(line, "Allocator (");
  add_allocator(allocator->substr(0, allocator->find(')')), message);
}

void read_cpu(std::string_view line, LogMessage& message) {
  if (has(line, "device:CPU")) add_allocator("cpu", message);
}

// "Key: FROM;incarnation;TO;edge": a copy between devices.
void read_copy_target(std::string_view line, LogMessage& message) {
  const auto fields = split(line, ';');
  if (fields.size() > 2 && has(fields[2], "device:CPU")) add_allocator("cpu", message);
}

// TensorFlow's own level of what is no error.
void note_level(std::string_view line, LogMessage& message) {
  message.goes_on = has(line, ": I tensorflow/");
}

constexpr std::string_view kTensorflowText = R"rules(
# TensorFlow tried a faster way, had no memory for it, and goes on with another.
rule tensorflow-retry
  line "ran out of memory trying to allocate " && this is not a failure
    figures trying to allocate {requested_bytes}
  finding tensorflow-allocation-retried benign certain
    title TensorFlow continued without {requested_bytes|some memory} that would have made it faster
    cause The workspace was not available, so TensorFlow chose another convolution algorithm. Nothing failed.

rule tensorflow
  line SameWorkerRecvDone unable to allocate output tensor -> part=tensor; add=read_copy_target
  line failed to allocate memory [Op: -> part=tensor; add=read_cpu
  line ResourceExhaustedError: failed to allocate memory -> part=tensor; add=read_cpu
  line RESOURCE_EXHAUSTED: failed to allocate memory && device: -> part=log; add=read_cpu
  line Resource exhausted: failed to allocate memory && device: -> part=log; add=read_cpu
  line RESOURCE_EXHAUSTED: failed to allocate memory -> part=log; is_vague
  line Resource exhausted: failed to allocate memory -> part=log; is_vague
  # "Non-OK-status: GpuLaunchKernel(…) status: INTERNAL: out of memory" ends the program.
  line status: INTERNAL: out of memory -> part=tensor; is_final
  line status: Internal: out of memory -> part=tensor; is_final
  line OOM when allocating tensor -> add=read_tensor
  line Allocator ( && "ran out of memory trying to allocate " -> part=allocator; add=read_allocator
    figures (rounded to {requested_bytes} || trying to allocate {requested_bytes}
  line "failed to alloc " && " bytes on host: " -> subject=pinned; part=driver; asks_for_less
    figures failed to alloc {requested_bytes}
  line "could not allocate pinned host memory of size: " -> subject=pinned; part=allocator
    figures memory of size: {requested_bytes}
  line Dst tensor is not initialized -> subject=copy
  # The driver refuses what the allocator asks for, which then asks for a tenth less: "3.90G (4187987968
  # bytes)".
  line " from device: CUDA_ERROR_OUT_OF_MEMORY" && "failed to allocate " -> part=device; asks_for_less;
        add=note_level
    figures " ({requested_bytes}" || failed to allocate {requested_bytes}
  line " from device: HIP_ERROR_OutOfMemory" && "failed to allocate " -> part=device; asks_for_less;
        add=note_level
    figures " ({requested_bytes}" || failed to allocate {requested_bytes}
  line " from device: RESOURCE_EXHAUSTED" && "failed to allocate " -> part=device; asks_for_less;
        add=note_level
    figures " ({requested_bytes}" || failed to allocate {requested_bytes}
  finding tensorflow-out-of-memory when subject=pinned
    title TensorFlow could not pin {requested_bytes|some memory} of host memory
    cause TensorFlow copies to the GPU through pinned memory, which the kernel cannot swap. The host had too
          little free RAM.
    cure limit the pinned memory, in MiB (default: 64 GiB) => TF_GPU_HOST_MEM_LIMIT_IN_MB=2048
    cure @half-of-batch
    cure @see-holders
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
    cure @see-holders-now
    cure @trace-stacks
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
  line Ran out of memory in memory space {memory:word} && RESOURCE_EXHAUSTED -> subject=compile; part=compile
    figures Used {needed_bytes}
  line total allocation:{step_bytes} -> part=step; is_addition
  line external/xla/ && ran out of memory trying to allocate …(rounded to {requested_bytes} -> part=allocator
  line external/xla/ && ran out of memory trying to allocate {requested_bytes} -> part=allocator; is_rounded
  line external/xla/ && "failed to allocate " && " from device: " -> part=device; asks_for_less
    figures " ({requested_bytes}" || failed to allocate {requested_bytes}
  line RESOURCE_EXHAUSTED && ttempting to allocate {:size} -> part=error; is_rounded
    figures There are {free_bytes} || ttempting to allocate {requested_bytes} || on device ordinal {gpu:int}
  line emory while trying to allocate {requested_bytes} -> part=error
    any RESOURCE_EXHAUSTED || Resource exhausted
    figures on device ordinal {gpu:int}
  line ut of memory allocating {requested_bytes} -> part=error
    any RESOURCE_EXHAUSTED || Resource exhausted
    figures on device ordinal {gpu:int}
  line "Failed to allocate request for " && RESOURCE_EXHAUSTED -> part=error
    figures request for …({requested_bytes} || request for {requested_bytes} || on device ordinal {gpu:int}
  # "hbm" is the device's memory; "vmem", "smem" and others are a core's own, which one kernel must fit in.
  finding xla-out-of-memory certain when subject=compile, memory=hbm
    title XLA could not compile a step: it needs [[{needed_bytes} of {memory}]][[if !needed_bytes:more
          {memory} than the device has]][[, but the device has {total_bytes}]]
    cause The compiled step's arguments, results and temporary buffers are larger than the device's memory,
          even if no other program runs.[[if needed_bytes>total_bytes: {needed_bytes-total_bytes} are
          missing.]]
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
    cure @half-of-batch
    cure @see-holders-now
)rules";

}  // namespace

RuleFamily tensorflow_rules() {
  return {kTensorflowText,
          {{"read_tensor", read_tensor},
           {"read_allocator", read_allocator},
           {"read_cpu", read_cpu},
           {"read_copy_target", read_copy_target},
           {"note_level", note_level}}};
}

}  // namespace headroom::doctor
