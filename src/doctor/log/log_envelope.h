// Removes what loggers and container runtimes add to a program's line, before the rules read it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::doctor {

// The program's own text without terminal control. In JSON it is "MESSAGE" of `journalctl -o json` (or its
// array of bytes, for coloured text), "log" of Docker, "message" or "msg" of loggers. Escapes are resolved,
// so the text may have several lines. "TIME stderr F " of Kubernetes' nodes is removed. Other lines are
// returned unchanged. `buffer` stores the text if it differs from the line.
std::string_view without_envelope(std::string_view line, std::string& buffer);

// Without the marks of quotations in mails and issues: "> ", "> > ", ">>". Python's prompt ">>>" stays,
// because source code follows it.
std::string_view without_quote_marks(std::string_view line);

// The other fields of such a record; empty if the line is not a record.
std::string beside_message(std::string_view line);

// Anchors of lines whose text is an array of bytes.
const std::vector<std::string_view>& envelope_anchors();

// The array of bytes that `journalctl -o json-pretty` prints with one byte a line. Texts longer than
// kLongestLogLine are cut.
class ByteLines {
 public:
  // Returns true if the line begins such an array, or belongs to the open one.
  bool take(std::string_view line, std::int64_t number);
  bool is_open() const { return is_open_; }
  // Of the last array: the number of its first line, and its text.
  std::int64_t first_line() const { return first_line_; }
  const std::string& text() const { return text_; }

 private:
  bool is_open_ = false;
  std::int64_t first_line_ = 0;
  std::string text_;
};

}  // namespace headroom::doctor
