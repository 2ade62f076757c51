// `headroom top`: the machine's memory on one screen.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/terminal.h"
#include "tui/top_view.h"
#include "watch/alert_rules_file.h"

namespace headroom::tui {

struct TopOptions {
  bool once = false, json = false;
  int width = 0;       // of --once; 0: of the terminal
  int processes = 20;  // of --once
  std::filesystem::path sysroot = "/", replay;
  Nanoseconds interval{1'000'000'000};
  std::optional<watch::AlertSettings> alerts;
  ColorMode color = ColorMode::automatic;
  bool pss = false;
  TopChoice choice;
};

// Of a terminal that TERM and COLORTERM describe.
ColorDepth color_depth(ColorMode mode, int fd);

// The wall clock of a sample, as far as it is told.
std::string clock_text(const SystemSample& sample);

// Returns the exit code.
Result<int> run_top(TopOptions options);

}  // namespace headroom::tui
