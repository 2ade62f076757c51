#include "report/screen_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/display_width.h"
#include "base/units.h"
#include "report/recording/recording_words.h"
#include "report/terminal_table.h"

namespace headroom::report {

ScreenLines::ScreenLines(bool color, int width) : color_(color) {
  constexpr int kNarrowest = 40;
  width_ = std::max(width, kNarrowest);
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

void ScreenLines::wrapped(std::string_view text, int indent) { line(wrap(text, width_, indent)); }

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

}  // namespace headroom::report
