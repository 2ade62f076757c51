// Removes what loggers and container runtimes add to a program's line, before the rules read it.
#pragma once

#include <string>
#include <string_view>

namespace headroom::doctor {

// The program's own text without terminal control. In JSON it is "MESSAGE" of `journalctl -o json`, "log"
// of Docker, "message" or "msg" of loggers. Escapes are resolved, so the text may have several lines. "TIME
// stderr F " of Kubernetes' nodes is removed. Other lines are returned unchanged. `buffer` stores the text if
// it differs from the line.
std::string_view without_envelope(std::string_view line, std::string& buffer);

// Without the marks of quotations in mails and issues: "> ", "> > ", ">>". Python's prompt ">>>" stays,
// because source code follows it.
std::string_view without_quote_marks(std::string_view line);

// The other fields of such a record; empty if the line is not a record.
std::string beside_message(std::string_view line);

}  // namespace headroom::doctor
