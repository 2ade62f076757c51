// GitHub-flavoured Markdown from text that may hold anything: file names, model names, a runtime's error
// messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headroom::report {

// The text as itself: nothing in it is markup, and it stays on its line and in its table cell.
std::string escaped(std::string_view text);
// As code, on one line and safe in a table cell.
std::string code(std::string_view text);

// A table whose first column is aligned to the left and all others to the right, or all to the left. Cells
// are Markdown already. Columns are padded, so that the file reads well as plain text too.
class MarkdownTable {
 public:
  enum class Align { figures, words };
  MarkdownTable(Align align, std::vector<std::string> header) : align_(align), rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() < 2; }
  // Ends in an empty line.
  std::string text() const;

 private:
  Align align_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace headroom::report
