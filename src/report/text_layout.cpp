#include "report/text_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "base/utf8.h"
#include "report/recording/recording_words.h"

namespace headroom::report {

namespace {

constexpr std::string_view kGap = "  ";

int width_of(const Column& column) {
  int widest = display_width(column.title);
  for (const std::string& cell : column.cells)
    for (const std::string_view line : split(cell, '\n')) widest = std::max(widest, display_width(line));
  return widest;
}

// What all columns but the first take, with the gaps before them.
int width_of_others(const std::vector<Column>& columns) {
  int taken = 0;
  for (std::size_t i = 1; i < columns.size(); ++i)
    taken += width_of(columns[i]) + static_cast<int>(kGap.size());
  return taken;
}

std::string padded(std::string_view text, int width, bool to_the_right) {
  const std::string space(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ');
  return to_the_right ? space + std::string(text) : std::string(text) + space;
}

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

void add_row(std::vector<Column>& columns, std::vector<std::string> cells) {
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back(std::move(cells[i]));
}

bool all_columns_fit(const std::vector<Column>& columns, int width, int first_width) {
  return width - width_of_others(columns) >= std::min(width_of(columns.front()), first_width);
}

std::vector<std::string> fit_columns(std::vector<Column>& columns, int width, int first_width,
                                     TooLong first_cells) {
  std::vector<std::string> left_out;
  const auto last_to_go = std::ranges::max_element(columns, [](const Column& a, const Column& b) {
                            return a.goes < b.goes;
                          })->goes;
  for (int round = 1; round <= last_to_go && !all_columns_fit(columns, width, first_width); ++round) {
    for (const Column& column : columns)
      if (column.goes == round) left_out.push_back(column.title);
    std::erase_if(columns, [&](const Column& column) { return column.goes == round; });
  }
  const int room = std::max(width - width_of_others(columns), display_width(columns.front().title));
  for (std::string& cell : columns.front().cells)
    cell = first_cells == TooLong::is_cut ? fit_to_width(cell, room) : wrap(cell, room, 2);
  return left_out;
}

std::string wider_terminal_words(const std::vector<std::string>& left_out) {
  return left_out.empty() ? "" : fmt::format("A wider terminal also shows: {}.", fmt::join(left_out, ", "));
}

std::string table_of(const std::vector<Column>& columns, bool color) {
  std::vector<int> widths;
  for (const Column& column : columns) widths.push_back(width_of(column));
  std::string text;
  const std::size_t rows = columns.front().cells.size();
  for (std::size_t line = 0; line <= rows; ++line) {  // line 0 holds the titles
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const Column& column = columns[i];
      const std::string& whole = line == 0 ? column.title : column.cells[line - 1];
      const std::string_view words = std::string_view(whole).substr(0, whole.find('\n'));
      const bool ends_line = i + 1 == columns.size() && !column.to_the_right;
      const std::string cell = ends_line ? std::string(words) : padded(words, widths[i], column.to_the_right);
      if (i > 0) text += kGap;
      if (line == 0)
        text += painted(cell, kBold, color);
      else
        text += column.paints.empty() ? cell : painted(cell, column.paints[line - 1], color);
    }
    text += "\n";
    if (line == 0) continue;
    const std::string& first = columns.front().cells[line - 1];
    if (const std::size_t end = first.find('\n'); end != std::string::npos)
      text += first.substr(end + 1) + "\n";
  }
  return text;
}

ScreenLines::ScreenLines(bool color, int width) : color_(color) {
  constexpr int kNarrowestLayout = 40;
  width_ = std::max(width, kNarrowestLayout);
}

void ScreenLines::line(std::string_view text) { text_.append(text) += '\n'; }

void ScreenLines::heading(std::string_view text) {
  line("");
  title(text);
}

void ScreenLines::title(std::string_view text) { line(painted(fit_to_width(text, width_), kBold, color_)); }

void ScreenLines::sentence(std::string_view sign, std::string_view paint, std::string_view text) {
  line(fmt::format("{} {}", painted(sign, paint, color_),
                   wrap(without_control_characters(text), width_ - 2, 2)));
}

void ScreenLines::figure(std::string_view name, std::string_view text) {
  line(fmt::format("{:<10} {}", name, wrap(text, width_ - 11, 11)));
}

void ScreenLines::indented(std::string_view text) { line("  " + wrap(text, width_ - 2, 2)); }

void ScreenLines::wrapped(std::string_view text, int indent, std::string_view paint) {
  const std::string lines = wrap(text, width_, indent);
  line(paint.empty() ? lines : painted(lines, paint, color_));
}

void ScreenLines::missing_data(const std::vector<std::string>& sentences) {
  constexpr std::size_t kShown = 6;
  if (sentences.empty()) return;
  heading("Missing data");
  for (std::size_t i = 0; i < std::min(sentences.size(), kShown); ++i) sentence("!", kYellow, sentences[i]);
  if (sentences.size() > kShown)
    line(fmt::format("  and {} more; --json has all", sentences.size() - kShown));
}

void ScreenLines::and_more(std::size_t all, std::size_t shown) {
  if (all > shown) line(fmt::format("  and {} more", grouped(static_cast<std::int64_t>(all - shown))));
}

int ScreenLines::room_after(std::string_view figures) const {
  constexpr int kLeast = 10;
  return std::max(kLeast, width_ - display_width(figures));
}

std::string share_figures(std::int64_t bytes, std::int64_t whole, std::string_view error) {
  const double share = static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(1, whole));
  return fmt::format("  {:>9}{} {:>3.0f} %  ", format_bytes({bytes}), error, 100 * share);
}

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

std::vector<std::string> escaped(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = escaped(cell);
  return cells;
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
