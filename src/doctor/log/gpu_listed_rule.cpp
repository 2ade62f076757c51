// ggml lists the GPUs at its start: "CUDA0 : Orin (7619 MiB, 3875 MiB free)".
#include <fmt/format.h>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  const std::size_t end = line.find(" free)");
  if (end == line.npos) return std::nullopt;
  const std::size_t open = line.substr(0, end).rfind('(');
  if (open == line.npos || line.find("CUDA") > open) return std::nullopt;
  const std::string_view inside = line.substr(open + 1, end - open - 1);
  const std::size_t comma = inside.find(", ");
  if (comma == inside.npos) return std::nullopt;
  LogMessage message;
  message.add("total_bytes", leading_size(inside));
  message.add("free_bytes", leading_size(inside.substr(comma + 2)));
  if (message.figures.size() != 2) return std::nullopt;
  return message;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "gpu-memory-listed";
  finding.severity = Severity::benign;
  finding.title = fmt::format("A GPU of {} was listed with {} free", words_for(message.bytes("total_bytes")),
                              words_for(message.bytes("free_bytes")));
  finding.cause =
      "A program listed its devices at its start. On a Jetson, \"free\" is the system's MemFree at that "
      "moment. The kernel could still reclaim the page cache for the CPU.";
  return finding;
}

}  // namespace

LogRule gpu_listed_rule() { return {"gpu-listed", {"MiB free)"}, read, explain}; }

}  // namespace headroom::doctor
