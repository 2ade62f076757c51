// A log for `headroom top --replay` with any content is rejected or drawn, at any terminal size, within its
// width and without control characters.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/display_width.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "tui/top_session.h"
#include "watch/replay_log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headroom;
  log::set_console_level(log::Level::error);  // do not print a message for each damaged line
  const UniqueFd file(::memfd_create("log", MFD_CLOEXEC));
  if (!write_all(file.get(), {reinterpret_cast<const char*>(data), size})) return 0;
  const auto replay = watch::ReplayLog::open("/proc/self/fd/" + std::to_string(file.get()));
  if (!replay) return 0;
  tui::SessionOptions options;
  options.alerts = watch::default_alert_settings();
  tui::TopSession session(options);
  for (std::size_t i = 0; i < replay->size(); ++i)
    if (auto sample = replay->read(i)) session.take(*sample);
  for (const int width : {9, 80, 200}) {
    const auto canvas = draw_top(session.picture(), {}, width, width / 3);
    const std::string text = to_text(canvas, tui::ColorDepth::none);
    for (const std::string_view line : split(text, '\n'))
      if (display_width(line) > width || line.find('\033') != line.npos) __builtin_trap();
  }
  return 0;
}
