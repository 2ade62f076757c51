#include "doctor/log/oom_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "doctor/log/line_pattern.h"
#include "doctor/log/message_text.h"
#include "doctor/machine/machine_history.h"
#include "types/limit.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kLruWords[] = {"active_anon", "inactive_anon", "active_file", "inactive_file",
                                          "unevictable"};
constexpr std::string_view kOtherWords[] = {"slab_reclaimable", "slab_unreclaimable", "pagetables"};
constexpr std::int64_t kMostPages = std::int64_t{1} << 32;  // 16 TiB: sums of a report's rows do not overflow

// The constraint of a kill in a probe of Headroom's: "headroom bench --mem-limit" first tries in groups
// "headroom-PID-N-probe-ROUTE" to exceed the limit (limits/probe_routes.cpp).
constexpr std::string_view kLimitProbe = "a trial of a limit";

// For many kills in a row, the kernel prints the group of ten in five seconds only, and a bench tries seven
// routes in half a second. The others are recognized by their figures: a probe holds at most kLargestProbe,
// requests twice as much, and its program is small.
bool looks_like_probe(const LogMessage& message) {
  const auto anonymous = message.bytes("anonymous_bytes"), mapped = message.bytes("virtual_bytes");
  return message.text("victim") == "headroom" && message.text("constraint") == "control group" && anonymous &&
         mapped && *anonymous + message.bytes("shared_bytes").value_or(Bytes{}) <= kLargestProbe &&
         mapped->count <= 3 * kLargestProbe.count;
}

void turn_into_probe(LogMessage& message) {
  LogMessage probe;
  // The summary and the line with the sizes are one kill.
  probe.part = message.bytes("virtual_bytes") ? "sizes" : "summary";
  probe.is_echo = message.is_echo;
  if (message.is_echo) probe.event = message.event;
  probe.add("victim", message.text("victim"));
  probe.add("constraint", kLimitProbe);
  message = std::move(probe);
}

// A number of pages; nothing for numbers that no machine has.
std::optional<std::int64_t> page_count(std::string_view text) {
  const auto number = parse_number<std::int64_t>(text);
  return number && *number >= 0 && *number <= kMostPages ? number : std::nullopt;
}

// "1046428" of "[ 80.1] 1046428 pages RAM".
std::optional<std::int64_t> pages_before(std::string_view line, std::string_view words) {
  const std::size_t end = line.find(words);
  if (end == line.npos) return std::nullopt;
  const std::string_view before = line.substr(0, end);
  return page_count(before.substr(before.rfind(' ') + 1));
}

constexpr std::int64_t kSmallCompiler = 64 << 20;  // bytes; a driver such as nvcc itself holds less

}  // namespace

bool is_compiler(std::string_view process) {
  static const auto kNames = split_words(
      "cc1 cc1plus cicc ptxas nvcc cudafe++ clang clang++ rustc f951 lto1 lto1-wpa lto1-ltrans ld ld.bfd "
      "ld.gold ld.lld mold");
  return is_one_of(process, kNames) || process.starts_with("clang-");
}

std::string_view label_of_own_group(std::string_view group) {
  constexpr std::string_view kPrefix = "headroom-";
  std::string_view name = group.substr(group.rfind('/') + 1);
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  for (int number = 0; number < 2; ++number) {  // the process, and the number of the group
    const std::size_t end = name.find('-');
    if (end == name.npos || !parse_number<std::int64_t>(name.substr(0, end))) return {};
    name.remove_prefix(end + 1);
  }
  return name;
}

bool OomReport::begins(std::string_view line) { return has(line, "invoked oom-killer"); }
bool OomReport::begins_within(std::string_view line) {
  return has(line, "Tasks state (memory values in pages):");
}

// "python3 invoked oom-killer: gfp_mask=…", behind a logger's prefix: "[  510.8] ", "host kernel: ".
void OomReport::begin(std::string_view line) {
  *this = {};
  open_ = true;
  waits_for_kill_ = begins(line);
  constexpr std::size_t kLongestName = 15;  // of the kernel
  std::string_view name = trim(line.substr(0, line.find(" invoked oom-killer")));
  for (const std::string_view end : {"] ", ": "})
    if (const std::size_t at = name.rfind(end); at != name.npos) name = trim(name.substr(at + end.size()));
  if (name.size() <= kLongestName) invoked_by_ = name;
}

