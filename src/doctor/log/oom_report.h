// The kernel's report before an OOM kill, of many lines: the machine's memory, and each process.
//
// Memory that belongs to no process is computed as: the pages that the kernel manages (RAM − reserved), less
// free pages, the lists of anonymous memory and page cache (LRU), slab and page tables. Processes' resident
// memory is on the LRU lists, shared pages once. GPU memory is on none of them. Reserved huge pages are not
// on the lists, and are subtracted. Used swap is subtracted too: it may be in zram, which is RAM, and the
// report does not say so. The rest is the least that devices hold.
#pragma once

#include <map>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// "run" of a control group of Headroom's, "/a/headroom-2236-3-run" (limits/memory_limit.cpp); else empty.
std::string_view label_of_own_group(std::string_view group);

// A process of a compiler or linker, by its name: cc1plus, cicc, ld.
bool is_compiler(std::string_view process);

class OomReport {
 public:
  static constexpr int kMostLines = 20'000;  // a machine with 10,000 processes has half as many

  static bool begins(std::string_view line);
  // A report whose first lines are missing begins with its table of processes.
  static bool begins_within(std::string_view line);
  void begin(std::string_view line);
  bool is_open() const { return open_; }
  // No kill followed since it began.
  bool waits_for_kill() const { return waits_for_kill_; }
  // Adds the report's control group to a kill's message. A kill in a probe becomes a message of the probe:
  // its victim is of no interest, and later lines of systemd do not belong to it.
  void note_kill(LogMessage& message);
  // A line of the report, or a line of another program between. The report ends after kMostLines.
  void read(std::string_view line);
  // Ends the report, and adds its figures to a kill's message.
  void end(LogMessage& message);

 private:
  struct Process {
    std::int64_t pid = 0, tgid = 0, mapped = 0;  // `mapped` and `swapped` in pages
    std::optional<std::int64_t> swapped;
  };
  void read_pages(std::string_view line);
  void read_huge_pages(std::string_view line);
  void read_columns(std::string_view line);
  void read_task(std::string_view line);
  void find_page_size(const LogMessage& kill);
  void add_unaccounted(LogMessage& message) const;
  bool is_of_probe(const LogMessage& message);
  const Process* find_process(const std::optional<std::int64_t>& pid) const;
  Bytes bytes_of(std::int64_t pages) const { return Bytes{pages * page_.value_or(kUsualPage)}; }
  std::optional<Bytes> bytes_of(std::string_view word) const;

  static constexpr std::int64_t kUsualPage = 4 << 10, kLargestPage = 64 << 10;
  bool open_ = false, waits_for_kill_ = false;
  int lines_ = 0;
  std::string invoked_by_, group_;
  // The last kill whose group is known: the line with the victim's sizes does not name the group.
  std::string last_event_;
  bool last_is_probe_ = false;
  // Figures of limits and swap. Of control groups, only version 1 has a sum of memory and swap.
  LogMessage limits_;
  std::map<std::string, std::int64_t, std::less<>> pages_;  // by the kernel's own word
  Bytes huge_pages_;                                        // of all sizes and nodes
  std::optional<std::int64_t> page_;                        // bytes; kUsualPage if unknown
  std::int64_t tasks_ = 0, compilers_ = 0;
  std::int64_t rss_ = 0, largest_ = 0, desktop_ = 0, compiling_ = 0;  // pages
  std::string largest_name_, desktop_names_;
  std::optional<std::size_t> swap_column_;  // behind the pid
  std::vector<Process> processes_;
};

}  // namespace headroom::doctor
