#include "inference/plugin/plugin_failure.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace headroom::plugin {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The end of a "file.cc:123" token that begins with the slash at `start`, or nothing if it is not such a
// token.
std::optional<std::size_t> end_of_source_place(std::string_view text, std::size_t start) {
  constexpr std::array<std::string_view, 5> kEndings{".cc:", ".h:", ".cpp:", ".hpp:", ".cu:"};
  const std::size_t space = std::min(text.find(' ', start), text.size());
  const std::string_view token = text.substr(start, space - start);
  for (const std::string_view ending : kEndings) {
    const std::size_t at = token.find(ending);
    if (at == std::string_view::npos) continue;
    std::size_t end = at + ending.size();
    if (end >= token.size() || !is_digit(token[end])) continue;
    while (end < token.size() && is_digit(token[end])) ++end;
    return start + end;
  }
  return std::nullopt;
}

// The end of the function signature that follows a source position: the matching closing parenthesis, plus
// an optional " const" and "[with T = …]". Returns `start` if there is no signature.
std::size_t end_of_signature(std::string_view text, std::size_t start) {
  const std::size_t open = text.find('(', start);
  // A signature has a "::" before the parenthesis. A parenthesis without it belongs to a sentence.
  if (open == std::string_view::npos || text.substr(start, open - start).find("::") == std::string_view::npos)
    return start;
  int depth = 0;
  std::size_t end = open;
  for (; end < text.size(); ++end) {
    if (text[end] == '(') ++depth;
    if (text[end] == ')' && --depth == 0) break;
  }
  if (end == text.size()) return start;
  ++end;
  if (text.substr(end).starts_with("::operator()")) return end_of_signature(text, start + (end - start));
  if (text.substr(end).starts_with(" const")) end += 6;
  if (text.substr(end).starts_with(" [with ")) {
    const std::size_t close = text.find(']', end);
    if (close != std::string_view::npos) end = close + 1;
  }
  return end;
}

// Replaces each run of white space by one space, and trims the ends and a final full stop.
std::string on_one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!space)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  while (!line.empty() && (line.back() == ' ' || line.back() == '.')) line.pop_back();
  return line;
}

}  // namespace

std::size_t checked_index(std::string_view what, std::int32_t index, std::size_t count) {
  if (index < 0 || static_cast<std::size_t>(index) >= count)
    throw Failure{HR_ERROR_FAILED, "invalid " + std::string(what) + " index " + std::to_string(index) +
                                       "; the model has " + std::to_string(count)};
  return static_cast<std::size_t>(index);
}

std::size_t checked_bytes(std::string_view input, const hr_tensor& tensor, std::size_t element_bytes) {
  std::size_t bytes = element_bytes;
  for (std::int32_t i = 0; i < tensor.rank; ++i)
    if (tensor.dims[i] < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(tensor.dims[i]), &bytes))
      throw Failure{HR_ERROR_FAILED,
                    "the dimensions of input " + std::string(input) + " are negative or too large"};
  return bytes;
}

std::string without_source_places(std::string_view message) {
  const std::string line = on_one_line(message);
  std::string clean;
  std::size_t position = 0;
  while (position < line.size()) {
    const bool starts_token = position == 0 || line[position - 1] == ' ' || line[position - 1] == ':';
    const auto place =
        line[position] == '/' && starts_token ? end_of_source_place(line, position) : std::nullopt;
    if (place) {
      position = end_of_signature(line, *place);
      continue;
    }
    clean += line[position++];
  }
  return on_one_line(clean);
}

}  // namespace headroom::plugin
