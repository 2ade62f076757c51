// TensorFlow ran out of memory, of a GPU or of the host: "OOM when allocating tensor with shape[…]", its BFC
// allocator's request, the driver's refusal when the allocator grows, and what a graph or an operation makes
// of it.
#include <fmt/format.h>

#include <array>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// The driver refused it: it asks for a tenth less then, until it is given some.
constexpr const char *kDevice = "device", *kPinned = "pinned", *kCopy = "copy", *kHost = "host";

std::optional<std::int64_t> bytes_of_type(std::string_view name) {
  struct Type {
    std::string_view name;
    std::int64_t bytes;
  };
  constexpr std::array<Type, 14> kTypes{{{"float", 4},
                                         {"float32", 4},
                                         {"half", 2},
                                         {"float16", 2},
                                         {"bfloat16", 2},
                                         {"double", 8},
                                         {"float64", 8},
                                         {"int32", 4},
                                         {"int64", 8},
                                         {"uint8", 1},
                                         {"int8", 1},
                                         {"bool", 1},
                                         {"complex64", 8},
                                         {"complex128", 16}}};
  for (const Type& type : kTypes)
    if (type.name == name) return type.bytes;
  return std::nullopt;
}

// "… and type float on …"; up to 1.3 only the node's own: "[[Node: x = Mul[T=DT_FLOAT, _device=…".
std::optional<std::int64_t> bytes_of_tensor(std::string_view line) {
  if (const auto type = text_after(line, "and type "))
    return bytes_of_type(type->substr(0, type->find_first_of(" ,.")));
  const auto type = text_after(line, "[T=DT_");
  return type ? bytes_of_type(to_lower(type->substr(0, type->find_first_of(",]")))) : std::nullopt;
}

