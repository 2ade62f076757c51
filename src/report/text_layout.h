// The layout of text views: tables and lines on a terminal, and Markdown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"

namespace headroom::report {

// Of a table on a terminal. Columns are as wide as their content, and the first one gets the rest of the
// line. If that is too little, the least important columns are left out first.
struct Column {
  std::string title;
  int goes = 0;  // order in which columns are left out when the table is too wide; 0: never
  bool to_the_right = true;
  std::vector<std::string> cells = {};        // of the first column one may have several lines
  std::vector<std::string_view> paints = {};  // one a cell, or none at all
};

// A cell for each column.
void add_row(std::vector<Column>& columns, std::vector<std::string> cells);

enum class TooLong { is_cut, goes_on_below };

// Leaves out columns and cuts the first one's cells, or breaks them at spaces, until the table fits.
// Another column is left out if the first one would get less than `first_width`. Returns the titles of the
// columns that were left out.
std::vector<std::string> fit_columns(std::vector<Column>& columns, int width, int first_width,
                                     TooLong first_cells = TooLong::is_cut);
// Whether it would leave out none.
bool all_columns_fit(const std::vector<Column>& columns, int width, int first_width);
// "A wider terminal also shows: MAX A, MAX B."; empty if no column was left out.
std::string wider_terminal_words(const std::vector<std::string>& left_out);

// A line for the titles and one a row; `columns` all have the same number of cells.
std::string table_of(const std::vector<Column>& columns, bool color);

// Lines of a report on a terminal, at most as wide as it: headings, sentences, figures and rows of tables.
class ScreenLines {
 public:
  // A terminal of less than 40 columns is written as one of 40.
  ScreenLines(bool color, int width);

  void line(std::string_view text);
  // In bold, and with an empty line before it.
  void heading(std::string_view text);
  // The first line, in bold.
  void title(std::string_view text);
  // "✗ Leak: …": later lines begin below the text.
  void sentence(std::string_view sign, std::string_view paint, std::string_view text);
  void note(std::string_view text) { sentence(" ", "", text); }
  // "Peak       12.0 MiB at 1.2 s": later lines begin below the text.
  void figure(std::string_view name, std::string_view text);
  // Begins behind two spaces.
  void indented(std::string_view text);
  // Broken at the width; `indent` is that of the later lines.
  void wrapped(std::string_view text, int indent = 0, std::string_view paint = {});
  void table(const std::vector<Column>& columns) { text_ += table_of(columns, color_); }
  // A section of the first sentences; nothing without any.
  void missing_data(const std::vector<std::string>& sentences);
  // A row of a table: `name(room)` gets what the figures leave of the line, and at least 10 columns.
  template <class Name>
  void row(const std::string& figures, Name name) {
    line(figures + name(room_after(figures)));
  }
  // "  and 12 more", if not all rows were shown.
  void and_more(std::size_t all, std::size_t shown);

  int room_after(std::string_view figures) const;
  int width() const { return width_; }
  std::string text() && { return std::move(text_); }

 private:
  bool color_;
  int width_;
  std::string text_;
};

// The figures of a row: "   12.0 MiB  34 %  "; `error` is a column between them.
std::string share_figures(std::int64_t bytes, std::int64_t whole, std::string_view error = {});

// GitHub-flavoured Markdown from text that may hold anything: names of files and models, a runtime's errors.
// The text as itself: nothing in it is markup, and it stays on its line and in its table cell.
std::string escaped(std::string_view text);
std::vector<std::string> escaped(std::vector<std::string> cells);
// As code, on one line.
std::string code(std::string_view text);

inline constexpr std::size_t kAllColumns = 99;

// Cells are Markdown already. Columns are padded, so that the file reads well as plain text too.
class MarkdownTable {
 public:
  // The first `word_columns` are aligned to the left, the others (figures) to the right.
  MarkdownTable(std::size_t word_columns, std::vector<std::string> header) : word_columns_(word_columns) {
    add(std::move(header));
  }
  void add(std::vector<std::string> row);
  bool empty() const { return rows_.size() < 2; }
  // Ends in an empty line.
  std::string text() const;

 private:
  std::size_t word_columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace headroom::report
