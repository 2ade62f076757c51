// jetson.utils maps memory that CPU and GPU share.
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  if (!has(line, "cudaAllocMapped") || !has(line, "failed") || has(line, " 0 failed")) return std::nullopt;
  return LogMessage{};
}

Finding explain(const LogMessage&) {
  Finding finding;
  finding.id = "mapped-memory-failed";
  finding.severity = Severity::severe;
  finding.title = "jetson.utils could not allocate memory that CPU and GPU share (cudaAllocMapped)";
  finding.cause =
      "The program keeps too many frames, or the frames are larger than the model needs. Mapped memory is "
      "pinned, so the kernel cannot swap it.";
  finding.confidence = Confidence::possible;
  finding.cures = {{"capture at the model's input size", "--input-width=WIDTH --input-height=HEIGHT", {}},
                   {"release frames as soon as they are used", "del image", {}},
                   {"see which processes hold the memory", "headroom top", {}}};
  return finding;
}

}  // namespace

LogRule jetson_utils_rule() { return {"jetson-utils", {"cudaAllocMapped"}, read, explain}; }

}  // namespace headroom::doctor
