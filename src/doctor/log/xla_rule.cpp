// XLA, which JAX runs on and TensorFlow may, ran out of a device's memory.
#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  // The allocator is TensorFlow's, and JAX has it from XLA:
  // "external/xla/xla/tsl/framework/bfc_allocator.cc".
  if (has(line, "external/xla/") && has(line, "ran out of memory trying to allocate ")) {
    auto requested = size_after(line, "(rounded to ");  // "2.99GiB (rounded to 3206250496)": in bytes
    message.is_rounded = !requested;
    if (!requested) requested = size_after(line, "trying to allocate ");
    message.add("requested_bytes", requested);
    message.part = "allocator";
    return message;
  }
  // Its driver refused what the allocator asked for, and is asked for a tenth less then.
  if (has(line, "external/xla/") && has(line, "failed to allocate ") && has(line, " from device: ")) {
    auto requested = size_after(line, " (");  // "9.00GiB (9663676416 bytes)"
    if (!requested) requested = size_after(line, "failed to allocate ");
    message.add("requested_bytes", requested);
    message.part = "device";
    message.asks_for_less = true;
    return message;
  }
  if (!has(line, "RESOURCE_EXHAUSTED") && !has(line, "Resource exhausted")) return std::nullopt;
  message.part = "error";
  auto requested = size_after(line, "memory while trying to allocate ");
  if (!requested) requested = size_after(line, "ut of memory allocating ");
  if (const auto request = text_after(line, "Failed to allocate request for ")) {
    requested = size_after(*request, "(");  // "2.99GiB (3206250496B)": exact
    if (!requested) requested = leading_size(*request);
  }
  // A TPU's: "Attempting to allocate 9.91G. That was not possible. There are 5.78G free."
  if (const auto attempt = text_after(line, "ttempting to allocate ")) {
    requested = leading_size(*attempt);
    message.is_rounded = true;
    message.add("free_bytes", size_after(*attempt, "There are "));
  }
  if (!requested) return std::nullopt;  // other services exhaust other things
  message.add("requested_bytes", requested);
  if (const auto device = integer_after(line, "on device ordinal ")) message.add("gpu", device);
  return message;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "xla-out-of-memory";
  finding.severity = Severity::severe;
  const auto free = message.bytes("free_bytes");
  finding.title = fmt::format("XLA (JAX, TensorFlow) could not allocate {}{}",
                              words_for(message.bytes("requested_bytes")),
                              free ? fmt::format(", {} were free", format_bytes(*free)) : "");
  finding.cause =
      "The device was full: by the program's own arrays and what a compiled step needs besides, or by "
      "another "
      "program. JAX takes three quarters of a GPU when it starts, so two of them do not fit.";
  finding.confidence = Confidence::possible;
  finding.cures = {
      {"take memory as it is needed, so that others have room", "XLA_PYTHON_CLIENT_PREALLOCATE=false", {}},
      {"bound what JAX takes at its start, for each of several programs",
       "XLA_PYTHON_CLIENT_MEM_FRACTION=.40",
       {}},
      {"compute activations again instead of keeping them (training)", "jax.checkpoint(f)", {}},
      half_of_batch(message.bytes("requested_bytes")),
      {"see who holds the memory while it happens", "headroom top", {}}};
  return finding;
}

}  // namespace

LogRule xla_rule() {
  return {
      "xla",
      {"RESOURCE_EXHAUSTED", "Resource exhausted", "ran out of memory trying", " from device: CUDA_ERROR"},
      read,
      explain};
}

}  // namespace headroom::doctor
