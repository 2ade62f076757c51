// "cannot allocate memory in static TLS block": an order of imports that fails on AArch64, and no want of
// memory.
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  if (!has(line, "cannot allocate memory in static TLS block")) return std::nullopt;
  LogMessage message;
  if (const std::size_t end = line.find(": cannot allocate"); end != line.npos) {
    const std::size_t begin = line.substr(0, end).rfind(' ');
    message.add("library",
                line.substr(begin == line.npos ? 0 : begin + 1, end - (begin == line.npos ? 0 : begin + 1)));
  }
  return message;
}

Finding explain(const LogMessage& message) {
  const std::string library = message.text("library");
  Finding finding;
  finding.id = "static-tls-block";
  finding.severity = Severity::note;
  finding.title = "A library was loaded too late for its thread-local storage; memory did not run out";
  finding.cause =
      "The loader keeps some room for thread-local storage of libraries that are loaded later; others took "
      "it first.";
  finding.cures = {
      {"load it at the start, or import it first",
       "LD_PRELOAD=" + (library.empty() ? std::string("/usr/lib/aarch64-linux-gnu/libgomp.so.1") : library),
       {}}};
  return finding;
}

}  // namespace

LogRule static_tls_rule() { return {"static-tls", {"in static TLS block"}, read, explain}; }

}  // namespace headroom::doctor
