// What belongs to nobody: pages that the kernel manages (RAM − reserved) less the free ones, those on the
// lists of anonymous memory and page cache (LRU; GPU memory is on none), slab and page tables. Processes'
// resident memory is on these lists, once each however often it is shared, so it is not taken off again. Huge
// pages that are reserved are on none, and are taken off. So is what is swapped out: in zram it is in memory,
// and the report tells neither whether there is one nor how large it is; so the rest is what devices hold at
// least.
#include "doctor/log/oom_report.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/machine/machine_history.h"
#include "types/limit.h"

namespace headroom::doctor {
namespace {

constexpr std::array kLruWords{"active_anon", "inactive_anon", "active_file", "inactive_file", "unevictable"};
constexpr std::int64_t kMostPages = std::int64_t{1} << 40;
constexpr std::int64_t kMostBytes = std::int64_t{1}
                                    << 50;  // of a machine: sums of a dozen stay far from an overflow
constexpr Bytes kMuch = mebibytes(64);
constexpr std::array kOtherWords{"slab_reclaimable", "slab_unreclaimable", "pagetables"};

// Where many kills follow one another, the kernel tells of only ten in five seconds in which group they were,
// and a bench tries seven routes in half a second. What it tells of the others fits a trial: it may take
// kLargestProbe, asks for twice as much, and its program is small.
bool looks_like_probe(const LogMessage& message) {
  const auto anonymous = message.bytes("anonymous_bytes"), mapped = message.bytes("virtual_bytes");
  return message.text("victim") == "headroom" && message.text("constraint") == "control group" && anonymous &&
         mapped && *anonymous + message.bytes("shared_bytes").value_or(Bytes{}) <= kLargestProbe &&
         mapped->count <= 3 * kLargestProbe.count;
}

void tell_as_probe(LogMessage& message) {
  LogMessage probe;
  // The summary and the line with the sizes are one kill.
  probe.part = message.bytes("virtual_bytes") ? "sizes" : "summary";
  probe.is_echo = message.is_echo;
  if (message.is_echo) probe.event = message.event;
  probe.add("victim", message.text("victim"));
  probe.add("constraint", kLimitProbe);
  message = std::move(probe);
}

}  // namespace

std::string_view label_of_own_group(std::string_view group) {
  constexpr std::string_view kPrefix = "headroom-";
  std::string_view name = group.substr(group.rfind('/') + 1);
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  for (int number = 0; number < 2; ++number) {  // the process that made it, and the number of the group
    const std::size_t end = name.find('-');
    if (end == name.npos || !parse_number<std::int64_t>(name.substr(0, end))) return {};
    name.remove_prefix(end + 1);
  }
  return name;
}

bool is_of_desktop(std::string_view process) {
  SystemSample sample;
  sample.processes.emplace_back();
  sample.processes.back().name = process;
  sample.processes.back().rss = Bytes{1};
  return desktop_in(sample).held > Bytes{};
}

bool is_much_in_swap(Bytes swapped, const std::optional<Bytes>& resident) {
  constexpr std::int64_t kPart = 10;
  return swapped >= kMuch && swapped.count >= (swapped + resident.value_or(Bytes{})).count / kPart;
}

bool OomReport::begins(std::string_view line) { return has(line, "invoked oom-killer"); }

// "python3 invoked oom-killer: gfp_mask=…", behind whatever the log puts there: "[  510.8] ", "host kernel:
// ".
void OomReport::begin(std::string_view line) {
  *this = {};
  open_ = waits_for_kill_ = true;
  constexpr std::size_t kLongestName = 15;  // the kernel's
  std::string_view name = trim(line.substr(0, line.find(" invoked oom-killer")));
  for (const std::string_view end : {"] ", ": "})
    if (const std::size_t at = name.rfind(end); at != name.npos) name = trim(name.substr(at + end.size()));
  if (name.size() <= kLongestName) invoked_by_ = name;
}

void OomReport::note_kill(LogMessage& message) {
  waits_for_kill_ = false;
  if (open_ && !group_.empty() && message.text("control_group").empty()) message.add("control_group", group_);
  if (!is_of_probe(message)) return;
  open_ = false;
  tell_as_probe(message);
}

bool OomReport::is_of_probe(const LogMessage& message) {
  if (const std::string group = message.text("control_group"); !group.empty()) {
    last_event_ = message.event;
    last_is_probe_ = label_of_own_group(group).starts_with("probe-");
    return last_is_probe_;
  }
  if (!message.event.empty() && message.event == last_event_) return last_is_probe_;
  return looks_like_probe(message);
}

void OomReport::read(std::string_view line, std::int64_t line_number) {
  if (++lines_ > kMostLines) {
    open_ = false;
    return;
  }
  if (has(line, " pages RAM")) {
    const std::size_t end = line.find(" pages RAM");
    const std::size_t begin = line.substr(0, end).rfind(' ');
    if (const auto number = parse_number<std::int64_t>(
            line.substr(begin == line.npos ? 0 : begin + 1, end - (begin == line.npos ? 0 : begin + 1))))
      pages_["RAM"] = *number;
  } else if (line.ends_with(" pages reserved") && !has(line, "cma reserved")) {
    const std::string_view number = line.substr(0, line.size() - std::string_view(" pages reserved").size());
    const std::size_t begin = number.rfind(' ');
    if (const auto value = parse_number<std::int64_t>(number.substr(begin == number.npos ? 0 : begin + 1)))
      pages_["reserved"] = *value;
  } else if (has(line, "hugepages_total=")) {
    read_huge_pages(line);
  } else if (const auto usage = text_after(line, "memory: usage ")) {
    limit_ = size_after(*usage, "limit ");
  } else if (const auto both = text_after(line, "memory+swap: usage ")) {
    is_version_1_ = true;
    memory_and_swap_limit_ = size_after(*both, "limit ");
  } else if (const auto swapped = text_after(line, "swap: usage ")) {
    group_swap_limit_ = size_after(*swapped, "limit ");
  } else if (const auto of_group = text_after(line, " killed as a result of limit of ")) {
    group_ = trim(*of_group);
  } else if (const auto statistics = text_after(line, "Memory cgroup stats for ")) {
    // "…: cache:1024KB rss:…" up to 4.20; the first one is the group's, the others are of those in it
    if (group_.empty())
      group_ = statistics->substr(0, std::min(statistics->find(": "), statistics->rfind(':')));
  } else if (const auto swap = size_after(line, "Total swap = ")) {
    swap_total_ = swap;
  } else if (const auto free = size_after(line, "Free swap  = ")) {
    swap_free_ = free;
  } else if (has(line, "*4kB") || has(line, "*16kB") || has(line, "*64kB")) {
    // "DMA: 142*4kB (UEC) 161*8kB …": the first is a page
    if (const std::size_t star = line.find('*'); star != line.npos)
      if (const auto size = leading_size(line.substr(star + 1)); size && size->count > 0) page_ = size->count;
  } else if (has(line, " tgid ") && has(line, " oom_score_adj ")) {
    read_columns(line);
  } else {
    read_pages(line);
    read_task(line, line_number);
  }
}

// "active_anon:1820 inactive_anon:302 isolated_anon:0", "free:33210 free_pcp:0": the sums over all zones have
// no unit; those of a node or zone end in kB.
void OomReport::read_pages(std::string_view line) {
  const bool is_sum_of_free = has(line, "free_pcp:") || has(line, "slab_reclaimable:");
  for (const std::string_view word : split_words(line)) {
    const std::size_t colon = word.find(':');
    if (colon == word.npos) continue;
    const std::string_view name = word.substr(0, colon);
    const auto number = parse_number<std::int64_t>(word.substr(colon + 1));
    if (!number || *number < 0) continue;
    // A program's own line may stand between, and say "free:", too.
    bool wanted = name == "free" && is_sum_of_free;
    for (const char* lru : kLruWords) wanted = wanted || name == lru;
    for (const char* other : kOtherWords) wanted = wanted || name == other;
    if (wanted) pages_.try_emplace(std::string(name), *number);
  }
}

// "Node 0 hugepages_total=512 hugepages_free=512 hugepages_surp=0 hugepages_size=2048kB"
void OomReport::read_huge_pages(std::string_view line) {
  const auto total = text_after(line, "hugepages_total=");
  const auto size = size_after(line, "hugepages_size=");
  const auto count = total ? parse_number<std::int64_t>(total->substr(0, total->find(' '))) : std::nullopt;
  std::int64_t bytes = 0;
  if (!count || !size || *count < 0 || size->count < 0 || __builtin_mul_overflow(*count, size->count, &bytes))
    return;
  if (__builtin_add_overflow(huge_pages_, bytes, &huge_pages_)) huge_pages_ = 0;
}

// "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name"; up to 4.14 with
// nr_ptes, since 6.8 with rss_anon and others; before 3.4 without swapents.
void OomReport::read_columns(std::string_view line) {
  const auto words = split_words(line);
  const auto uid = std::find(words.begin(), words.end(), "uid");
  const auto swap = std::find(uid, words.end(), "swapents");
  if (swap != words.end()) swap_column_ = static_cast<std::size_t>(swap - uid);
}

// "[   2343]     0  2343  7940883  3482011 28766208        0             0 python3": pid, uid, tgid,
// total_vm, rss, and what differs from one kernel to the next, with the name at the end.
void OomReport::read_task(std::string_view line, std::int64_t line_number) {
  const std::size_t close = line.rfind("] ");
  if (close == line.npos) return;
  const std::size_t open = line.substr(0, close).rfind('[');
  if (open == line.npos) return;
  const auto pid = parse_number<std::int64_t>(trim(line.substr(open + 1, close - open - 1)));
  if (!pid) return;
  const auto words = split_words(line.substr(close + 1));
  constexpr std::size_t kTgid = 1, kMapped = 2, kRss = 3, kFewest = 7;
  if (words.size() < kFewest) return;
  std::size_t name = 0;  // behind the last of the numbers
  while (name < words.size() && parse_number<std::int64_t>(words[name])) ++name;
  if (name < kFewest - 1 || name >= words.size()) return;
  const auto rss = parse_number<std::int64_t>(words[kRss]);
  if (!rss || *rss < 0 || *rss > kMostPages) return;
  ++tasks_;
  rss_ += *rss;
  const std::string_view process = line.substr(static_cast<std::size_t>(words[name].data() - line.data()));
  if (*rss > largest_) {
    largest_ = *rss;
    largest_name_ = process;
  }
  note_desktop(process, *rss);
  auto swapped =
      swap_column_ && *swap_column_ < name ? parse_number<std::int64_t>(words[*swap_column_]) : std::nullopt;
  if (swapped && (*swapped < 0 || *swapped > kMostPages)) swapped.reset();
  // A report has a row for each process: what has more than a machine's is none, and takes no more memory.
  constexpr std::size_t kMostProcesses = 100'000;
  if (processes_.size() >= kMostProcesses) return;
  processes_.push_back({*pid,
                        parse_number<std::int64_t>(words[kTgid]).value_or(*pid),
                        parse_number<std::int64_t>(words[kMapped]).value_or(0),
                        swapped,
                        {}});
  keep_row(line_number, line);
}

// Of the last process, where it has much in swap by the page size that may turn out to be. Where all places
// are taken the least goes.
void OomReport::keep_row(std::int64_t line_number, std::string_view line) {
  const auto swapped_of = [this](std::size_t process) { return *processes_[process].swapped; };
  const std::size_t last = processes_.size() - 1;
  if (processes_[last].swapped.value_or(0) < kMuch.count / page_.value_or(kLargestPage)) return;
  if (rows_.size() >= kMostRows) {
    const auto least = std::min_element(rows_.begin(), rows_.end(), [&](std::size_t a, std::size_t b) {
      return swapped_of(a) < swapped_of(b);
    });
    if (swapped_of(*least) >= swapped_of(last)) return;
    processes_[*least].row = {};
    rows_.erase(least);
  }
  rows_.push_back(last);
  processes_[last].row = {line_number, std::string(line)};
}

const OomReport::Process* OomReport::find_process(const std::optional<std::int64_t>& pid) const {
  const auto found = std::find_if(processes_.begin(), processes_.end(), [&pid](const Process& each) {
    return each.pid == pid || each.tgid == pid;
  });
  return pid && found != processes_.end() ? &*found : nullptr;
}

// A control group's report has no line of free blocks, whose smallest are pages; arm64 kernels have pages of
// 4, 16 or 64 KiB. But the victim's mapped memory is told in pages by its row, and in bytes by the line of
// its kill. What its other threads mapped between the two is little against the factor of four.
void OomReport::find_page_size(const LogMessage& kill) {
  const Process* const victim = find_process(kill.number("pid"));
  const auto mapped = kill.bytes("virtual_bytes");
  if (page_ || victim == nullptr || !mapped || victim->mapped <= 0) return;
  constexpr double kTolerance = 0.1;
  const double ratio = static_cast<double>(mapped->count) / static_cast<double>(victim->mapped);
  for (const std::int64_t page : {kUsualPage, std::int64_t{16} << 10, kLargestPage})
    if (std::abs(ratio / static_cast<double>(page) - 1) <= kTolerance) page_ = page;
}

void OomReport::note_desktop(std::string_view process, std::int64_t pages) {
  if (!is_of_desktop(process)) return;
  desktop_ += pages;
  if (desktop_names_.find(process) == desktop_names_.npos)
    desktop_names_.append(desktop_names_.empty() ? "" : ", ").append(process);
}

std::optional<OomReport::Row> OomReport::add_swap_of_victim(LogMessage& message) const {
  const Process* const victim = find_process(message.number("pid"));
  std::int64_t bytes = 0;
  if (victim == nullptr || !victim->swapped ||
      __builtin_mul_overflow(*victim->swapped, page_.value_or(kUsualPage), &bytes))
    return std::nullopt;
  message.add("victim_swap_bytes", Bytes{bytes});
  if (victim->row.text.empty() || !is_much_in_swap(Bytes{bytes}, message.bytes("anonymous_bytes")))
    return std::nullopt;
  return victim->row;
}

std::optional<Bytes> OomReport::pages(std::string_view name) const {
  const auto found = pages_.find(name);
  std::int64_t bytes = 0;
  if (found == pages_.end() || __builtin_mul_overflow(found->second, page_.value_or(kUsualPage), &bytes) ||
      bytes > kMostBytes)
    return std::nullopt;
  return Bytes{bytes};
}

std::optional<OomReport::Row> OomReport::end(LogMessage& message) {
  if (!open_ && !waits_for_kill_) return std::nullopt;
  if (waits_for_kill_) {
    message.add("invoked_by", invoked_by_);
    if (limit_) message.add("constraint", "control group");
    if (!group_.empty()) message.add("control_group", group_);
    if (is_of_probe(message)) {
      open_ = waits_for_kill_ = false;
      tell_as_probe(message);
      return std::nullopt;
    }
  }
  open_ = waits_for_kill_ = false;
  find_page_size(message);
  const std::int64_t page = page_.value_or(kUsualPage);
  auto row = add_swap_of_victim(message);
  message.add("limit_bytes", limit_);
  message.add("memory_and_swap_limit_bytes", memory_and_swap_limit_);
  message.add("swap_limit_bytes", group_swap_limit_);
  if (is_version_1_) message.add("control_groups_version", std::optional<std::int64_t>(1));
  message.add("swap_bytes", swap_total_);
  message.add("swap_free_bytes", swap_free_);
  const auto ram = pages("RAM"), free = pages("free");
  message.add("ram_bytes", ram);
  message.add("free_bytes", free);
  std::int64_t rss = 0, largest = 0;
  if (tasks_ > 0 && !__builtin_mul_overflow(rss_, page, &rss) &&
      !__builtin_mul_overflow(largest_, page, &largest)) {
    message.add("processes", tasks_);
    message.add("processes_rss_bytes", Bytes{rss});
    message.add("largest_process", largest_name_);
    message.add("largest_process_bytes", Bytes{largest});
  }
  if (std::int64_t desktop = 0; desktop_ > 0 && !__builtin_mul_overflow(desktop_, page, &desktop)) {
    message.add("desktop", desktop_names_);
    message.add("desktop_bytes", Bytes{desktop});
  }
  if (!ram || !free) return row;
  Bytes nobody = *ram - pages("reserved").value_or(Bytes{}) - *free;
  for (const char* word : kLruWords) {
    const auto held = pages(word);
    if (!held) return row;  // without all of them the rest would look like the GPU's
    nobody = nobody - *held;
  }
  for (const char* word : kOtherWords) nobody = nobody - pages(word).value_or(Bytes{});
  if (huge_pages_ > kMostBytes || swap_total_.value_or(Bytes{}).count > kMostBytes) return row;
  nobody = nobody - Bytes{huge_pages_};
  if (huge_pages_ > 0) message.add("huge_pages_bytes", Bytes{huge_pages_});
  if (nobody.count >= 0) message.unaccounted_with_zram = nobody;
  if (swap_total_ && swap_free_ && *swap_free_ < *swap_total_) nobody = nobody - (*swap_total_ - *swap_free_);
  if (nobody.count >= 0) message.add("unaccounted_bytes", nobody);
  return row;
}

}  // namespace headroom::doctor
