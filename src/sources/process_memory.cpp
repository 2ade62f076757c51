#include "sources/process_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "base/files.h"
#include "base/text.h"

namespace headroom::sources {
namespace {

// "VmRSS:\t  1234 kB" → 1234 KiB.
std::optional<Bytes> kib_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto words = split_words(line.substr(colon + 1));
  if (words.empty()) return std::nullopt;
  const auto kib = parse_number<std::int64_t>(words[0]);
  return kib ? std::optional<Bytes>(kibibytes(*kib)) : std::nullopt;
}

void read_process_status(const std::string& text, ProcessMemory& memory) {
  for (const std::string_view line : split(text, '\n')) {
    const auto starts = [&](std::string_view key) { return line.starts_with(key); };
    if (starts("VmRSS:")) memory.rss = kib_field(line);
    if (starts("VmHWM:")) memory.rss_peak = kib_field(line);
    if (starts("RssAnon:")) memory.anonymous = kib_field(line);
    if (starts("RssFile:")) memory.file_backed = kib_field(line);
    if (starts("RssShmem:")) memory.shared = kib_field(line);
    if (starts("VmSwap:")) memory.swapped = kib_field(line);
    if (starts("VmData:")) memory.data = kib_field(line);
    if (starts("Threads:")) memory.threads = parse_number<std::int64_t>(trim(line.substr(8)));
  }
}

// A number of the stat file, by its field number in proc(5). The fields follow the command's name in
// parentheses, which may itself contain spaces and parentheses.
std::optional<std::int64_t> field_of(const std::string& stat, std::size_t number) {
  constexpr std::size_t kFirst = 3;  // the first field after the name
  const std::size_t end = stat.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  const auto fields = split_words(std::string_view(stat).substr(end + 1));
  if (fields.size() <= number - kFirst) return std::nullopt;
  return parse_number<std::int64_t>(fields[number - kFirst]);
}

std::optional<Nanoseconds> cpu_time_of(const std::string& stat) {
  const auto user = field_of(stat, 14), system = field_of(stat, 15);
  if (!user || !system) return std::nullopt;
  static const std::int64_t ticks_per_second = ::sysconf(_SC_CLK_TCK);
  return Nanoseconds{(*user + *system) * (1'000'000'000 / ticks_per_second)};
}

// smaps has a Pss line per mapping, smaps_rollup one line for all. Only smaps_rollup has the parts
// (Pss_File, Pss_Shmem).
void read_shares(const std::filesystem::path& path, ProcessMemory& memory) {
  const auto text = read_small_file(path);
  if (!text) return;
  for (const std::string_view line : split(*text, '\n')) {
    if (line.starts_with("Pss:"))
      if (const auto pss = kib_field(line)) memory.pss = memory.pss.value_or(Bytes{}) + *pss;
    if (line.starts_with("Pss_File:")) memory.pss_file = kib_field(line);
    if (line.starts_with("Pss_Shmem:")) memory.pss_shared = kib_field(line);
  }
}

}  // namespace

ProcessMemory read_process_memory(pid_t pid, ProcessDetail detail, const std::filesystem::path& root) {
  ProcessMemory memory;
  const std::filesystem::path folder = root / "proc" / std::to_string(pid);
  const auto status = read_small_file(folder / "status");
  if (!status) return memory;
  read_process_status(*status, memory);
  if (const auto stat = read_small_file(folder / "stat")) memory.cpu_time = cpu_time_of(*stat);
  if (detail == ProcessDetail::status) return memory;
  read_shares(folder / "smaps_rollup", memory);
  // Linux before 4.14 (Jetson Nano, TX2) has no rollup, so sum over the mappings.
  if (!memory.pss) read_shares(folder / "smaps", memory);
  return memory;
}

std::optional<std::int64_t> read_process_start(pid_t pid, const std::filesystem::path& root) {
  const auto stat = read_small_file(root / "proc" / std::to_string(pid) / "stat");
  return stat ? field_of(*stat, 22) : std::nullopt;
}

bool reset_peak_rss(pid_t pid) {
  UniqueFd fd(::open(fmt::format("/proc/{}/clear_refs", pid).c_str(), O_WRONLY | O_CLOEXEC));
  return fd && write_all(fd.get(), "5").has_value();
}

}  // namespace headroom::sources
