// A runtime's own limit on its heap: Java's -Xmx, Node's --max-old-space-size. The machine may have plenty.
#include <fmt/format.h>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  // Not a setting that names it, nor one who quotes it.
  if (const auto rest = text_after(line, "java.lang.OutOfMemoryError");
      rest && !has(line, "-XX:") &&
      (rest->empty() || rest->front() == ':' || rest->front() == ' ' || rest->front() == '\r')) {
    message.add("runtime", "Java");
    return message;
  }
  constexpr std::string_view kNode = "JavaScript heap out of memory";
  if (const std::size_t at = line.find(kNode);
      at != line.npos && !(at > 0 && std::string_view("\"'`").find(line[at - 1]) != std::string_view::npos)) {
    message.add("runtime", "Node.js");
    return message;
  }
  return std::nullopt;
}

Finding explain(const LogMessage& message) {
  const bool java = message.text("runtime") == "Java";
  Finding finding;
  finding.id = "heap-limit-reached";
  finding.severity = Severity::severe;
  finding.title = fmt::format("{} reached the limit of its own heap", message.text("runtime"));
  finding.cause = "The limit is the runtime's, not the machine's: the program needs more, or it leaks.";
  finding.confidence = Confidence::likely;
  finding.cures = {{"raise the limit to half of the memory, if that is free",
                    java ? "java -XX:MaxRAMPercentage=50"
                         : "NODE_OPTIONS=--max-old-space-size=$(awk '/MemTotal/ {print int($2/2048)}' "
                           "/proc/meminfo)",
                    {}},
                   {"watch whether it grows for ever", "headroom watch -- COMMAND", {}}};
  return finding;
}

}  // namespace

LogRule heap_limit_rule() {
  return {"heap-limit", {"OutOfMemoryError", "heap out of memory"}, read, explain};
}

}  // namespace headroom::doctor
