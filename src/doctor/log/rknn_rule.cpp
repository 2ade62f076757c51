// Rockchip's RKNN and RKLLM: the driver of the NPU gave no memory. That is the machine's own, of which it
// takes what it is given in advance where its IOMMU is off.
#include <fmt/format.h>

#include "doctor/log/error_code_text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kFiles = "too many open files";  // each piece of memory is a file of the process

// What the driver answered stands in the line before: "E RKNN: [09:40:45.140] failed to allocate handle, ret:
// -1, errno: 12, errstr: Cannot allocate memory", "… failed to convert handle(1020) to fd, … errno: 24, …".
// Of other numbers, as of "Bad address", the driver means several things.
std::optional<LogMessage> read_handle(std::string_view line) {
  constexpr std::int64_t kNoMemory = 12, kTooManyFiles = 24;
  if (!has(line, "RKNN") || !has(line, "failed to ") || !has(line, "handle")) return std::nullopt;
  const auto number = integer_after(line, "errno: ");
  if (!number || (*number != kNoMemory && *number != kTooManyFiles)) return std::nullopt;
  LogMessage message;
  message.part = "handle";
  if (*number == kTooManyFiles) message.add("reason", kFiles);
  return message;
}

// "E RKNN: failed to malloc npu memory, size: 3085697024, flags: 0x2", "E/RKNN: failed to malloc npu memory!,
// size: …", "Exception: RKNN init failed. error code: RKNN_ERR_MALLOC_FAIL"
std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (const auto rest = text_after(line, "failed to malloc npu memory")) {
    add_requested(message, text_after(*rest, "size: "));
    message.part = "malloc";
    return message;
  }
  if (tells_error_code(line, "RKNN_ERR_MALLOC_FAIL")) {
    message.part = "result";
    return message;
  }
  return read_handle(line);
}

Finding explain_files(Finding finding) {
  finding.title = "RKNN could not allocate NPU memory: the process has too many open files";
  finding.cause =
      "Each NPU allocation is an open file of the process. The process reached its limit of open files.";
  finding.confidence = Confidence::certain;
  finding.cures = {{"raise the limit of open files", "ulimit -n 65536", {}},
                   {"release contexts and rknn_create_mem() buffers that the program no longer needs",
                    "rknn_destroy_mem(), rknn_destroy()",
                    {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  const std::string requested = words_for_requested(message, "");
  Finding finding;
  finding.id = "rknn-out-of-memory";
  finding.severity = Severity::severe;
  if (message.text("reason") == kFiles) return explain_files(std::move(finding));
  finding.title =
      "RKNN could not allocate NPU memory" + (requested.empty() ? "" : ": it asked for " + requested);
  finding.confidence = Confidence::possible;
  if (has_wrong_size(message)) {
    finding.cause = cause_of_wrong_size(message);
    finding.cures = {{"convert the model with the version of the board's librknnrt.so", "", {}}};
    return finding;
  }
  finding.cause =
      "The NPU uses the machine's memory, and that was full. Or its IOMMU is off and the reserved memory was "
      "too small. Or one IOMMU domain (4 GiB of addresses) was full.";
  finding.cures = {
      {"find the process that holds the memory, and end it", "headroom top", {}},
      {"read the driver's messages, and check whether its IOMMU is off (\"using non-iommu mode\")",
       "sudo dmesg | grep -i rknpu",
       {}},
      {"see how much memory is reserved and free (CMA): without the IOMMU, the NPU has no other memory",
       "grep Cma /proc/meminfo",
       {}},
      {"convert the model to 8-bit weights (half of fp16)",
       "rknn.build(do_quantization=True, dataset='dataset.txt')",
       {}},
      {"if an RKLLM and an RKNN model run at once: move the RKLLM model to another IOMMU domain",
       "param.extend_param.base_domain_id = 1;",
       {}},
      {"if one model has several contexts: let them share its weights", "rknn_dup_context()", {}}};
  return finding;
}

}  // namespace

LogRule rknn_rule() {
  return {"rknn", {"malloc npu memory", "RKNN_ERR_MALLOC_FAIL", "E RKNN", "E/RKNN"}, read, explain};
}

}  // namespace headroom::doctor
