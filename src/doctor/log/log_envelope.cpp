#include "doctor/log/log_envelope.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "doctor/log/log_reader.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr std::size_t kHexDigits = 4;

std::optional<std::uint32_t> hex_at(std::string_view text, std::size_t at) {
  if (at + kHexDigits > text.size()) return std::nullopt;
  std::uint32_t code = 0;
  const char* const end = text.data() + at + kHexDigits;
  if (std::from_chars(text.data() + at, end, code, 16).ptr != end) return std::nullopt;
  return code;
}

// What a JSON string holds.
std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      plain += text[at];
      continue;
    }
    if (++at == text.size()) break;
    switch (text[at]) {
      case 'n':
        plain += '\n';
        break;
      case 't':
        plain += '\t';
        break;
      case 'r':
        break;
      case 'b':
      case 'f':
        plain += ' ';
        break;
      case 'u': {
        auto code = hex_at(text, at + 1);
        if (!code) return plain;
        at += kHexDigits;
        // A character of two halves.
        const auto low = *code >= 0xD800 && *code < 0xDC00 && text.substr(at + 1, 2) == "\\u"
                             ? hex_at(text, at + 3)
                             : std::nullopt;
        if (low && *low >= 0xDC00 && *low < 0xE000) {
          code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
          at += 2 + kHexDigits;
        }
        append_utf8(plain, *code >= 0xD800 && *code < 0xE000 ? 0xFFFD : *code);
        break;
      }
      default:
        plain += text[at];
    }
  }
  return plain;
}

// "77,101,109", up to a bracket.
std::string decoded_bytes(std::string_view text) {
  std::string plain;
  for (const std::string_view number : split(text.substr(0, text.find(']')), ','))
    if (const auto byte = parse_number<int>(trim(number)); byte && *byte >= 0 && *byte < 256)
      plain += static_cast<char>(*byte);
  return plain;
}

struct Value {
  std::size_t begin = 0, end = 0;  // between its quotation marks or brackets
  bool is_array = false;
};

// As far as it goes: a long line was cut.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at, text.size());
}

// Of the journal, Docker, most loggers, Google's logging and structlog.
constexpr std::string_view kKeys[] = {"\"MESSAGE\"", "\"log\"",         "\"message\"",
                                      "\"msg\"",     "\"textPayload\"", "\"event\""};

// Of a record, or of a line of one that is printed with a field on each.
bool is_record(std::string_view line) {
  const std::string_view text = trim(line);
  return text.starts_with('{') || starts_with_any(text, kKeys);
}

std::optional<Value> message_of_json(std::string_view line) {
  if (!is_record(line)) return std::nullopt;
  for (const std::string_view key : kKeys) {
    std::size_t at = line.find(key);
    if (at == line.npos) continue;
    at = line.find_first_not_of(' ', at + key.size());
    if (at == line.npos || line[at] != ':') continue;
    at = line.find_first_not_of(' ', at + 1);
    if (at == line.npos) continue;
    ++at;
    if (line[at - 1] == '"') return Value{at, end_of_string(line, at), false};
    if (line[at - 1] == '[') return Value{at, std::min(line.find(']', at), line.size()), true};
  }
  return std::nullopt;
}

// `time=… level=error msg="…"`, where the message has quotation marks or lines of its own: others can be read
// as they stand, with the figures that some programs put behind them.
std::optional<Value> message_of_logfmt(std::string_view line) {
  const std::size_t equals = line.find('=');
  if (equals == line.npos || line.find(' ') < equals) return std::nullopt;
  for (const std::string_view key : {" msg=\"", " message=\""})
    if (const std::size_t at = line.find(key); at != line.npos) {
      const std::size_t begin = at + key.size(), end = end_of_string(line, begin);
      if (line.substr(begin, end - begin).find('\\') != line.npos) return Value{begin, end, false};
    }
  return std::nullopt;
}

std::optional<Value> message_in(std::string_view line) {
  const auto message = message_of_json(line);
  return message ? message : message_of_logfmt(line);
}

// "2026-11-23T10:00:00.000000000Z stderr F ": F is a whole line, P a part of one.
std::string_view without_node_prefix(std::string_view line) {
  constexpr std::size_t kLongestTime = 40;
  if (line.empty() || std::isdigit(static_cast<unsigned char>(line.front())) == 0) return line;
  for (const std::string_view stream : {" stderr F ", " stderr P ", " stdout F ", " stdout P "}) {
    const std::size_t at = line.substr(0, kLongestTime + stream.size()).find(stream);
    if (at != line.npos && line.find('T') < at) return line.substr(at + stream.size());
  }
  return line;
}

}  // namespace

const std::vector<std::string_view>& envelope_anchors() {
  static const std::vector<std::string_view> kAnchors{"\"MESSAGE\":[", "\"MESSAGE\": [", "\"MESSAGE\" : ["};
  return kAnchors;
}

std::string_view without_envelope(std::string_view line, std::string& buffer) {
  constexpr char kEscape = '\x1b';
  line = without_node_prefix(line);
  if (const auto message = message_in(line)) {
    const std::string_view value = line.substr(message->begin, message->end - message->begin);
    buffer = message->is_array ? decoded_bytes(value) : decoded(value);
    line = buffer;
  }
  if (line.find(kEscape) == line.npos) return line;
  buffer = without_terminal_control(line);
  return buffer;
}

std::string_view without_quote_marks(std::string_view line) {
  while (line.starts_with('>') && !line.starts_with(">>>")) {
    line.remove_prefix(1);
    if (line.starts_with(' ')) line.remove_prefix(1);
  }
  return line;
}

std::string beside_message(std::string_view line) {
  line = without_node_prefix(line);
  const auto message = message_in(line);
  if (!message) return {};
  return std::string(line.substr(0, message->begin)).append(line.substr(message->end));
}

bool ByteLines::take(std::string_view line, std::int64_t number) {
  line = trim(line);
  if (!is_open_) {
    if (!line.starts_with(kKeys[0]) || !line.ends_with('[')) return false;
    is_open_ = true;
    first_line_ = number;
    text_.clear();
    return true;
  }
  // Anything else ends it, too: a log that was cut.
  if (line.find_first_not_of("0123456789, ]") != line.npos) return is_open_ = false;
  text_ += decoded_bytes(line);
  is_open_ = line.find(']') == line.npos && text_.size() < kLongestLogLine;
  return true;
}

}  // namespace headroom::doctor
