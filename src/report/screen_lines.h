// Lines of a report on a terminal, at most as wide as it: headings, sentences, figures and rows of tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::report {

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
  // "Peak       12.0 MiB at 1.2 s": later lines begin below the text.
  void figure(std::string_view name, std::string_view text);
  // Begins behind two spaces.
  void indented(std::string_view text);
  // Broken at the width; `indent` is that of the later lines.
  void wrapped(std::string_view text, int indent = 0);
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

}  // namespace headroom::report
