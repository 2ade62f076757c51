// XLA, which JAX runs on and TensorFlow may, ran out of a device's memory.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kCompile = "compile";

// The compiler's, which sees before anything runs that a step does not fit: "XLA:TPU compile permanent error.
// Ran out of memory in memory space hbm. Used 17.21G of 15.48G hbm. Exceeded hbm capacity by 1.73G."
std::optional<LogMessage> read_compile(std::string_view line) {
  const auto space = text_after(line, "Ran out of memory in memory space ");
  if (!space) return std::nullopt;
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto end = std::find_if_not(space->begin(), space->end(), is_letter);
  LogMessage message;
  message.subject = kCompile;
  message.part = "compile";
  message.add("memory", std::string_view(space->begin(), end));
  if (const auto used = text_after(*space, "Used ")) {
    message.add("needed_bytes", leading_size(*used));
    message.add("total_bytes", size_after(*used, " of "));
  }
  // Others speak of it, too: "… is handled by rematerialization".
  if (!message.bytes("needed_bytes") && !has(line, "RESOURCE_EXHAUSTED")) return std::nullopt;
  return message;
}

// Of the lines behind the error, "BufferAssignment OOM Debugging.": "total allocation:   14.44GiB", all that
// the step takes at once.
std::optional<LogMessage> read_step(std::string_view line) {
  const auto total = size_after(line, "total allocation:");
  if (!total) return std::nullopt;
  LogMessage message;
  message.is_addition = true;
  message.part = "step";
  message.add("step_bytes", total);
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  if (auto compile = read_compile(line)) return compile;
  if (auto step = read_step(line)) return step;
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

// "hbm" is the device's memory; "vmem", "smem" and others are a core's own, which one kernel must fit in.
Finding explain_compile(const LogMessage& message) {
  const auto needed = message.bytes("needed_bytes"), total = message.bytes("total_bytes");
  const std::string memory = message.text("memory");
  Finding finding;
  finding.id = "xla-out-of-memory";
  finding.severity = Severity::severe;
  finding.confidence = Confidence::certain;
  finding.title = fmt::format("XLA could not compile a step: it needs {}{}{}",
                              needed ? format_bytes(*needed) : "more " + memory + " than the device has",
                              needed ? " of " + memory : "",
                              total ? fmt::format(", but the device has {}", format_bytes(*total)) : "");
  if (memory != "hbm") {
    finding.cause = "One kernel needs more of a core's own memory than the core has.";
    finding.cures = {{"use smaller blocks in your own kernel", "pallas_call(…, block_shape=…)", {}},
                     {"use a newer jaxlib and libtpu", "pip install -U jax[tpu]", {}}};
    return finding;
  }
  finding.cause =
      "The compiled step's arguments, results and temporary buffers are larger than the device's memory, "
      "even if no other program runs.";
  std::optional<Bytes> missing;
  if (needed && total && *needed > *total) missing = *needed - *total;
  if (missing) finding.cause += fmt::format(" {} are missing.", format_bytes(*missing));
  finding.cures = {{"use a smaller batch or shorter sequences", "batch_size = batch_size // 2", {}},
                   {"recompute activations instead of storing them (training)", "jax.checkpoint(f)", {}},
                   {"let a step overwrite its arguments", "jax.jit(f, donate_argnums=(0,))", {}},
                   {"split the arrays across several devices", "jax.device_put(x, NamedSharding(…))", {}},
                   {"compute in 16 bits", "dtype=jnp.bfloat16", {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  if (message.subject == kCompile) return explain_compile(message);
  Finding finding;
  finding.id = "xla-out-of-memory";
  finding.severity = Severity::severe;
  const auto free = message.bytes("free_bytes");
  finding.title = fmt::format("XLA (JAX, TensorFlow) could not allocate {}{}",
                              words_for(message.bytes("requested_bytes")),
                              free ? fmt::format(", {} were free", format_bytes(*free)) : "");
  finding.cause =
      "The device was full. The program's own arrays and its compiled step, or another program, hold the "
      "memory. JAX takes three quarters of a GPU at its start, so two JAX programs do not fit.";
  if (const auto step = message.bytes("step_bytes"))
    finding.cause +=
        fmt::format(" The step takes {} in total. Other arrays or programs held the rest of the device.",
                    format_bytes(*step));
  finding.confidence = Confidence::possible;
  finding.cures = {{"allocate memory on demand, so that other processes get memory too",
                    "XLA_PYTHON_CLIENT_PREALLOCATE=false",
                    {}},
                   {"limit JAX's allocation at its start, for each of several programs",
                    "XLA_PYTHON_CLIENT_MEM_FRACTION=.40",
                    {}},
                   {"recompute activations instead of storing them (training)", "jax.checkpoint(f)", {}},
                   half_of_batch(message.bytes("requested_bytes")),
                   {"see which processes hold the memory while it happens", "headroom top", {}}};
  return finding;
}

}  // namespace

LogRule xla_rule() {
  return {"xla",
          {"RESOURCE_EXHAUSTED", "Resource exhausted", "ran out of memory trying", " from device: CUDA_ERROR",
           "ut of memory in memory space", "total allocation:"},
          read,
          explain};
}

}  // namespace headroom::doctor
