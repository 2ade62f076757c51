// TensorFlow ran out of memory: "OOM when allocating tensor with shape[…]", its BFC allocator's request, and
// the driver's refusal when the allocator grows.
#include <fmt/format.h>

#include <array>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// The driver refused it: it asks for a tenth less then, until it is given some.
constexpr const char *kDevice = "device", *kPinned = "pinned", *kCopy = "copy";

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

// "shape[32,256,256,64] and type float" → 536,870,912; "of shape [32,…" in 1.x.
std::optional<Bytes> tensor_size(std::string_view line) {
  auto shape = text_after(line, "shape[");
  if (!shape) shape = text_after(line, "shape [");
  const auto type = text_after(line, "and type ");
  if (!shape || !type) return std::nullopt;
  const auto each = bytes_of_type(type->substr(0, type->find_first_of(" ,.")));
  if (!each) return std::nullopt;
  std::int64_t bytes = *each;
  for (const std::string_view dimension : split(shape->substr(0, shape->find(']')), ',')) {
    const auto size = parse_number<std::int64_t>(trim(dimension));
    if (!size || *size < 0 || __builtin_mul_overflow(bytes, *size, &bytes)) return std::nullopt;
  }
  return Bytes{bytes};
}

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, "OOM when allocating tensor")) {
    message.add("requested_bytes", tensor_size(line));
    if (const auto allocator = text_after(line, " by allocator "))
      message.add("allocator", allocator->substr(0, allocator->find_first_of(" \n[")));
    message.part = "tensor";
    return message;
  }
  if (has(line, "Allocator (") && has(line, "ran out of memory trying to allocate ")) {
    auto requested = size_after(line, "(rounded to ");
    if (!requested) requested = size_after(line, "trying to allocate ");
    message.add("requested_bytes", requested);
    const auto allocator = text_after(line, "Allocator (");
    message.add("allocator", allocator->substr(0, allocator->find(')')));
    message.part = "allocator";
    return message;
  }
  if (has(line, "failed to allocate ") && (has(line, " from device: CUDA_ERROR_OUT_OF_MEMORY") ||
                                           has(line, " from device: RESOURCE_EXHAUSTED"))) {
    auto requested = size_after(line, " (");  // "3.90G (4187987968 bytes)"
    if (!requested) requested = size_after(line, "failed to allocate ");
    message.add("requested_bytes", requested);
    message.part = kDevice;
    message.asks_for_less = true;
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
      "It copies to the GPU through pinned memory, which cannot be swapped: the host had not so much in RAM.";
  finding.confidence = Confidence::likely;
  finding.cures = {
      {"bound what it pins, in MiB (64 GiB unless it is told)", "TF_GPU_HOST_MEM_LIMIT_IN_MB=2048", {}},
      half_of_batch(message.bytes("requested_bytes")),
      {"see who holds the memory", "headroom top", {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  const bool on_cpu = has(message.text("allocator"), "cpu");
  Finding finding;
  finding.id = "tensorflow-out-of-memory";
  finding.severity = Severity::severe;
  if (message.subject == kPinned) return explain_pinned(message, finding);
  finding.title = fmt::format("TensorFlow ran out of {} memory: it asked for {}", on_cpu ? "host" : "GPU",
                              words_for(message.bytes("requested_bytes")));
  finding.cause =
      "TensorFlow takes nearly all GPU memory at its start and gives none back, so that others, or it "
      "itself, find none left.";
  finding.confidence = Confidence::likely;
  finding.cures = {
      {"take memory as it is needed", "TF_FORCE_GPU_ALLOW_GROWTH=true", {}},
      {"let the driver's own pool do it, which gives back", "TF_GPU_ALLOCATOR=cuda_malloc_async", {}},
      half_of_batch(message.bytes("requested_bytes"))};
  if (message.subject == kCopy)
    finding.title = "TensorFlow could not copy a tensor to the GPU, most often for want of its memory";
  return finding;
}

}  // namespace

LogRule tensorflow_rule() {
  return {"tensorflow",
          {"OOM when allocating", "ran out of memory trying", "CUDA_ERROR_OUT_OF_MEMORY",
           "from device: RESOURCE_EXHAUSTED", "could not allocate pinned", "Dst tensor is not"},
          read,
          explain};
}

}  // namespace headroom::doctor
