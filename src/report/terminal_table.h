// Tables on a terminal. Columns are as wide as their content, and the first column gets the rest of the line.
// If that is too little, the least important columns are left out first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headroom::report {

inline constexpr std::string_view kRed = "\033[31m", kGreen = "\033[32m", kYellow = "\033[33m",
                                  kBold = "\033[1m", kPlain = "\033[0m";

std::string painted(std::string_view text, std::string_view paint, bool color);

struct Column {
  std::string title;
  int goes = 0;  // order in which columns are left out when the table is too wide; 0: never
  bool to_the_right = true;
  std::vector<std::string> cells = {};        // of the first column one may have several lines
  std::vector<std::string_view> paints = {};  // one a cell, or none at all
};

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

}  // namespace headroom::report
