// TensorFlow, and XLA, on which JAX runs.
#include <fmt/format.h>

#include "base/text.h"
#include "doctor/log/common_cures.h"
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

void derive_missing(LogMessage& message) {
  const auto needed = message.number("needed_bytes"), total = message.number("total_bytes");
  if (needed && total && *needed > *total) message.add("missing_bytes", std::optional(*needed - *total));
}

}  // namespace

// TensorFlow tried a faster way, had no memory for it, and goes on with another.
LogRule tensorflow_retry_rule() {
  return {
      .name = "tensorflow-retry",
      .wordings = {{.all = {"ran out of memory trying to allocate ", "this is not a failure"},
                    .figures = {"trying to allocate {requested_bytes}"}}},
      .explanations = {
          {.id = "tensorflow-allocation-retried",
           .severity = Severity::benign,
           .confidence = Confidence::certain,
           .title =
               "TensorFlow continued without {requested_bytes|some memory} that would have made it faster",
           .cause =
               "The workspace was not available, so TensorFlow chose another convolution algorithm. Nothing "
               "failed."}}};
}

LogRule tensorflow_rule() {
  constexpr std::string_view kId = "tensorflow-out-of-memory";
  LogRule rule{
      .name = "tensorflow",
      .wordings =
          {{.all = {"SameWorkerRecvDone unable to allocate output tensor"},
            .part = "tensor",
            .add = read_copy_target},
           {.all = {"failed to allocate memory [Op:"}, .part = "tensor", .add = read_cpu},
           {.all = {"ResourceExhaustedError: failed to allocate memory"}, .part = "tensor", .add = read_cpu},
           {.all = {"RESOURCE_EXHAUSTED: failed to allocate memory", "device:"},
            .part = "log",
            .add = read_cpu},
           {.all = {"Resource exhausted: failed to allocate memory", "device:"},
            .part = "log",
            .add = read_cpu},
           {.all = {"RESOURCE_EXHAUSTED: failed to allocate memory"},
            .part = "log",
            .traits = {.is_vague = true}},
           {.all = {"Resource exhausted: failed to allocate memory"},
            .part = "log",
            .traits = {.is_vague = true}},
           // "Non-OK-status: GpuLaunchKernel(…) status: INTERNAL: out of memory" ends the program.
           {.all = {"status: INTERNAL: out of memory"}, .part = "tensor", .traits = {.is_final = true}},
           {.all = {"status: Internal: out of memory"}, .part = "tensor", .traits = {.is_final = true}},
           {.all = {"OOM when allocating tensor"}, .add = read_tensor},
           {.all = {"Allocator (", "ran out of memory trying to allocate "},
            .figures = {"(rounded to {requested_bytes}", "trying to allocate {requested_bytes}"},
            .part = "allocator",
            .add = read_allocator},
           {.all = {"failed to alloc ", " bytes on host: "},
            .figures = {"failed to alloc {requested_bytes}"},
            .subject = "pinned",
            .part = "driver",
            .traits = {.asks_for_less = true}},
           {.all = {"could not allocate pinned host memory of size: "},
            .figures = {"memory of size: {requested_bytes}"},
            .subject = "pinned",
            .part = "allocator"},
           // Of a copy to the GPU.
           {.all = {"Dst tensor is not initialized"}, .subject = "copy"}},
      .explanations =
          {{.when = "subject=pinned",
            .id = kId,
            .title = "TensorFlow could not pin {requested_bytes|some memory} of host memory",
            .cause = "TensorFlow copies to the GPU through pinned memory, which the kernel cannot swap. The "
                     "host had "
                     "too little free RAM.",
            .cures = {{"limit the pinned memory, in MiB (default: 64 GiB)",
                       "TF_GPU_HOST_MEM_LIMIT_IN_MB=2048"},
                      kHalfOfBatch,
                      kSeeHolders}},
           {.when = "wrong_size, allocator~cpu",
            .id = kId,
            .title = "TensorFlow ran out of host memory: it asked for {requested}",
            .cause = "{cause_of_wrong_size}",
            .cures = {{"check the shapes before that operation: one dimension is far too large",
                       "print(tensor.shape)"}}},
           {.when = "wrong_size",
            .id = kId,
            .title = "TensorFlow ran out of GPU memory: it asked for {requested}",
            .cause = "{cause_of_wrong_size}",
            .cures = {{"check the shapes before that operation: one dimension is far too large",
                       "print(tensor.shape)"}}},
           {.when = "allocator~cpu",
            .id = kId,
            .title = "TensorFlow ran out of host memory: it asked for {requested|some memory}",
            .cause = "The host's memory was full. The program's own tensors, its dataset (cache, shuffling, "
                     "prefetching) or other programs may hold it.",
            .cures = {kHalfOfBatch,
                      {"keep less of the dataset in memory, and do not cache it",
                       "dataset.shuffle(1000).batch(batch_size).prefetch(1)"},
                      kSeeHoldersNow,
                      kTraceStacks}},
           {.id = kId,
            .title = "[[{copy}]][[TensorFlow ran out of GPU memory: it asked for {no_copy}]]",
            .cause = "TensorFlow allocates nearly all GPU memory at its start and does not release it. Other "
                     "programs, "
                     "or TensorFlow itself, then find none left.",
            .cures = {{"allocate memory on demand", "TF_FORCE_GPU_ALLOW_GROWTH=true"},
                      {"use the driver's memory pool, which releases memory",
                       "TF_GPU_ALLOCATOR=cuda_malloc_async"},
                      kHalfOfBatch,
                      {kHalfOfBatch.what, kHalfOfBatch.command, "", "!requested_bytes"}}}},
      .derive = [](LogMessage& message) {
        if (message.subject == "copy")
          message.add("copy", "TensorFlow could not copy a tensor to the GPU: most often the GPU is full");
        else
          message.add("no_copy", words_for(message.bytes("requested_bytes")));
      }};
  // The driver refuses what the allocator asks for, which then asks for a tenth less: "3.90G (4187987968
  // bytes)".
  for (const std::string_view error :
       {" from device: CUDA_ERROR_OUT_OF_MEMORY", " from device: HIP_ERROR_OutOfMemory",
        " from device: RESOURCE_EXHAUSTED"})
    rule.wordings.push_back({.all = {error, "failed to allocate "},
                             .figures = {" ({requested_bytes}", "failed to allocate {requested_bytes}"},
                             .part = "device",
                             .traits = {.asks_for_less = true},
                             .add = note_level});
  return rule;
}

