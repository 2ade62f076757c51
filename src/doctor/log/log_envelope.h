// What loggers and container runtimes put around a program's line, taken off before the rules read it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::doctor {

// The program's own text: without terminal control; the string behind "MESSAGE" of `journalctl -o json` (or
// its array of bytes, which stands there for coloured text), "log" of Docker's files, "message" or "msg" of
// loggers that write JSON, with its escapes resolved; and without "TIME stderr F " of Kubernetes' nodes. It
// may have several lines. Any other line is given back as it is. `buffer` holds the text where it differs.
std::string_view without_envelope(std::string_view line, std::string& buffer);

// Without the marks that mails and issues put before what they quote: "> ", "> > ", ">>". Python's prompt
// ">>>" is none, and what stands behind it is source code.
std::string_view without_quote_marks(std::string_view line);

// The other fields of such a record: the line without that text. Empty where it is none.
std::string beside_message(std::string_view line);

// By which a line is found whose text is an array of bytes, in which no other word can be.
const std::vector<std::string_view>& envelope_anchors();

// The array of bytes as `journalctl -o json-pretty` prints it, each on a line of its own. Of a text longer
// than a line may be (kLongestLogLine) the begin is kept.
class ByteLines {
 public:
  // Whether the line begins such an array, or belongs to the one that is open.
  bool take(std::string_view line, std::int64_t number);
  bool is_open() const { return is_open_; }
  // Of the last one: the number of its first line, and what its bytes are.
  std::int64_t first_line() const { return first_line_; }
  const std::string& text() const { return text_; }

 private:
  bool is_open_ = false;
  std::int64_t first_line_ = 0;
  std::string text_;
};

}  // namespace headroom::doctor
