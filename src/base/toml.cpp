#include "base/toml.h"

#include <fmt/format.h>
#include <cstdint>

#include "base/text.h"
#include "base/utf8.h"

namespace headroom {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kMostKeyParts = 64;

constexpr std::uint32_t kDistance = 0x100000;

bool may_stand_in(std::uint32_t code) {
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code >= 0x80 && code <= 0xFFFF && !is_surrogate;
}

// The text with other codes in place of its characters. Invalid bytes stay.
template <class OtherCode>
std::string replaced(std::string_view text, OtherCode other) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character character = take_utf8(text);
    if (character.valid)
      append_utf8(result, other(character.code));
    else
      result += character.bytes;
  }
  return result;
}

// Works around undefined behaviour in toml++ 3.3. For characters such as 'ö', its search for Unicode white
// space runs off the end of a switch. It searches wherever white space is allowed: outside strings, and after
// a backslash at the end of a line in a string.
//
// So these characters are hidden from the parser: each of U+0080…U+FFFF is replaced by a stand-in 0x100000
// above it, in Unicode's last private-use plane. Invalid UTF-8 stays, and the parser rejects it.
std::string with_stand_ins(std::string_view text) {
  return replaced(text, [](std::uint32_t code) { return may_stand_in(code) ? code + kDistance : code; });
}

// The line of the first key with too many parts ("a.b.c…"), or 0. Each part is a nested table, and toml++
// recurses into tables: 200,000 parts overflow the stack.
std::size_t line_of_deep_key(std::string_view text) {
  std::size_t line = 1, dots = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (letter == '#') {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (letter == '"' || letter == '\'') {
      const std::string_view end =
          text.substr(i).starts_with(std::string(3, letter)) ? text.substr(i, 3) : text.substr(i, 1);
      for (i += end.size(); i < text.size() && !text.substr(i).starts_with(end); ++i) {
        if (letter == '"' && text[i] == '\\') ++i;
        if (i < text.size() && text[i] == '\n') {
          if (end.size() == 1) break;  // unclosed string: toml++ reports it
          ++line;
        }
      }
      if (i < text.size() && text[i] != '\n') i += end.size() - 1;
    }
    if (i >= text.size()) break;
    if (text[i] == '\n') ++line;
    if (text[i] == '.' && ++dots >= kMostKeyParts) return line;
    if (std::string_view("=,{}[]\n").find(text[i]) != std::string_view::npos) dots = 0;
  }
  return 0;
}

}  // namespace

Result<toml::table> parse_toml(std::string_view text, const std::string& name) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (const std::size_t line = line_of_deep_key(text); line != 0)
    return usage_error(fmt::format("{}:{}: a key has more than {} parts", name, line, kMostKeyParts), "",
                       "use fewer dots");
  toml::parse_result document = toml::parse(with_stand_ins(text), name);
  if (document) return std::move(document).table();
  const auto& problem = document.error();
  return usage_error(fmt::format("{}:{}: this is not valid TOML", name, problem.source().begin.line),
                     without_stand_ins(problem.description()));
}

Status TomlReader::read_keys(const toml::table& table,
                             const std::map<std::string, ReadValue>& readers) const {
  for (const auto& [key, node] : table) {
    const std::string word = without_stand_ins(key.str());
    const auto reader = readers.find(word);
    if (reader == readers.end()) {
      std::vector<std::string> known;
      for (const auto& [name, read] : readers) known.push_back(name);
      return unknown_key(node, word, known);
    }
    if (auto done = reader->second(node, word); !done) return done;
  }
  return {};
}

Status TomlReader::read_tables(const toml::node& node, const std::string& header,
                               const std::function<Status(const toml::table& table)>& read) const {
  if (!node.is_array_of_tables())
    return wrong(node, fmt::format("'{}' must be a list of tables", header.substr(header.rfind('.') + 1)),
                 fmt::format("write [[{}]]", header));
  for (const toml::node& each : *node.as_array())
    if (auto done = read(*each.as_table()); !done) return done;
  return {};
}

Status TomlReader::read(const toml::node& node, const std::string& key, std::string& text) const {
  const auto* value = node.as_string();
  if (value == nullptr || trim(value->get()).empty())
    return wrong(node, fmt::format("'{}' must be a string in quotes", key));
  text = without_stand_ins(value->get());
  return {};
}

Status TomlReader::read(const toml::node& node, const std::string& key,
                        std::vector<std::string>& texts) const {
  const auto* list = node.as_array();
  if (list == nullptr)
    return wrong(node, fmt::format("'{}' must be a list of strings", key),
                 fmt::format("write {} = [\"…\"]", key));
  for (const toml::node& element : *list)
    if (auto done = read(element, key, texts.emplace_back()); !done) return done;
  return {};
}

Status TomlReader::read(const toml::node& node, const std::string& key, bool& value) const {
  if (!node.is_boolean()) return wrong(node, fmt::format("'{}' must be true or false", key));
  value = node.as_boolean()->get();
  return {};
}

std::string TomlReader::place(const toml::node& node) const {
  return fmt::format("{}:{}", name_, node.source().begin.line);
}

tl::unexpected<Error> TomlReader::wrong(const toml::node& node, const std::string& what,
                                        const std::string& fix) const {
  return usage_error(fmt::format("{}: {}", place(node), what), "", fix);
}

tl::unexpected<Error> TomlReader::unknown_key(const toml::node& node, const std::string& key,
                                              const std::vector<std::string>& known) const {
  return wrong(node, fmt::format("there is no setting '{}'", key), did_you_mean(key, known));
}

std::string without_stand_ins(std::string_view text) {
  return replaced(text, [](std::uint32_t code) {
    return code >= kDistance && may_stand_in(code - kDistance) ? code - kDistance : code;
  });
}

}  // namespace headroom