// "shape[32,256,256,64] and type float" → 536,870,912; "of shape [32,…" in 1.x. Of a product that overflows
// the shape stands for the size.
void add_tensor(std::string_view line, LogMessage& message) {
  auto shape = text_after(line, "shape[");
  if (!shape) shape = text_after(line, "shape [");
  if (!shape) return;
  const auto each = bytes_of_tensor(line);
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

// Host and GPU have findings of their own; pinned memory is the host's, for copies.
void note_allocator(std::string_view allocator, LogMessage& message) {
  if (has(allocator, "host_bfc"))
    message.subject = kPinned;
  else if (has(allocator, "cpu"))
    message.subject = kHost;
  message.add("allocator", allocator);
}

// Of an operation or a step that failed: which device it was for is told, or not at all.
std::optional<LogMessage> read_operation(std::string_view line) {
  LogMessage message;
  message.part = "tensor";
  // "SameWorkerRecvDone unable to allocate output tensor. Key: FROM;incarnation;TO;edge": a copy between
  // them.
  if (const auto rest = text_after(line, "SameWorkerRecvDone unable to allocate output tensor")) {
    const auto fields = split(*rest, ';');
    if (fields.size() > 2 && has(fields[2], "device:CPU")) note_allocator("cpu", message);
    return message;
  }
  // "ResourceExhaustedError: … failed to allocate memory [Op:AddV2]", of an operation of the eager kind;
  // "OP_REQUIRES failed at cast_op.cc:109 : RESOURCE_EXHAUSTED: failed to allocate memory" tells no device.
  const bool logged = has(line, "RESOURCE_EXHAUSTED: failed to allocate memory") ||
                      has(line, "Resource exhausted: failed to allocate memory");
  if (logged || has(line, "ResourceExhaustedError: failed to allocate memory") ||
      has(line, "failed to allocate memory [Op:")) {
    if (logged) message.part = "log";
    message.is_vague = logged && !has(line, "device:");
    if (has(line, "device:CPU")) note_allocator("cpu", message);
    return message;
  }
  // "Non-OK-status: GpuLaunchKernel(…) status: INTERNAL: out of memory" ends the program.
  if (has(line, "status: INTERNAL: out of memory") || has(line, "status: Internal: out of memory")) {
    message.is_final = true;
    return message;
  }
  return std::nullopt;
}

std::optional<LogMessage> read(std::string_view line) {
  if (auto operation = read_operation(line)) return operation;
  LogMessage message;
  if (has(line, "OOM when allocating tensor")) {
    add_tensor(line, message);
    if (const auto allocator = text_after(line, " by allocator "))
      note_allocator(allocator->substr(0, allocator->find_first_of(" \n[")), message);
    message.part = has(line, "OP_REQUIRES failed") ? "log" : "tensor";
    return message;
  }
  if (has(line, "Allocator (") && has(line, "ran out of memory trying to allocate ")) {
    auto requested = size_after(line, "(rounded to ");
    if (!requested) requested = size_after(line, "trying to allocate ");
    message.add("requested_bytes", requested);
    const auto allocator = text_after(line, "Allocator (");
    note_allocator(allocator->substr(0, allocator->find(')')), message);
    message.part = "allocator";
    return message;
  }
  if (has(line, "failed to allocate ") &&
      (has(line, " from device: CUDA_ERROR_OUT_OF_MEMORY") ||
       has(line, " from device: HIP_ERROR_OutOfMemory") || has(line, " from device: RESOURCE_EXHAUSTED"))) {
    auto requested = size_after(line, " (");  // "3.90G (4187987968 bytes)"
    if (!requested) requested = size_after(line, "failed to allocate ");
    message.add("requested_bytes", requested);
    message.part = kDevice;
    message.asks_for_less = true;
    message.goes_on = has(line, ": I tensorflow/");  // its own level of what is no error
    return message;
  }
  // "failed to alloc 8589934592 bytes on host: CUDA_ERROR_OUT_OF_MEMORY", and what its allocator makes of it.
  const bool is_refused = has(line, "failed to alloc ") && has(line, " bytes on host: ");
  if (is_refused || has(line, "could not allocate pinned host memory of size: ")) {
    auto requested = size_after(line, "failed to alloc ");
    if (!requested) requested = size_after(line, "memory of size: ");
    message.subject = kPinned;
    message.add("requested_bytes", requested);
    message.part = is_refused ? "driver" : "allocator";
    message.asks_for_less = is_refused;
    return message;
  }
  // Of a copy to the GPU whose place could not be had.
  if (has(line, "Dst tensor is not initialized")) {
    message.subject = kCopy;
    return message;
  }
  return std::nullopt;
}

Finding explain_pinned(const LogMessage& message, Finding finding) {
  finding.title =
      fmt::format("TensorFlow could not pin {} of host memory", words_for(message.bytes("requested_bytes")));
  finding.cause =
      "TensorFlow copies to the GPU through pinned memory, which the kernel cannot swap. The host had too "
      "little free RAM.";
  finding.confidence = Confidence::likely;
  finding.cures = {
      {"limit the pinned memory, in MiB (default: 64 GiB)", "TF_GPU_HOST_MEM_LIMIT_IN_MB=2048", {}},
      half_of_batch(message.bytes("requested_bytes")),
      {"see which processes hold the memory", "headroom top", {}}};
  return finding;
}

Finding explain_host(const LogMessage& message, Finding finding) {
  finding.cause =
      "The host's memory was full. The program's own tensors, its dataset (cache, shuffling, prefetching) or "
      "other programs may hold it.";
  finding.confidence = Confidence::likely;
  finding.cures = {half_of_batch(message.bytes("requested_bytes")),
                   {"keep less of the dataset in memory, and do not cache it",
                    "dataset.shuffle(1000).batch(batch_size).prefetch(1)",
                    {}},
                   {"see which processes hold the memory while it happens", "headroom top", {}},
                   {"see which call stacks hold the memory", "headroom trace -- COMMAND", {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  const bool on_cpu = has(message.text("allocator"), "cpu");
  Finding finding;
  finding.id = "tensorflow-out-of-memory";
  finding.severity = Severity::severe;
  if (message.subject == kPinned) return explain_pinned(message, finding);
  finding.title = fmt::format("TensorFlow ran out of {} memory: it asked for {}", on_cpu ? "host" : "GPU",
                              words_for_requested(message));
  if (has_wrong_size(message)) {
    finding.cause = cause_of_wrong_size(message);
    finding.confidence = Confidence::likely;
    finding.cures = {{"check the shapes before that operation: one dimension is far too large",
                      "print(tensor.shape)",
                      {}}};
    return finding;
  }
  if (on_cpu) return explain_host(message, finding);
  finding.cause =
      "TensorFlow allocates nearly all GPU memory at its start and does not release it. Other programs, or "
      "TensorFlow itself, then find none left.";
  finding.confidence = Confidence::likely;
  finding.cures = {
      {"allocate memory on demand", "TF_FORCE_GPU_ALLOW_GROWTH=true", {}},
      {"use the driver's memory pool, which releases memory", "TF_GPU_ALLOCATOR=cuda_malloc_async", {}},
      half_of_batch(message.bytes("requested_bytes"))};
  if (message.subject == kCopy)
    finding.title = "TensorFlow could not copy a tensor to the GPU: most often the GPU is full";
  return finding;
}

}  // namespace

LogRule tensorflow_rule() {
  return {"tensorflow",
          {"OOM when allocating", "ran out of memory trying", "CUDA_ERROR_OUT_OF_MEMORY",
           "from device: RESOURCE_EXHAUSTED", "from device: HIP_ERROR", "could not allocate pinned",
           "Dst tensor is not", "failed to allocate memory [Op:", "RESOURCE_EXHAUSTED: failed",
           "Resource exhausted: failed", "ResourceExhaustedError: failed", "unable to allocate output tensor",
           ": INTERNAL: out of memory", ": Internal: out of memory"},
          read,
          explain};
}

}  // namespace headroom::doctor
