#include "report/terminal_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/display_width.h"
#include "base/text.h"

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

}  // namespace

std::string painted(std::string_view text, std::string_view paint, bool color) {
  return color ? fmt::format("{}{}{}", paint, text, kPlain) : std::string(text);
}

bool all_columns_fit(const std::vector<Column>& columns, int width, int first_width) {
  return width - width_of_others(columns) >= std::min(width_of(columns.front()), first_width);
}

std::vector<std::string> fit_columns(std::vector<Column>& columns, int width, int first_width,
                                     TooLong first_cells) {
  std::vector<std::string> left_out;
  const auto last_to_go =
      std::max_element(columns.begin(), columns.end(), [](const Column& a, const Column& b) {
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

}  // namespace headroom::report