void OomReport::note_kill(LogMessage& message) {
  waits_for_kill_ = false;
  if (open_ && message.text("control_group").empty()) message.add("control_group", group_);
  if (!is_of_probe(message)) return;
  open_ = false;
  turn_into_probe(message);
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

void OomReport::read(std::string_view line) {
  if (++lines_ > kMostLines) {
    open_ = false;
    return;
  }
  constexpr std::string_view kLimits[] = {
      "memory: usage …limit {limit_bytes}", "memory+swap: usage …limit {memory_and_swap_limit_bytes}",
      "swap: usage …limit {swap_limit_bytes}", "Total swap = {swap_bytes}", "Free swap  = {swap_free_bytes}"};
  if (has(line, "memory+swap: usage ")) limits_.set({"control_groups_version", std::int64_t{1}});
  if (std::ranges::any_of(kLimits,
                          [&](std::string_view pattern) { return match_pattern(pattern, line, limits_); }))
    return;
  if (const auto ram = pages_before(line, " pages RAM")) {
    pages_["RAM"] = *ram;
  } else if (const auto reserved = pages_before(line, " pages reserved")) {
    pages_["reserved"] = *reserved;
  } else if (has(line, "hugepages_total=")) {
    read_huge_pages(line);
  } else if (const auto group = text_after(line, " killed as a result of limit of ")) {
    group_ = trim(*group);
  } else if (const auto statistics = text_after(line, "Memory cgroup stats for ")) {
    // "/a/b:", up to 4.20 "/a/b: cache:1024KB rss:…". The next ones are of groups inside it.
    if (group_.empty())
      group_ = statistics->substr(0, std::min(statistics->find(": "), statistics->rfind(':')));
  } else if (has(line, "*4kB") || has(line, "*16kB") || has(line, "*64kB")) {
    // "DMA: 142*4kB (UEC) 161*8kB …": the first is a page.
    const auto size = leading_size(line.substr(line.find('*') + 1));
    if (size && size->count > 0) page_ = size->count;
  } else if (has(line, " tgid ") && has(line, " oom_score_adj ")) {
    read_columns(line);
  } else {
    read_pages(line);
    read_task(line);
  }
}

// "active_anon:1820 inactive_anon:302 isolated_anon:0", "free:33210 free_pcp:0": the sums of all zones have
// no unit; those of a node or zone end in kB. A program's line between may contain "free:", too.
void OomReport::read_pages(std::string_view line) {
  const bool is_sum_of_free = has(line, "free_pcp:") || has(line, "slab_reclaimable:");
  for (const std::string_view word : split_words(line)) {
    const std::size_t colon = word.find(':');
    if (colon == word.npos) continue;
    const std::string_view name = word.substr(0, colon);
    const bool is_wanted =
        (name == "free" && is_sum_of_free) || is_one_of(name, kLruWords) || is_one_of(name, kOtherWords);
    const auto number = is_wanted ? page_count(word.substr(colon + 1)) : std::nullopt;
    if (number) pages_.try_emplace(std::string(name), *number);
  }
}

// "Node 0 hugepages_total=512 hugepages_free=512 hugepages_surp=0 hugepages_size=2048kB"
void OomReport::read_huge_pages(std::string_view line) {
  const auto count = integer_after(line, "hugepages_total=");
  const auto size = leading_size(text_after(line, "hugepages_size=").value_or(""));
  constexpr std::int64_t kMostCount = std::int64_t{1} << 24, kLargest = std::int64_t{16} << 30;
  if (count && size && *count >= 0 && *count <= kMostCount && size->count <= kLargest)
    huge_pages_ += Bytes{*count * size->count};
}

// "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name"; up to 4.14 with
// nr_ptes, since 6.8 with rss_anon and others; before 3.4 without swapents.
void OomReport::read_columns(std::string_view line) {
  const auto words = split_words(line);
  const auto uid = std::ranges::find(words, "uid");
  const auto swap = std::find(uid, words.end(), "swapents");
  if (swap != words.end()) swap_column_ = static_cast<std::size_t>(swap - uid);
}

// "[   2343]     0  2343  7940883  3482011 28766208        0             0 python3": pid, uid, tgid,
// total_vm, rss, columns that depend on the kernel, and the name.
void OomReport::read_task(std::string_view line) {
  const std::size_t close = line.rfind("] ");
  const std::size_t open = close == line.npos ? line.npos : line.substr(0, close).rfind('[');
  if (open == line.npos) return;
  const auto pid = parse_number<std::int64_t>(trim(line.substr(open + 1, close - open - 1)));
  const auto words = split_words(line.substr(close + 1));
  constexpr std::size_t kTgid = 1, kMapped = 2, kRss = 3, kFewest = 7;
  if (!pid || words.size() < kFewest) return;
  std::size_t name = 0;  // behind the last number
  while (name < words.size() && parse_number<std::int64_t>(words[name])) ++name;
  const auto rss = page_count(words[kRss]);
  if (name < kFewest - 1 || name >= words.size() || !rss) return;
  ++tasks_;
  rss_ += *rss;
  const std::string_view process = line.substr(static_cast<std::size_t>(words[name].data() - line.data()));
  if (*rss > largest_) {
    largest_ = *rss;
    largest_name_ = process;
  }
  if (is_compiler(process) && bytes_of(*rss).count >= kSmallCompiler) {
    ++compilers_;
    compiling_ += *rss;
  }
  if (is_of_desktop(process)) {
    desktop_ += *rss;
    if (desktop_names_.find(process) == desktop_names_.npos)
      desktop_names_.append(desktop_names_.empty() ? "" : ", ").append(process);
  }
  processes_.push_back(
      {*pid, parse_number<std::int64_t>(words[kTgid]).value_or(*pid), page_count(words[kMapped]).value_or(0),
       swap_column_ && *swap_column_ < name ? page_count(words[*swap_column_]) : std::nullopt});
}

const OomReport::Process* OomReport::find_process(const std::optional<std::int64_t>& pid) const {
  const auto is_it = [&pid](const Process& each) { return each.pid == pid || each.tgid == pid; };
  const auto found = std::ranges::find_if(processes_, is_it);
  return pid && found != processes_.end() ? &*found : nullptr;
}

// A control group's report has no line of free blocks, whose smallest are pages; arm64 kernels have pages of
// 4, 16 or 64 KiB. But the victim's mapped memory is in its row in pages, and in the kill's line in bytes.
// Other threads may map a little between the two, which is small against the factor of four.
void OomReport::find_page_size(const LogMessage& kill) {
  const Process* const victim = find_process(kill.number("pid"));
  const auto mapped = kill.bytes("virtual_bytes");
  if (page_ || victim == nullptr || !mapped || victim->mapped <= 0) return;
  constexpr double kTolerance = 0.1;
  const double ratio = static_cast<double>(mapped->count) / static_cast<double>(victim->mapped);
  for (const std::int64_t page : {kUsualPage, std::int64_t{16} << 10, kLargestPage})
    if (std::abs(ratio / static_cast<double>(page) - 1) <= kTolerance) page_ = page;
}

std::optional<Bytes> OomReport::bytes_of(std::string_view word) const {
  const auto found = pages_.find(word);
  return found == pages_.end() ? std::nullopt : std::optional(bytes_of(found->second));
}

void OomReport::end(LogMessage& message) {
  if (!open_ && !waits_for_kill_) return;
  open_ = false;
  if (std::exchange(waits_for_kill_, false)) {
    message.add("invoked_by", invoked_by_);
    if (limits_.bytes("limit_bytes")) message.add("constraint", "control group");
    message.add("control_group", group_);
    if (is_of_probe(message)) return turn_into_probe(message);
  }
  find_page_size(message);
  const Process* const victim = find_process(message.number("pid"));
  if (victim != nullptr && victim->swapped) message.add("victim_swap_bytes", bytes_of(*victim->swapped));
  for (const char* name : {"limit_bytes", "memory_and_swap_limit_bytes", "swap_limit_bytes",
                           "control_groups_version", "swap_bytes", "swap_free_bytes"})
    message.add(name, limits_.number(name));
  message.add("ram_bytes", bytes_of("RAM"));
  message.add("free_bytes", bytes_of("free"));
  if (tasks_ > 0) {
    message.add("processes", tasks_);
    message.add("processes_rss_bytes", bytes_of(rss_));
    message.add("largest_process", largest_name_);
    message.add("largest_process_bytes", bytes_of(largest_));
  }
  if (compilers_ > 0) {
    message.add("compilers", compilers_);
    message.add("compilers_bytes", bytes_of(compiling_));
  }
  if (desktop_ > 0) {
    message.add("desktop", desktop_names_);
    message.add("desktop_bytes", bytes_of(desktop_));
  }
  add_unaccounted(message);
}

// Without all lists, the missing one would look like the GPU's memory.
void OomReport::add_unaccounted(LogMessage& message) const {
  const auto ram = bytes_of("RAM"), free = bytes_of("free");
  if (!ram || !free) return;
  Bytes rest = *ram - bytes_of("reserved").value_or(Bytes{}) - *free;
  for (const std::string_view word : kLruWords) {
    const auto held = bytes_of(word);
    if (!held) return;
    rest = rest - *held;
  }
  for (const std::string_view word : kOtherWords) rest = rest - bytes_of(word).value_or(Bytes{});
  rest = rest - huge_pages_;
  if (huge_pages_ > Bytes{}) message.add("huge_pages_bytes", huge_pages_);
  if (rest.count >= 0) message.unaccounted_with_zram = rest;
  const auto swap = limits_.bytes("swap_bytes"), swap_free = limits_.bytes("swap_free_bytes");
  if (swap && swap_free && *swap_free < *swap) rest = rest - (*swap - *swap_free);
  if (rest.count >= 0) message.add("unaccounted_bytes", rest);
}

}  // namespace headroom::doctor
