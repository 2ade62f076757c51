#include "tui/run_top.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <thread>

#include "tui/live_top.h"
#include "tui/top_feed.h"
#include "tui/top_session.h"
#include "watch/live_input.h"
#include "watch/replay_log.h"
#include "watch/sample_writer.h"

namespace headroom::tui {
namespace {

// Time between the first sample (no rates) and the displayed one. The kernel counts CPU time in steps of 10
// ms.
constexpr Nanoseconds kForRates{500'000'000};

int print_once(const TopOptions& options, TopPicture picture) {
  if (options.json) {
    print_output(watch::json_line(*picture.sample));
    return 0;
  }
  TopChoice choice = options.choice;
  choice.interactive = false;
  const int width = options.width > 0 ? options.width : terminal_width(STDOUT_FILENO);
  picture.clock = clock_text(*picture.sample);
  print_output(to_text(draw_top_once(picture, choice, width, options.processes),
                       color_depth(options.color, STDOUT_FILENO)));
  return 0;
}

Result<int> show_machine_once(TopOptions options) {
  TopFeed feed(options.sysroot);
  TopSession session({kForRates, options.alerts, false, true});
  SystemSample sample;
  sources::ProcessChoice choice;
  const bool needs_all = options.choice.sort != ProcessColumn::memory || options.choice.reversed ||
                         !options.choice.filter.empty();
  choice.largest = needs_all ? 0 : static_cast<std::size_t>(options.processes);
  choice.with_pss = options.pss;
  feed.wait_for_gpus();
  feed.sample_into(sample, choice);
  session.take(sample);
  std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(kForRates, options.interval).count));
  feed.sample_into(sample, choice);
  session.take(sample);
  options.choice.show_charts = false;  // two samples make no chart
  TopPicture picture = session.picture();
  picture.source = feed.name();
  picture.processes = feed.processes();
  return print_once(options, std::move(picture));
}

Result<int> show_log_once(const TopOptions& options) {
  auto log = watch::ReplayLog::open(options.replay);
  if (!log) return forward_error(log);
  // The columns of a chart on the widest screens.
  constexpr std::size_t kWidestChart = 512;
  TopSession session({options.interval, options.alerts, false, false});
  for (std::size_t i = log->size() - std::min(log->size(), kWidestChart); i < log->size(); ++i) {
    auto sample = log->read(i);
    if (!sample) return forward_error(sample);
    session.take(*sample);
  }
  TopPicture picture = session.picture();
  picture.source = options.replay.filename().string();
  picture.pace = fmt::format("sample {} of {}", log->size(), log->size());
  return print_once(options, std::move(picture));
}

}  // namespace

std::string clock_text(const SystemSample& sample) {
  if (!sample.unix_time) return sample.clock_text;
  const std::time_t seconds = static_cast<std::time_t>(sample.unix_time->count / 1'000'000'000);
  std::tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) return {};
  return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

ColorDepth color_depth(ColorMode mode, int fd) {
  if (!use_color(mode, fd)) return ColorDepth::none;
  const char* const term = std::getenv("TERM");
  const char* const color_term = std::getenv("COLORTERM");
  const bool has_256 =
      (term != nullptr && std::string_view(term).find("256color") != std::string_view::npos) ||
      (color_term != nullptr && *color_term != '\0');
  return has_256 ? ColorDepth::colors_256 : ColorDepth::colors_16;
}

Result<int> run_top(TopOptions options) {
  if (options.replay.empty())
    if (auto sound = watch::check_sysroot(options.sysroot); !sound) return forward_error(sound);
  if (!options.once) return run_live_top(std::move(options));
  if (!options.replay.empty()) return show_log_once(options);
  return show_machine_once(std::move(options));
}

}  // namespace headroom::tui
