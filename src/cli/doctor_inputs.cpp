#include "cli/doctor_inputs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "attribution/recording_analysis.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/doctor_input_parts.h"
#include "cli/doctor_run_input.h"
#include "cli/input_kind.h"
#include "cli/recording_report.h"
#include "doctor/machine/machine_findings.h"
#include "doctor/recording/recording_findings.h"
#include "doctor/snapshot/snapshot_findings.h"
#include "recording/recording.h"
#include "report/recording/stack_text.h"
#include "snapshot/snapshot_analysis.h"
#include "snapshot/snapshot_reader.h"
#include "sources/process_table.h"
#include "sources/system_sampler.h"
#include "sources/tegrastats_reader.h"
#include "tui/replay_log.h"
#include "watch/live_input.h"
#include "watch/text_input.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

std::string begin_of(const fs::path& file) {
  std::error_code code;
  if (!fs::is_regular_file(file, code)) return {};  // a FIFO can be read once
  std::string begin(4096, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  return begin;
}

// Whether these bytes are of no text: an executable, a model, a picture. Logs may hold colours, and runs of
// zeros where the power went; those count for nothing.
bool is_binary(const std::string& begin) {
  if (begin.starts_with("\x1f\x8b")) return false;  // gzip, which may hold a log
  const auto odd = std::count_if(begin.begin(), begin.end(), [](unsigned char byte) {
    return byte != 0 && (byte < 7 || (byte > 13 && byte < 27) || (byte > 27 && byte < 32));
  });
  return static_cast<std::size_t>(odd) * 50 > begin.size();
}

Result<std::string> read_recording(const fs::path& file, std::vector<Finding>& findings) {
  auto recording = recording::Recording::open(file);
  if (!recording) return forward_error(recording);
  const auto analysis = attribution::analyze_recording(*recording, {});
  const auto grown = doctor::growth_by_layer(*recording, analysis);
  const report::RecordingReport named{file.string(),
                                      recording->info(),
                                      recording->stacks(),
                                      analysis,
                                      names_of_functions(recording->info()),
                                      {},
                                      false};
  constexpr int kPlaceWidth = 160;
  append(findings, doctor::recording_findings(analysis, grown, file.string(), [&](StackId stack) {
           return report::one_line_stack(named, stack, kPlaceWidth);
         }));
  std::string words = "a recording of headroom trace";
  if (analysis.host_recorded && analysis.leaks.growth == monitoring::Growth::unknown)
    words += "; no layer repeats in it, so leaks were not searched";
  return words;
}

Result<std::string> read_snapshot(const fs::path& file, std::vector<Finding>& findings) {
  auto snapshot = snapshot::open_snapshot(file);
  if (!snapshot) return forward_error(snapshot);
  append(findings,
         doctor::snapshot_findings(*snapshot, snapshot::analyze_snapshot(*snapshot, {}), file.string()));
  return std::string("a memory snapshot of PyTorch");
}

// "12 samples over 3.000 s; 22.3 GiB of 23.5 GiB available, no swap".
std::string machine_words(const doctor::MachineHistory& history) {
  std::string words = counted(history.samples, "sample", "samples");
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

// A run's metrics.jsonl, named alone.
bool is_of_run(const fs::path& file) {
  std::error_code code;
  return file.filename() == "metrics.jsonl" && fs::exists(file.parent_path() / "report.json", code);
}

Result<std::string> read_watch_log(const fs::path& file, std::vector<Finding>& findings,
                                   const std::string& name) {
  auto log = tui::ReplayLog::open(file);
  if (!log) return forward_error(log);
  doctor::MachineHistory history;
  std::int64_t unread = 0;  // torn where the power went, and the next session wrote on
  for (std::size_t i = 0; i < log->size(); ++i) {
    auto sample = log->read(i);
    if (sample)
      history.add(*sample);
    else if (history.samples == 0 && i + 1 == log->size())
      return forward_error(sample);
    else
      ++unread;
  }
  append(findings, doctor::machine_findings(history, name));
  const std::string torn = unread == 0
                               ? ""
                               : fmt::format("; {} {} invalid and skipped", counted(unread, "line", "lines"),
                                             unread == 1 ? "is" : "are");
  return (is_of_run(file) ? "the samples of a run of headroom bench, " : "a log of headroom watch, ") +
         machine_words(history) + torn + (log->is_cut() ? "; its last line is cut off" : "");
}

Result<std::string> read_watch_log(const fs::path& file, std::vector<Finding>& findings) {
  return read_watch_log(file, findings, file.string());
}

// Text that tegrastats, nvidia-smi or /proc/meminfo printed. tegrastats has no MemAvailable; what it calls
// used has no page cache in it, so the rest is taken for available.
Result<std::string> read_tool_text(const std::string& kind, const fs::path& file,
                                   std::vector<Finding>& findings) {
  constexpr Nanoseconds kInterval{1'000'000'000};  // as tegrastats prints; lines with a time have their own
  constexpr int kNothingWakes = -1;
  doctor::MachineHistory history;
  auto read = watch::read_text_input(
      {kind, file}, kInterval,
      [&](SystemSample& sample) {
        if (!sample.ram_available && sample.ram_total && sample.ram_used)
          sample.ram_available = *sample.ram_total - *sample.ram_used;
        // Other lines may stand between: of a program whose output went to the same file.
        const bool is_sample = sample.ram_total || !sample.gpus.empty();
        if (is_sample) history.add(sample);
      },
      [] { return false; }, kNothingWakes);
  append(findings, doctor::machine_findings(history, file.string()));
  if (!read) return forward_error(read);
  return fmt::format("output of {}, {}", kind == "meminfo" ? "/proc/meminfo" : kind, machine_words(history));
}

// Which tool printed this; empty if none did. One of the first lines tells.
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

struct Kind {
  std::string name;
  Result<std::string> (*read)(const fs::path& file, std::vector<Finding>& findings) = nullptr;
};

// A footprint tells of no fault: it is what a model took where it was measured.
Result<std::string> read_footprint(const fs::path& file, std::vector<Finding>&) {
  auto text = read_file(file, kLargestReport);
  if (!text) return forward_error(text);
  auto document = parse_json(*text, file.string());
  if (!document) {
    document.error().fix = "copy it again if it was cut off, or measure again";
    return forward_error(document);
  }
  return std::string(
      "a footprint of headroom bench, which doctor cannot examine; use headroom diff or headroom plan");
}

// What Headroom and PyTorch write.
std::optional<Kind> kind_of(const fs::path& file) {
  if (const auto known = known_kind(file)) switch (*known) {
      case InputKind::recording:
        return Kind{"recording", read_recording};
      case InputKind::run:
        return Kind{"run", read_run};
      case InputKind::watch_log:
        return Kind{"watch log", read_watch_log};
      case InputKind::footprint:
        return Kind{"footprint", read_footprint};
    }
  std::error_code code;
  if (fs::is_regular_file(file, code) && snapshot::is_snapshot_file(file))
    return Kind{"snapshot", read_snapshot};
  return std::nullopt;
}

Status keep(Result<std::string> words, const std::string& path, const std::string& kind,
            Examination& examination) {
  if (!words) return forward_error(words);
  examination.examined.push_back({path, kind, std::move(*words)});
  return {};
}

// Of what leaks could not be told in, of many small processes of one command, one note is enough, and those
// that held next to nothing at their end are not worth one.
void merge_unjudged(std::size_t first, std::vector<Finding>& findings) {
  const auto live = [](const Finding& finding) -> std::int64_t {
    for (const Figure& figure : finding.figures)
      if (figure.name == "live_bytes" && std::holds_alternative<std::int64_t>(figure.value))
        return std::get<std::int64_t>(figure.value);
    return 0;
  };
  std::optional<Finding> most;
  std::int64_t times = 0;
  for (std::size_t i = first; i < findings.size();) {
    if (findings[i].id != "leaks-not-judged") {
      ++i;
      continue;
    }
    if (live(findings[i]) > 0) ++times;
    if (live(findings[i]) > (most ? live(*most) : 0)) most = std::move(findings[i]);
    findings.erase(findings.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (!most) return;
  most->times = times;
  findings.push_back(std::move(*most));
}

// Those of the command's other processes, which lie beside its own: a wrapper's child is the program. One
// that cannot be read is named, and hides no other.
void read_other_processes(const fs::path& recording, Examination& examination) {
  constexpr std::size_t kMost = 100;
  std::vector<fs::path> files;
  std::error_code code;
  for (fs::directory_iterator at(recording.string() + ".d", code), end; !code && at != end;
       at.increment(code))
    if (at->path().extension() == ".hrec") files.push_back(at->path());
  std::sort(files.begin(), files.end());
  const std::size_t first = examination.findings.size();
  for (std::size_t i = 0; i < std::min(files.size(), kMost); ++i) {
    if (!examination.is_new(files[i])) continue;
    auto words = read_recording(files[i], examination.findings);
    if (!words) words = "skipped: " + words.error().sentence();
    examination.examined.push_back({files[i].string(), "recording", std::move(*words)});
  }
  merge_unjudged(first, examination.findings);
  for (std::size_t i = kMost; i < files.size(); ++i) (void)examination.is_new(files[i]);  // left out for good
  if (files.size() > kMost)
    examination.examined.push_back({recording.string() + ".d", "recording",
                                    fmt::format("{} more recordings were skipped", files.size() - kMost)});
}

// The first bytes of a pipe, which stay in it; waits until there are any.
ssize_t copy_of_pipe(int pipe, std::string& begin) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return 0;
  const UniqueFd out(ends[0]), in(ends[1]);
  return ::tee(pipe, in.get(), begin.size(), 0) > 0 ? ::read(out.get(), begin.data(), begin.size()) : 0;
}

// What stands first on standard input, without taking it away: of a file by its position, of a pipe by a copy
// of its first bytes. Nothing of anything else.
std::string begin_of_input() {
  std::string begin(4096, '\0');
  struct stat info {};
  if (::fstat(STDIN_FILENO, &info) != 0) return {};
  ssize_t got = 0;
  if (S_ISREG(info.st_mode)) {
    got = ::pread(STDIN_FILENO, begin.data(), begin.size(), ::lseek(STDIN_FILENO, 0, SEEK_CUR));
  } else if (S_ISFIFO(info.st_mode)) {
    // A writer may begin with less than a line.
    constexpr int kMostTries = 100;
    constexpr std::chrono::milliseconds kBetween{10};
    for (int tries = 0; tries < kMostTries; ++tries) {
      const ssize_t before = got;
      got = copy_of_pipe(STDIN_FILENO, begin);
      const bool is_line =
          std::string_view(begin.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))).find('\n') !=
          std::string_view::npos;
      pollfd writer{STDIN_FILENO, 0, 0};
      const bool has_ended = ::poll(&writer, 1, 0) > 0 && (writer.revents & POLLHUP) != 0;
      if (got <= 0 || is_line || got == std::ssize(begin) || (has_ended && got == before)) break;
      std::this_thread::sleep_for(kBetween);
    }
  }
  begin.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return begin;
}

// A copy of standard input that can be read again, where it begins as a log of headroom watch does, packed or
// not; nothing where it does not. The copy is memory, of which the machine may have little, so a large one is
// refused.
Result<std::optional<UniqueFd>> watch_log_on_input() {
  constexpr std::size_t kMost = std::size_t{256} << 20;
  const auto refuse = [](std::string why) {
    return input_error("cannot read the log of headroom watch on standard input", std::move(why),
                       "use a file: headroom doctor LOG.jsonl");
  };
  const std::string begin = begin_of_input();
  if (!begins_as_watch_log(begin)) return std::nullopt;
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

Status read_as_log(const std::string& path, Examination& examination) {
  auto lines = examination.logs.read_file(path);
  if (!lines) return forward_error(lines);
  examination.examined.push_back(
      {path == "-" ? "standard input" : path, "log",
       *lines == 0 ? "it is empty" : "a log of " + counted(*lines, "line", "lines")});
  return {};
}

// Files that hold what a log could, in a form that is not read: the error, with the way to have it read.
std::optional<Error> what_is_not_read(const std::string& begin, const std::string& path) {
  const auto error = [&](std::string why, std::string fix) {
    return Error{ErrorKind::input, fmt::format("cannot read {}", path), std::move(why), std::move(fix)};
  };
  if (begin.starts_with("time_seconds,unix_time_seconds,"))
    return error("it is a CSV log of headroom watch, which has no totals of memory and swap",
                 "log with --output FILE.jsonl and use that file");
  if (begin.starts_with("\xff\xfe") || begin.starts_with("\xfe\xff"))
    return error(
        "it is text in UTF-16",
        fmt::format("convert it: iconv -f UTF-16 -t UTF-8 {} | headroom doctor -", shell_word(path)));
  // As logrotate and others pack logs; what gzip packed is read as it is.
  struct Packed {
    std::string_view magic, name, unpack;
  };
  constexpr Packed kPacked[] = {{"\xfd"
                                 "7zXZ",
                                 "xz", "xz -dc"},
                                {"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"},
                                {"BZh", "bzip2", "bzip2 -dc"}};
  for (const Packed& packed : kPacked)
    if (begin.starts_with(packed.magic) && is_binary(begin))
      return error(fmt::format("it is compressed with {}", packed.name),
                   fmt::format("decompress it: {} {} | headroom doctor -", packed.unpack, shell_word(path)));
  return std::nullopt;
}

}  // namespace

Status read_doctor_input(const std::string& path, IfBinary if_binary, Examination& examination) {
  if (path == "-") {
    auto watch_log = watch_log_on_input();
    if (!watch_log) return forward_error(watch_log);
    if (!*watch_log) return read_as_log(path, examination);
    return keep(read_watch_log(fmt::format("/proc/self/fd/{}", (*watch_log)->get()), examination.findings,
                               "standard input"),
                "standard input", "watch log", examination);
  }
  const fs::path file = path;
  std::error_code code;
  if (fs::is_directory(file, code))
    return keep(read_run(file / "report.json", examination.findings), path, "run", examination);
  const std::string begin = begin_of(file);
  if (const auto kind = kind_of(file)) {
    auto kept = keep(kind->read(file, examination.findings), path, kind->name, examination);
    if (kept && kind->name == "recording") read_other_processes(file, examination);
    return kept;
  }
  if (const auto unreadable = what_is_not_read(begin, path)) {
    if (if_binary == IfBinary::error) return tl::unexpected(*unreadable);
    examination.examined.push_back(
        {path, "file", fmt::format("skipped: {}; {}", unreadable->why, unreadable->fix)});
    return {};
  }
  if (is_binary(begin)) {
    if (if_binary == IfBinary::leave_out) {
      examination.left_out.push_back(path);
      return {};
    }
    return input_error(fmt::format("cannot read {}", path),
                       "it is not text and not a file of Headroom or PyTorch",
                       "name logs, recordings, snapshots or runs");
  }
  if (const std::string tool = tool_of(begin); !tool.empty()) {
    auto words = read_tool_text(tool, file, examination.findings);
    if (!words) return forward_error(words);
    // "nvidia-smi; python3 train.py": what the program said stands in the same file.
    auto lines = examination.logs.read_file(path);
    if (!lines) return forward_error(lines);
    return keep(*words + ", and read as a log of " + counted(*lines, "line", "lines"), path, tool,
                examination);
  }
  return read_as_log(path, examination);
}

Status examine_machine(const fs::path& root, Examination& examination) {
  if (auto sound = watch::check_sysroot(root); !sound) return forward_error(sound);
  constexpr int kSamples = 5;
  constexpr std::chrono::milliseconds kBetween{250};
  constexpr std::size_t kProcesses = 300;
  sources::SystemSampler sampler(root);
  sources::ProcessTable processes(root);
  doctor::MachineHistory history;
  for (int i = 0; i < kSamples; ++i) {
    if (i > 0) std::this_thread::sleep_for(kBetween);
    SystemSample sample = sampler.sample();
    sources::ProcessChoice choice;
    choice.largest = kProcesses;
    if (i + 1 == kSamples) processes.read(sample, choice);
    history.add(sample);
  }
  const std::string name = root == "/" ? "this machine" : root.string();
  append(examination.findings, doctor::machine_findings(history, name));
  examination.examined.push_back({name, "machine", machine_words(history)});
  return {};
}

}  // namespace headroom::cli
