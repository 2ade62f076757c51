#include "base/toml.h"

#include <fmt/format.h>

#include "base/text.h"

namespace headroom {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kMostKeyParts = 64;

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

std::string TomlErrors::place(const toml::node& node) const {
  return fmt::format("{}:{}", name_, node.source().begin.line);
}

tl::unexpected<Error> TomlErrors::wrong(const toml::node& node, const std::string& what,
                                        const std::string& fix) const {
  return usage_error(fmt::format("{}: {}", place(node), what), "", fix);
}

tl::unexpected<Error> TomlErrors::unknown_key(const toml::node& node, const std::string& key,
                                              const std::vector<std::string>& known) const {
  const std::string closest = closest_match(key, known);
  return wrong(node, fmt::format("there is no setting '{}'", key),
               closest.empty() ? "" : fmt::format("did you mean '{}'?", closest));
}

}  // namespace headroom
