#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "base/text.h"
#include "base/units.h"
#include "doctor/inputs/readers.h"
#include "doctor/machine/machine_findings.h"
#include "report/input/input_kind.h"
#include "sources/process_table.h"
#include "sources/system_sampler.h"
#include "sources/tegrastats_reader.h"
#include "watch/live_input.h"
#include "watch/log_reader.h"
#include "watch/text_input.h"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

// "12 samples over 3.000 s; 22.3 GiB of 23.5 GiB available, no swap".
std::string machine_words(const MachineHistory& history) {
  std::string words = counted(history.samples, "sample");
  if (history.duration().count > 0) words += " over " + format_duration(history.duration());
  const SystemSample& last = history.last;
  if (last.ram_total && last.ram_available)
    words +=
        fmt::format("; {} of {} available", format_bytes(*last.ram_available), format_bytes(*last.ram_total));
  if (last.swap_total)
    words += last.swap_total->count == 0
                 ? ", no swap"
                 : fmt::format(", {} of {} of swap used", format_bytes(last.swap_used.value_or(Bytes{})),
                               format_bytes(*last.swap_total));
  if (last.cgroup && last.cgroup->limit)
    words +=
        fmt::format("; {} of the control group's {} used",
                    format_bytes(last.cgroup->current.value_or(Bytes{})), format_bytes(*last.cgroup->limit));
  return words;
}

// Whether it is the metrics.jsonl of a run, given without the run.
bool is_of_run(const fs::path& file) {
  std::error_code code;
  return file.filename() == "metrics.jsonl" && fs::exists(file.parent_path() / "report.json", code);
}

// The first bytes of standard input, without consuming them. Waits until there are any. Empty if it is
// neither a file nor a pipe.
std::string begin_of_input() {
  std::string begin(4096, '\0');
  struct stat info {};
  if (::fstat(STDIN_FILENO, &info) != 0) return {};
  ssize_t got = 0;
  int ends[2];
  if (S_ISREG(info.st_mode)) {
    got = ::pread(STDIN_FILENO, begin.data(), begin.size(), ::lseek(STDIN_FILENO, 0, SEEK_CUR));
  } else if (S_ISFIFO(info.st_mode) && ::pipe2(ends, O_CLOEXEC) == 0) {
    const UniqueFd out(ends[0]), in(ends[1]);
    if (::tee(STDIN_FILENO, in.get(), begin.size(), 0) > 0)
      got = ::read(out.get(), begin.data(), begin.size());
  }
  begin.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return begin;
}

}  // namespace

Result<std::string> read_watch_log(const fs::path& file, const std::string& name,
                                   std::vector<Finding>& findings) {
  auto log = watch::ReplayLog::open(file);
  if (!log) return forward_error(log);
  MachineHistory history;
  std::int64_t unread = 0;  // cut lines: the power failed, and the next session appended
  for (std::size_t i = 0; i < log->size(); ++i) {
    auto sample = log->read(i);
    if (sample)
      history.add(*sample);
    else if (history.samples == 0 && i + 1 == log->size())
      return forward_error(sample);
    else
      ++unread;
  }
  add_findings(findings, machine_findings(history, name));
  const std::string torn = unread == 0 ? ""
                                       : fmt::format("; {} {} invalid and skipped", counted(unread, "line"),
                                                     unread == 1 ? "is" : "are");
  return (is_of_run(file) ? "the samples of a run of headroom bench, " : "a log of headroom watch, ") +
         machine_words(history) + torn + (log->is_cut() ? "; its last line is cut off" : "");
}

Result<std::string> read_tool_text(const std::string& kind, const fs::path& file,
                                   std::vector<Finding>& findings) {
  constexpr Nanoseconds kInterval{1'000'000'000};  // of tegrastats, for lines without a time
  constexpr int kNothingWakes = -1;
  MachineHistory history;
  auto read = watch::read_text_input(
      {kind, file}, kInterval,
      [&](SystemSample& sample) {
        // tegrastats reports no available memory. Its used memory excludes the page cache.
        if (!sample.ram_available && sample.ram_total && sample.ram_used)
          sample.ram_available = *sample.ram_total - *sample.ram_used;
        // The file may also have lines of a program.
        const bool is_sample = sample.ram_total || !sample.gpus.empty();
        if (is_sample) history.add(sample);
      },
      [] { return false; }, kNothingWakes);
  add_findings(findings, machine_findings(history, file.string()));
  if (!read) return forward_error(read);
  return fmt::format("output of {}, {}", kind == "meminfo" ? "/proc/meminfo" : kind, machine_words(history));
}

std::string tool_of(std::string_view begin) {
  constexpr std::size_t kMostLines = 20;
  std::size_t lines = 0;
  for (const std::string_view line : split(begin, '\n')) {
    if (++lines > kMostLines) break;
    if (line.starts_with("MemTotal:")) return "meminfo";
    if (line.find("| NVIDIA-SMI ") != line.npos) return "nvidia-smi";
    SystemSample sample;
    if (line.find("RAM ") == line.npos || line.find("MB (lfb ") == line.npos) continue;
    if (sources::read_tegrastats_line(line, sample) && sample.ram_total) return "tegrastats";
  }
  return {};
}

Result<std::string> read_live_machine(const fs::path& root, const std::string& name,
                                      std::vector<Finding>& findings) {
  if (auto sound = watch::check_sysroot(root); !sound) return forward_error(sound);
  constexpr int kSamples = 5;
  constexpr std::chrono::milliseconds kBetween{250};
  constexpr std::size_t kProcesses = 300;
  sources::SystemSampler sampler(root);
  sources::ProcessTable processes(root);
  MachineHistory history;
  for (int i = 0; i < kSamples; ++i) {
    if (i > 0) std::this_thread::sleep_for(kBetween);
    SystemSample sample = sampler.sample();
    sources::ProcessChoice choice;
    choice.largest = kProcesses;
    if (i + 1 == kSamples) processes.read(sample, choice);
    history.add(sample);
  }
  add_findings(findings, machine_findings(history, name));
  return machine_words(history);
}

Result<std::optional<UniqueFd>> watch_log_on_input() {
  constexpr std::size_t kMost = std::size_t{256} << 20;
  const auto refuse = [](std::string why) {
    return input_error("cannot read the log of headroom watch on standard input", std::move(why),
                       "use a file: headroom doctor LOG.jsonl");
  };
  const std::string begin = begin_of_input();
  if (!report::begins_as_watch_log(begin)) return std::nullopt;
  UniqueFd copy(::memfd_create("watch.jsonl", MFD_CLOEXEC));
  if (!copy) return refuse(errno_text(errno));
  std::string buffer(1 << 16, '\0');
  for (std::size_t taken = 0;;) {
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(errno_text(errno));
    if (got == 0) return copy;
    taken += static_cast<std::size_t>(got);
    if (taken > kMost) return refuse("it is larger than 256 MiB");
    if (auto written = write_all(copy.get(), {buffer.data(), static_cast<std::size_t>(got)}); !written)
      return refuse(written.error().why);
  }
}

}  // namespace headroom::doctor
