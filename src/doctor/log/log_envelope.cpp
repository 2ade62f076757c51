#include "doctor/log/log_envelope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/terminal.h"
#include "base/text.h"

namespace headroom::doctor {
namespace {

// What a JSON string holds; as it stands if it is cut.
std::string decoded(std::string_view text) {
  const auto document = nlohmann::json::parse(fmt::format("\"{}\"", text), nullptr, false);
  return document.is_string() ? document.get<std::string>() : std::string(text);
}

struct Value {
  std::size_t begin = 0, end = 0;  // between its quotation marks
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
  return text.starts_with('{') || std::ranges::any_of(kKeys, [&](auto key) { return text.starts_with(key); });
}

std::optional<Value> message_of_json(std::string_view line) {
  if (!is_record(line)) return std::nullopt;
  for (const std::string_view key : kKeys) {
    std::size_t at = line.find(key);
    if (at == line.npos) continue;
    at = line.find_first_not_of(' ', at + key.size());
    if (at == line.npos || line[at] != ':') continue;
    at = line.find_first_not_of(' ', at + 1);
    if (at != line.npos && line[at] == '"') return Value{at + 1, end_of_string(line, at + 1)};
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
      if (line.substr(begin, end - begin).find('\\') != line.npos) return Value{begin, end};
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

std::string_view without_envelope(std::string_view line, std::string& buffer) {
  constexpr char kEscape = '\x1b';
  line = without_node_prefix(line);
  if (const auto message = message_in(line)) {
    buffer = decoded(line.substr(message->begin, message->end - message->begin));
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

}  // namespace headroom::doctor
