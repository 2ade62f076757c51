// GitHub-flavoured Markdown from text that may hold anything: names of files and models, a runtime's errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headroom::report {

// The text as itself: nothing in it is markup, and it stays on its line and in its table cell.
std::string escaped(std::string_view text);
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