LogRule xla_rule() {
  constexpr std::string_view kId = "xla-out-of-memory";
  const std::vector<CureRow> compile{
      {"use a smaller batch or shorter sequences", "batch_size = batch_size // 2"},
      {"recompute activations instead of storing them (training)", "jax.checkpoint(f)"},
      {"let a step overwrite its arguments", "jax.jit(f, donate_argnums=(0,))"},
      {"split the arrays across several devices", "jax.device_put(x, NamedSharding(…))"},
      {"compute in 16 bits", "dtype=jnp.bfloat16"}};
  constexpr std::string_view kCompileTitle =
      "XLA could not compile a step: it needs [[{needed_bytes} of {memory}]][[{more}]][[, but the device has "
      "{total_bytes}]]";
  return {
      .name = "xla",
      .wordings =
          {// The compiler sees before anything runs that a step does not fit.
           {.all = {"Ran out of memory in memory space {memory:word}",
                    "Used {needed_bytes} of {total_bytes}"},
            .subject = "compile",
            .part = "compile"},
           {.all = {"Ran out of memory in memory space {memory:word}", "RESOURCE_EXHAUSTED"},
            .figures = {"Used {needed_bytes}"},
            .subject = "compile",
            .part = "compile"},
           // Behind the error, "BufferAssignment OOM Debugging.": all that the step takes at once.
           {.all = {"total allocation:{step_bytes}"}, .part = "step", .traits = {.is_addition = true}},
           // The allocator is TensorFlow's: "external/xla/xla/tsl/framework/bfc_allocator.cc".
           {.all = {"external/xla/", "ran out of memory trying to allocate …(rounded to {requested_bytes}"},
            .part = "allocator"},
           {.all = {"external/xla/", "ran out of memory trying to allocate {requested_bytes}"},
            .part = "allocator",
            .traits = {.is_rounded = true}},
           {.all = {"external/xla/", "failed to allocate ", " from device: "},
            .figures = {" ({requested_bytes}", "failed to allocate {requested_bytes}"},
            .part = "device",
            .traits = {.asks_for_less = true}},
           // A TPU's: "Attempting to allocate 9.91G. That was not possible. There are 5.78G free."
           {.all = {"RESOURCE_EXHAUSTED", "ttempting to allocate {:size}"},
            .figures = {"There are {free_bytes}", "ttempting to allocate {requested_bytes}",
                        "on device ordinal {gpu:int}"},
            .part = "error",
            .traits = {.is_rounded = true}},
           {.all = {"emory while trying to allocate {requested_bytes}"},
            .any = {"RESOURCE_EXHAUSTED", "Resource exhausted"},
            .figures = {"on device ordinal {gpu:int}"},
            .part = "error"},
           {.all = {"ut of memory allocating {requested_bytes}"},
            .any = {"RESOURCE_EXHAUSTED", "Resource exhausted"},
            .figures = {"on device ordinal {gpu:int}"},
            .part = "error"},
           // "2.99GiB (3206250496B)": the latter is exact.
           {.all = {"Failed to allocate request for ", "RESOURCE_EXHAUSTED"},
            .figures = {"request for …({requested_bytes}", "request for {requested_bytes}",
                        "on device ordinal {gpu:int}"},
            .part = "error"}},
      // "hbm" is the device's memory; "vmem", "smem" and others are a core's own, which one kernel must fit
      // in.
      .explanations =
          {{.when = "subject=compile, memory=hbm",
            .id = kId,
            .confidence = Confidence::certain,
            .title = kCompileTitle,
            .cause =
                "The compiled step's arguments, results and temporary buffers are larger than the device's "
                "memory, even if no other program runs.[[ {missing_bytes} are missing.]]",
            .cures = compile},
           {.when = "subject=compile",
            .id = kId,
            .confidence = Confidence::certain,
            .title = kCompileTitle,
            .cause = "One kernel needs more of a core's own memory than the core has.",
            .cures = {{"use smaller blocks in your own kernel", "pallas_call(…, block_shape=…)"},
                      {"use a newer jaxlib and libtpu", "pip install -U jax[tpu]"}}},
           {.id = kId,
            .confidence = Confidence::possible,
            .title =
                "XLA (JAX, TensorFlow) could not allocate {requested_bytes|some memory}[[, {free_bytes} were "
                "free]]",
            .cause =
                "The device was full. The program's own arrays and its compiled step, or another program, "
                "hold "
                "the memory. JAX takes three quarters of a GPU at its start, so two JAX programs do not "
                "fit.[[ The step takes {step_bytes} in total. Other arrays or programs held the rest of the "
                "device.]]",
            .cures = {{"allocate memory on demand, so that other processes get memory too",
                       "XLA_PYTHON_CLIENT_PREALLOCATE=false"},
                      {"limit JAX's allocation at its start, for each of several programs",
                       "XLA_PYTHON_CLIENT_MEM_FRACTION=.40"},
                      {"recompute activations instead of storing them (training)", "jax.checkpoint(f)"},
                      kHalfOfBatch,
                      kSeeHoldersNow}}},
      .derive = [](LogMessage& message) {
        derive_missing(message);
        if (!message.bytes("needed_bytes"))
          message.add("more", fmt::format("more {} than the device has", message.text("memory")));
      }};
}

}  // namespace headroom::doctor
