// ggml (llama.cpp, whisper.cpp): a buffer on the GPU, or pinned memory of the host.
#include <fmt/format.h>

#include "doctor/message_text.h"
#include "doctor/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, "ggml_cuda_host_malloc") || has(line, "pinned memory")) {
    if (!has(line, "failed to allocate")) return std::nullopt;
    message.subject = "pinned";
    message.add("requested_bytes", size_after(line, "failed to allocate "));
    return message;
  }
  const bool is_buffer = has(line, "alloc_buffer: allocating ") && has(line, "failed");
  const bool is_range = has(line, "alloc_tensor_range") || has(line, "ggml_gallocr_reserve");
  if (!is_buffer && !(is_range && has(line, "failed to allocate"))) return std::nullopt;
  auto requested = size_after(line, "buffer of size ");
  if (!requested) requested = size_after(line, "allocating ");
  message.add("requested_bytes", requested);
  if (const auto device = integer_after(line, "on device ")) message.add("gpu", device);
  return message;
}

Finding explain(const LogMessage& message) {
  const std::string size = words_for(message.bytes("requested_bytes"));
  Finding finding;
  if (message.subject == "pinned") {
    finding.id = "ggml-pinned-memory";
    finding.severity = Severity::note;
    finding.title = fmt::format("ggml could not pin {} of host memory", size);
    finding.cause = "It goes on with ordinary memory. On a Jetson pinned memory saves no copy that counts.";
    finding.confidence = Confidence::likely;
    finding.cures = {{"do without pinned memory", "GGML_CUDA_NO_PINNED=1", {}}};
    return finding;
  }
  finding.id = "ggml-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = fmt::format("ggml could not allocate a buffer of {} on the GPU", size);
  finding.cause =
      "A model's layers, its key-value cache or the buffer of a batch did not fit in what was free.";
  finding.confidence = Confidence::likely;
  finding.cures = {{"use a shorter context: the key-value cache shrinks with it", "-c 2048", {}},
                   {"keep the cache in 8 bits (half of f16)", "-fa -ctk q8_0 -ctv q8_0", {}},
                   {"keep fewer layers on the GPU", "-ngl 20", {}},
                   {"use smaller batches", "-ub 128", {}},
                   {"use a model of fewer bits", "Q4_K_M instead of Q8_0", {}}};
  return finding;
}

}  // namespace

LogRule ggml_rule() {
  return {"ggml",
          {"alloc_tensor_range", "_alloc_buffer:", "ggml_gallocr_reserve", "ggml_cuda_host_malloc",
           "of pinned memory"},
          read,
          explain};
}

}  // namespace headroom::doctor
