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
      "Too many frames were kept, or frames are larger than the model needs; mapped memory is pinned and "
      "cannot be swapped.";
  finding.confidence = Confidence::possible;
  finding.cures = {{"capture at the model's size", "--input-width=WIDTH --input-height=HEIGHT", {}},
                   {"release frames as soon as they are used", "del image", {}},
                   {"see who holds the memory", "headroom top", {}}};
  return finding;
}

}  // namespace

LogRule jetson_utils_rule() { return {"jetson-utils", {"cudaAllocMapped"}, read, explain}; }

}  // namespace headroom::doctor
