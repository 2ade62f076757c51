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
  std::optional<Row> add_swap_of_victim(LogMessage& message) const;
  std::optional<Bytes> pages(std::string_view name) const;

  bool open_ = false, waits_for_kill_ = false;
  std::string invoked_by_, group_;
  int lines_ = 0;
  std::map<std::string, std::int64_t, std::less<>> pages_;  // by the kernel's own word
  std::optional<Bytes> limit_, memory_and_swap_limit_, group_swap_limit_, swap_total_, swap_free_;
  std::int64_t huge_pages_ = 0;  // bytes, of all sizes and nodes
  std::int64_t page_ = 4096;
  std::int64_t tasks_ = 0, rss_ = 0, largest_ = 0;
  std::string largest_name_;
  // What each process has in swap. The rows of at most kMostRows that have much are kept whole.
  struct Swapped {
    std::int64_t pid = 0, tgid = 0, pages = 0;
    Row row;
  };
  static constexpr std::size_t kMostRows = 64;
  std::optional<std::size_t> swap_column_;  // behind the pid
  std::vector<Swapped> swapped_;
  std::size_t rows_ = 0;
};

// So much in swap, and a tenth of what it has at least, is worth a sentence.
bool is_much_in_swap(Bytes swapped, const std::optional<Bytes>& resident);

}  // namespace headroom::doctor
