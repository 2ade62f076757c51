// What headroom doctor reads, and what it found in it. Each reader adds findings, and returns what was read,
// in words.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>

#include "base/files.h"
#include "doctor/inputs/examine.h"
#include "doctor/log/log_findings.h"
#include "trace/summary_lines.h"

namespace headroom::doctor {

using Findings = std::vector<Finding>;

struct Examination {
  Examined result;
  LogFindings logs;
  // Absolute paths. An input that is given twice, or also by its folder or by a recording's tree, is read
  // once.
  std::set<std::string> seen;
  std::vector<std::string> left_out;  // files of folders that are neither text nor Headroom's

  Status add(std::string input, std::string kind, Result<std::string> words) {
    if (!words) return forward_error(words);
    result.report.examined.push_back({std::move(input), std::move(kind), std::move(*words)});
    return {};
  }
  // Returns false if the path was seen before.
  bool is_new(const std::filesystem::path& path) {
    std::error_code code;
    const std::filesystem::path whole = std::filesystem::weakly_canonical(path, code);
    return code || seen.insert(whole.string()).second;
  }
};

// "1,234 lines".
inline std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", trace::grouped(count), noun, count == 1 ? "" : "s");
}

// A run of headroom bench: its report, its log and its samples of the machine. Fails if `report`, the file
// report.json, cannot be read. The words name other files that cannot be read.
Result<std::string> read_run(const std::filesystem::path& report, Findings& findings);

// A recording of headroom trace, and a memory snapshot of PyTorch.
Result<std::string> read_recording(const std::filesystem::path& file, Findings& findings);
Result<std::string> read_snapshot(const std::filesystem::path& file, Findings& findings);
// The recordings of the command's other processes, which are beside its own: the child of a wrapper is the
// program itself. An unreadable one is reported and skipped.
void read_other_processes(const std::filesystem::path& recording, Examination& examination);

// Samples of a machine. `name`: what findings call the input.
Result<std::string> read_watch_log(const std::filesystem::path& file, const std::string& name,
                                   Findings& findings);
// `kind`: tool_of() the file.
Result<std::string> read_tool_text(const std::string& kind, const std::filesystem::path& file,
                                   Findings& findings);
// Samples the machine, or the tree under `root`, for one second.
Result<std::string> read_live_machine(const std::filesystem::path& root, const std::string& name,
                                      Findings& findings);
// The tool that printed text with this beginning: "tegrastats", "nvidia-smi" or "meminfo"; otherwise empty.
std::string tool_of(std::string_view begin);

// If standard input begins like a log of headroom watch, compressed or not: a copy of it that can be read
// again. The copy is in memory, so more than 256 MiB are refused. Otherwise nothing, and standard input is
// unread.
Result<std::optional<UniqueFd>> watch_log_on_input();

}  // namespace headroom::doctor
