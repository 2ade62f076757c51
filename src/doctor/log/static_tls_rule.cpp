// "cannot allocate memory in static TLS block": an order of imports that fails on AArch64, and no want of
// memory.
#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  if (!has(line, "cannot allocate memory in static TLS block")) return std::nullopt;
  LogMessage message;
  if (const std::size_t end = line.find(": cannot allocate"); end != line.npos) {
    // "ImportError: /usr/lib/…: cannot allocate …": a path may have spaces in it.
    const std::string_view before = line.substr(0, end);
    const std::size_t colon = before.rfind(": "), space = before.rfind(' ');
    const std::size_t begin = colon != before.npos ? colon + 2 : space == before.npos ? 0 : space + 1;
    message.add("library", before.substr(begin));
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
      "The loader reserves a small block of thread-local storage for libraries that are loaded later. Other "
      "libraries used it up first.";
  finding.cures = {
      {"load the library at the start, or import it first",
       "LD_PRELOAD=" + shell_word(library.empty() ? "/usr/lib/aarch64-linux-gnu/libgomp.so.1" : library),
       {}}};
  return finding;
}

}  // namespace

LogRule static_tls_rule() { return {"static-tls", {"in static TLS block"}, read, explain}; }

}  // namespace headroom::doctor
