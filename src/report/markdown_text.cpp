#include "report/markdown_text.h"

#include <algorithm>

#include "base/display_width.h"

namespace headroom::report {
namespace {

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    // yolox_nano_416 stays readable: an underscore inside a word is not markup.
    const bool inside_word = i > 0 && i + 1 < text.size() && is_word(text[i - 1]) && is_word(text[i + 1]);
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      safe += ' ';
    } else if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else if (c == '@' && (i == 0 || !is_word(text[i - 1]))) {
      safe += "@&#8203;";  // "@name" would call whoever has that name
    } else {
      if (std::string_view("\\`*[]|#~").find(c) != std::string_view::npos || (c == '_' && !inside_word))
        safe += '\\';
      safe += c;
    }
  }
  return safe;
}

std::string code(std::string_view text) {
  if (text.empty()) return {};
  // The fence must be longer than any run of backticks inside.
  std::string safe;
  std::size_t run = 0, longest = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    safe += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  }
  const std::string fence(longest + 1, '`');
  const std::string space = longest > 0 ? " " : "";
  return fence + space + safe + space + fence;
}

// A bar ends a cell, even inside code; in tables, and only there, GitHub reads "\\|" in code as "|".
void MarkdownTable::add(std::vector<std::string> row) {
  for (std::string& cell : row)
    for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; ++at)
      if (at == 0 || cell[at - 1] != '\\') cell.insert(at++, 1, '\\');
  rows_.push_back(std::move(row));
}

std::string MarkdownTable::text() const {
  std::vector<int> widths(rows_.front().size(), 3);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));

  const auto to_the_right = [&](std::size_t column) { return column >= word_columns_; };
  const auto line_of = [&](const std::vector<std::string>& row) {
    std::string line = "|";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(static_cast<std::size_t>(widths[i] - display_width(row[i])), ' ');
      line += to_the_right(i) ? " " + space + row[i] + " |" : " " + row[i] + space + " |";
    }
    return line + "\n";
  };
  std::string text = line_of(rows_.front()) + "|";
  for (std::size_t i = 0; i < widths.size(); ++i)
    text += std::string(static_cast<std::size_t>(widths[i]) + (to_the_right(i) ? 1 : 2), '-') +
            (to_the_right(i) ? ":|" : "|");
  text += "\n";
  for (std::size_t i = 1; i < rows_.size(); ++i) text += line_of(rows_[i]);
  return text + "\n";
}

}  // namespace headroom::report
