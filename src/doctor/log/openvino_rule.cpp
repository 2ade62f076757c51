// OpenVINO's plug-in for Intel's GPUs compares each buffer with what the device gives in one piece, and with
// what is left.
#include <fmt/format.h>

#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// "Exceeded max size of memory object allocation: requested 4718592000 bytes, but max alloc size supported by
// device is 4294959104 bytes.", before "Requested … bytes but max alloc size is …"; "Exceeded max size of
// memory allocation: Required 6442450944 bytes, already occupied : 0 bytes, but available memory size is …"
std::optional<LogMessage> read(std::string_view line) {
  const auto object = text_after(line, "Exceeded max size of memory object allocation: ");
  const auto all = text_after(line, "Exceeded max size of memory allocation: ");
  const auto text = object ? object : all;
  if (!text) return std::nullopt;
  LogMessage message;
  if (!add_requested(message, text_after(*text, "equested ")))
    add_requested(message, text_after(*text, "equired "));
  auto largest = size_after(*text, "max alloc size supported by device is ");
  if (!largest) largest = size_after(*text, "max alloc size is ");
  message.add("largest_bytes", largest);
  message.add("allocated_bytes", size_after(*text, "already occupied : "));
  auto total = size_after(*text, "available memory size is ");
  if (!total) total = size_after(*text, "but memory size is ");  // up to 2022
  message.add("total_bytes", total);
  message.subject = object ? "one piece" : "all";
  return message.figures.empty() ? std::nullopt : std::optional(message);
}

Finding explain(const LogMessage& message) {
  const auto largest = message.bytes("largest_bytes"), total = message.bytes("total_bytes");
  const bool is_one = message.subject == "one piece";
  Finding finding;
  finding.id = "openvino-out-of-memory";
  finding.severity = Severity::severe;
  finding.confidence = Confidence::certain;
  finding.title = fmt::format(
      "OpenVINO's GPU plug-in could not allocate {}{}", words_for_requested(message),
      largest ? fmt::format(": the device's limit for one allocation is {}", format_bytes(*largest))
      : total ? fmt::format(": the device has {} in total", format_bytes(*total))
              : "");
  if (has_wrong_size(message)) {
    finding.cause = cause_of_wrong_size(message);
    finding.confidence = Confidence::likely;
    finding.cures = {{"give the model's inputs fixed shapes", "model.reshape([1, 3, HEIGHT, WIDTH])", {}}};
    return finding;
  }
  finding.cause =
      is_one
          ? "One buffer exceeds the driver's limit for one allocation. More free memory would not help."
          : fmt::format(
                "The model's buffers together are larger than the device's memory: {} were already in use.",
                words_for(message.bytes("allocated_bytes"), "some"));
  finding.cures = {
      {"use a smaller batch or input, with fixed shapes", "model.reshape([1, 3, HEIGHT, WIDTH])", {}},
      {"store the weights in 8 or 4 bits", "nncf.compress_weights(model)", {}},
      {"compile the model for the CPU", "core.compile_model(model, \"CPU\")", {}}};
  if (is_one)
    finding.cures.push_back({"allow larger buffers (OpenVINO 2025 and later; slower)",
                             "core.compile_model(model, \"GPU\", {\"GPU_ENABLE_LARGE_ALLOCATIONS\": True})",
                             {}});
  return finding;
}

}  // namespace

LogRule openvino_rule() { return {"openvino", {"Exceeded max size of memory "}, read, explain}; }

}  // namespace headroom::doctor
