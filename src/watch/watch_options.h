// The options of `headroom watch`.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "watch/alert_rules_file.h"

namespace headroom::watch {

// Text of another tool as the source, instead of this machine.
struct TextInput {
  std::string kind;                       // "tegrastats", "nvidia-smi", "meminfo", "headroom"
  std::filesystem::path file;             // "-": standard input; empty: start the tool
  std::vector<std::string> columns = {};  // columns of an nvidia-smi CSV without a header
};

enum class Format { lines, jsonl, csv };

struct WatchOptions {
  std::optional<TextInput> from;
  std::filesystem::path sysroot = "/";
  Nanoseconds interval{1'000'000'000};
  std::optional<Nanoseconds> duration;
  Format format = Format::lines;  // format of standard output
  bool quiet = false;             // print no samples

  std::filesystem::path output;  // empty: none; the suffix selects the format
  Bytes rotate_at;               // 0: never
  int keep = 4;                  // how many older files to keep

  // Processes to follow, with their descendants.
  std::vector<pid_t> pids;
  std::string name;
  std::vector<std::string> command;
  std::size_t largest_processes = 0;  // number of largest processes in each sample
  bool pss = true;                    // with proportional memory, which takes 1 ms per GiB

  std::optional<AlertSettings> alerts;

  bool baseline = false;
  std::vector<std::filesystem::path> plots;  // files to write: FILE.svg, FILE.html
  bool color = false;

  bool follows() const { return !pids.empty() || !name.empty() || !command.empty(); }
};

}  // namespace headroom::watch
