// What `headroom watch` was asked to do.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "watch/alert_rules_file.h"

namespace headroom::watch {

// Text of another tool in place of this machine.
struct TextInput {
  std::string kind;                       // "tegrastats", "nvidia-smi", "meminfo", "headroom"
  std::filesystem::path file;             // "-": standard input; empty: the tool itself is started
  std::vector<std::string> columns = {};  // of a CSV of nvidia-smi that has no header
};

enum class Format { lines, jsonl, csv };

struct WatchOptions {
  std::optional<TextInput> from;
  std::filesystem::path sysroot = "/";
  Nanoseconds interval{1'000'000'000};
  std::optional<Nanoseconds> duration;
  Format format = Format::lines;  // of what is printed
  bool quiet = false;             // no line a sample

  std::filesystem::path output;  // empty: none; its suffix says the format
  Bytes rotate_at;               // 0: never
  int keep = 4;                  // older files

  // Processes that are followed with what comes from them.
  std::vector<pid_t> pids;
  std::string name;
  std::vector<std::string> command;
  std::size_t largest_processes = 0;  // put into each sample besides
  bool pss = true;                    // and their proportional memory, which costs 1 ms a GiB

  std::optional<AlertSettings> alerts;

  bool baseline = false;
  std::vector<std::filesystem::path> plots;  // FILE.svg, FILE.html
  bool color = false;

  bool follows() const { return !pids.empty() || !name.empty() || !command.empty(); }
};

}  // namespace headroom::watch
