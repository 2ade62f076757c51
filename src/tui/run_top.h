// `headroom top`: shows the machine's memory on one screen.
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
  int width = 0;       // for --once; 0: the terminal's width
  int processes = 20;  // rows of the process table, for --once
  std::filesystem::path sysroot = "/", replay;
  Nanoseconds interval{1'000'000'000};
  std::optional<watch::AlertSettings> alerts;
  ColorMode color = ColorMode::automatic;
  bool pss = false;
  TopChoice choice;
};

// Returns the exit code.
Result<int> run_top(TopOptions options);

}  // namespace headroom::tui
