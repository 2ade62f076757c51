// The report of many lines that the kernel writes before it kills: what the machine had, and each process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// The label of a control group that Headroom made, "run" of "/a/headroom-2236-3-run"
// (limits/memory_limit.cpp); empty of any other group.
std::string_view label_of_own_group(std::string_view group);

// What a kill's constraint is called where Headroom tried a limit of its own: "headroom bench --mem-limit"
// first proves in groups "headroom-PID-N-probe-ROUTE" that nothing gets past it (limits/limit_probe.cpp).
inline constexpr std::string_view kLimitProbe = "a trial of a limit";

// Whether the process belongs to a desktop, as the machine's findings know them.
bool is_of_desktop(std::string_view process);

class OomReport {
 public:
  static constexpr int kMostLines = 20'000;  // a machine of 10,000 processes has half as many

  // Whether the line begins a report; from it on all lines are wanted.
  static bool begins(std::string_view line);
  void begin(std::string_view line);
  bool is_open() const { return open_; }
  // No kill was told since it began.
  bool waits_for_kill() const { return waits_for_kill_; }
  // A kill that is told while it is open is of it: it has the group's name where the kernel's line has not.
  // One of a limit's trials becomes a message of that: no victim that anybody misses, and no event that what
  // systemd tells later could be of.
  void note_kill(LogMessage& message);
  // A line of the report, or one that came between. The report ends after kMostLines.
  void read(std::string_view line, std::int64_t line_number = 0);
  // The row of a process, as it stands in the log.
  struct Row {
    std::int64_t line = 0;
    std::string text;
  };
  // The figures so far, to a kill's message. The report is over then. Given back: the victim's row, where it
  // tells of much in swap, which the kill's own line does not.
  std::optional<Row> end(LogMessage& message);

 private:
  void read_pages(std::string_view line);
  void read_huge_pages(std::string_view line);
  void read_columns(std::string_view line);
  void read_task(std::string_view line, std::int64_t line_number);
  void keep_row(std::int64_t line_number, std::string_view line);
  void find_page_size(const LogMessage& kill);
  std::optional<Row> add_swap_of_victim(LogMessage& message) const;
  void note_desktop(std::string_view process, std::int64_t pages);
  bool is_of_probe(const LogMessage& message);
  std::optional<Bytes> pages(std::string_view name) const;

  bool open_ = false, waits_for_kill_ = false;
  std::string invoked_by_, group_;
  // The last kill of which the group was told: the line with the victim's sizes does not have it.
  std::string last_event_;
  bool last_is_probe_ = false;
  int lines_ = 0;
  std::map<std::string, std::int64_t, std::less<>> pages_;  // by the kernel's own word
  std::optional<Bytes> limit_, memory_and_swap_limit_, group_swap_limit_, swap_total_, swap_free_;
  bool is_version_1_ = false;    // of control groups: version 2 has no sum of memory and swap
  std::int64_t huge_pages_ = 0;  // bytes, of all sizes and nodes
  static constexpr std::int64_t kUsualPage = 4 << 10, kLargestPage = 64 << 10;
  std::optional<std::int64_t> page_;  // bytes; kUsualPage where nothing tells
  std::int64_t tasks_ = 0, rss_ = 0, largest_ = 0;
  std::string largest_name_, desktop_names_;
  std::int64_t desktop_ = 0;  // pages
  // In pages. The rows of the kMostRows processes that have most in swap are kept whole.
  struct Process {
    std::int64_t pid = 0, tgid = 0, mapped = 0;
    std::optional<std::int64_t> swapped;
    Row row;
  };
  const Process* find_process(const std::optional<std::int64_t>& pid) const;
  static constexpr std::size_t kMostRows = 64;
  std::optional<std::size_t> swap_column_;  // behind the pid
  std::vector<Process> processes_;
  std::vector<std::size_t> rows_;  // whose are kept
};

// So much in swap, and a tenth of what it has at least, is worth a sentence.
bool is_much_in_swap(Bytes swapped, const std::optional<Bytes>& resident);

}  // namespace headroom::doctor
