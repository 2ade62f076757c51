// A log for `headroom top --replay` with any content is rejected or drawn, at any terminal size, within its
// width and without control characters.
#include "base/log.h"
#include "base/text.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "tui/top_session.h"
#include "watch/log_reader.h"

void fuzz(std::string_view log_text) {
  using namespace headroom;
  log::set_console_level(log::Level::error);  // do not print a message for each damaged line
  const InputFile file(log_text);
  const auto replay = watch::ReplayLog::open(file.path);
  if (!replay) return;
  tui::SessionOptions options;
  options.alerts = watch::default_alert_settings();
  tui::TopSession session(options);
  for (std::size_t i = 0; i < replay->size(); ++i)
    if (auto sample = replay->read(i)) session.take(*sample);
  for (const int width : {9, 80, 200}) {
    const auto canvas = draw_top(session.picture(), {}, width, width / 3);
    const std::string text = to_text(canvas, ColorDepth::none);
    for (const std::string_view line : split(text, '\n'))
      if (display_width(line) > width || line.find('\033') != line.npos) __builtin_trap();
  }
}
