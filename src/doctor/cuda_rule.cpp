// The CUDA driver's and runtime's own words for memory that ran out, from whatever library.
#include "base/text.h"
#include "doctor/message_text.h"
#include "doctor/rules.h"

namespace headroom::doctor {
namespace {

// "* Fixed: CUDA out of memory …", "# on CUDA out of memory …": lists and comments, not messages.
bool is_prose(std::string_view line) {
  const std::string_view text = trim(line);
  return text.starts_with("* ") || text.starts_with("- ") || text.starts_with("# ") ||
         text.starts_with("// ");
}

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (is_prose(line)) return std::nullopt;
  if (has(line, "CUDA_ERROR_OUT_OF_MEMORY") || has(line, "cudaErrorMemoryAllocation")) return message;
  const bool says_so = has(line, "out of memory") || has(line, "Out of memory");
  if (!says_so) return std::nullopt;
  if (has(line, "CUDA") || has(line, "cuda") || has(line, "Cuda")) return message;
  return std::nullopt;
}

Finding explain(const LogMessage&) {
  Finding finding;
  finding.id = "cuda-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = "CUDA ran out of memory";
  finding.cause = "The message tells neither how much was asked for nor who held the memory.";
  finding.confidence = Confidence::possible;
  finding.cures = {
      {"see who holds the memory while it happens", "headroom top", {}},
      {"measure what the program needs, on the host and on the GPU", "headroom trace -- COMMAND", {}},
      {"on a Jetson, give the page cache back before it starts",
       "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches",
       {}}};
  return finding;
}

}  // namespace

LogRule cuda_rule() {
  return {"cuda", {"ut of memory", "OUT_OF_MEMORY", "cudaErrorMemoryAllocation"}, read, explain};
}

}  // namespace headroom::doctor
