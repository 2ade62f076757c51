#include "doctor/inputs/readers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include "attribution/recording_analysis.h"
#include "base/text.h"
#include "doctor/machine/machine_history.h"
#include "doctor/recording/recording_findings.h"
#include "doctor/run/run_findings.h"
#include "doctor/snapshot/snapshot_findings.h"
#include "report/input/input_kind.h"
#include "report/input/run_input.h"
#include "report/recording/recording_views.h"
#include "report/recording/stack_text.h"
#include "report/run/report_json.h"
#include "snapshot/snapshot_reader.h"
#include "sources/nvidia_smi_reader.h"
#include "sources/process_table.h"
#include "sources/system_sampler.h"
#include "sources/tegrastats_reader.h"
#include "trace/recording_files.h"
#include "watch/live_input.h"
#include "watch/log_reader.h"
#include "watch/text_input.h"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

const std::string& reason_of(const Error& error) { return error.why.empty() ? error.what : error.why; }

bool is_ok(const ModelResult& model) { return model.status == ModelStatus::ok; }

// Whether each model succeeded, and all of them at once.
bool has_succeeded(const BenchResult& run) {
  if (!run.complete || run.models.empty() || !std::ranges::all_of(run.models, is_ok)) return false;
  if (run.parallel &&
      (!run.parallel->within_limit.value_or(true) || !std::ranges::all_of(run.parallel->together, is_ok)))
    return false;
  return (!run.pipeline || run.pipeline->status == ModelStatus::ok) &&
         (!run.pool || run.pool->status == ModelStatus::ok);
}

// Words for a file that is not a regular one, which may block. Empty if it is missing.
std::string why_skipped(const fs::path& file) {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(file, code)) || fs::is_regular_file(file, code)) return {};
  return fmt::format("; its {} was skipped: not a regular file", file.filename().string());
}

// The messages of the runtimes during the run. If every model succeeded, the failures belong to settings that
// --tune rejected, so they are not severe. Returns words; empty if there is no log.
std::string read_run_log(const fs::path& log, const BenchResult& run, Findings& findings) {
  std::error_code code;
  if (!fs::is_regular_file(log, code)) return why_skipped(log);
  LogFindings logs;
  const auto lines = logs.read_file(log.string());
  std::vector<Finding> found = logs.findings();
  const bool is_all_well = has_succeeded(run);
  for (Finding& finding : found)
    if (is_all_well && finding.severity == Severity::severe) {
      finding.severity = Severity::warning;
      finding.cause += finding.cause.empty() ? "" : " ";
      finding.cause += "All models of the run succeeded nevertheless.";
    }
  std::ranges::move(found, std::back_inserter(findings));
  if (!lines) return "; its run.log was read only in part: " + reason_of(lines.error());
  return *lines > 0 ? "; its log has " + counted(*lines, "line") : std::string();
}

// The machine during the run, without findings that the run causes by loading and freeing models, and without
// those of its report: a model that the kernel killed is model-out-of-memory. Returns words; empty if there
// is no file.
std::string read_run_samples(const fs::path& file, Findings& findings) {
  constexpr std::string_view kOfTheRun[] = {"memory-running-out", "memory-grows", "growth-levelled-off",
                                            "throttled", "kernel-oom-kill"};
  std::error_code code;
  if (!fs::is_regular_file(file, code)) return why_skipped(file);
  std::ifstream stream(file, std::ios::binary);
  MachineHistory history;
  const Status read = report::read_metrics(stream, [&](report::MetricsLine line) {
    line.system.time = line.since_start;
    history.add(line.system);
  });
  const std::string name = file.filename().string();
  if (history.samples > 0)
    std::ranges::copy_if(machine_findings(history, file.string()), std::back_inserter(findings),
                         [&](const Finding& finding) {
                           return std::ranges::find(kOfTheRun, finding.id) == std::end(kOfTheRun);
                         });
  if (!read)
    return fmt::format("; its {} {}: {}", name,
                       history.samples == 0 ? "was skipped" : "was read only in part",
                       reason_of(read.error()));
  if (history.samples == 0) return {};
  return "; " + counted(history.samples, "sample") + " of the machine";
}

std::int64_t live_bytes(const Finding& finding) {
  const auto live = std::ranges::find(finding.figures, "live_bytes", &Figure::name);
  return live == finding.figures.end() ? 0 : std::get<std::int64_t>(live->value);
}

// A command with many small processes has many notes "leaks not judged". Keeps the one with the most live
// memory, and none for processes that held nothing at their end.
void merge_unjudged(Findings& findings, std::size_t first) {
  const auto begin = findings.begin() + static_cast<std::ptrdiff_t>(first);
  const auto unjudged = std::stable_partition(
      begin, findings.end(), [](const Finding& finding) { return finding.id != "leaks-not-judged"; });
  if (unjudged == findings.end()) return;
  const auto times =
      std::count_if(unjudged, findings.end(), [](const Finding& finding) { return live_bytes(finding) > 0; });
  std::iter_swap(unjudged, std::ranges::max_element(unjudged, findings.end(), std::less{}, live_bytes));
  unjudged->times = times;
  findings.erase(unjudged + (times > 0 ? 1 : 0), findings.end());
}

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

// The header of a CSV of nvidia-smi --query-gpu that has GPU memory.
bool is_smi_header(std::string_view line) {
  sources::SmiOutput output;
  const bool has_memory = line.find("memory.used") != line.npos || line.find("memory.free") != line.npos;
  return has_memory && sources::smi::CsvReader({}).read(line, output);
}

}  // namespace

Result<std::string> read_run(const fs::path& file, Findings& findings) {
  auto result = report::read_report_file(file);
  if (!result) return forward_error(result);
  if (auto fine = report::check_run(*result, file.string()); !fine) return forward_error(fine);
  std::ranges::move(run_findings(*result, file.string()), std::back_inserter(findings));
  std::string words = "a run of " + counted(std::ssize(result->models), "model");
  if (const auto failed =
          result->models.size() - static_cast<std::size_t>(std::ranges::count_if(result->models, is_ok)))
    words += result->models.size() == 1 ? ", which failed" : fmt::format(", {} of which failed", failed);
  words += read_run_log(file.parent_path() / "run.log", *result, findings);
  words += read_run_samples(file.parent_path() / "metrics.jsonl", findings);
  return words;
}

Result<std::string> read_recording(const fs::path& file, Findings& findings) {
  auto recording = recording::Recording::open(file);
  if (!recording) return forward_error(recording);
  const auto analysis = attribution::analyze_recording(*recording, {});
  const auto grown = growth_by_layer(*recording, analysis);
  const report::RecordingReport named{file.string(),
                                      recording->info(),
                                      recording->stacks(),
                                      analysis,
                                      report::names_by_symbols(recording->info()),
                                      {},
                                      false};
  constexpr int kStackWidth = 160;
  std::ranges::move(
      recording_findings(analysis, grown, file.string(),
                         [&](StackId stack) { return report::one_line_stack(named, stack, kStackWidth); }),
      std::back_inserter(findings));
  std::string words = "a recording of headroom trace";
  if (analysis.host_recorded && analysis.leaks.growth == monitoring::Growth::unknown)
    words += "; no layer repeats in it, so leaks were not searched";
  return words;
}

Result<std::string> read_snapshot(const fs::path& file, Findings& findings) {
  auto snapshot = snapshot::open_snapshot(file);
  if (!snapshot) return forward_error(snapshot);
  std::ranges::move(snapshot_findings(*snapshot, snapshot::analyze_snapshot(*snapshot, {}), file.string()),
                    std::back_inserter(findings));
  return std::string("a memory snapshot of PyTorch");
}

void read_other_processes(const fs::path& recording, Examination& examination) {
  constexpr std::size_t kMost = 100;
  std::size_t read = 0, skipped = 0;
  Findings& findings = examination.result.report.findings;
  const std::size_t first = findings.size();
  for (const trace::RecordingFile& other : trace::find_recordings(recording)) {
    if (other.path == recording || !examination.is_new(other.path)) continue;
    if (++read > kMost) {
      ++skipped;
      continue;
    }
    auto words = read_recording(other.path, findings);
    if (!words) words = "skipped: " + words.error().sentence();
    examination.add(other.path.string(), "recording", std::move(*words));
  }
  merge_unjudged(findings, first);
  if (skipped > 0)
    examination.add(recording.string() + ".d", "recording",
                    fmt::format("{} more recordings were skipped", skipped));
}

Result<std::string> read_watch_log(const fs::path& file, const std::string& name, Findings& findings) {
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
  std::ranges::move(machine_findings(history, name), std::back_inserter(findings));
  const std::string torn = unread == 0 ? ""
                                       : fmt::format("; {} {} invalid and skipped", counted(unread, "line"),
                                                     unread == 1 ? "is" : "are");
  return (is_of_run(file) ? "the samples of a run of headroom bench, " : "a log of headroom watch, ") +
         machine_words(history) + torn + (log->is_cut() ? "; its last line is cut off" : "");
}

Result<std::string> read_tool_text(const std::string& kind, const fs::path& file, Findings& findings) {
  constexpr Nanoseconds kInterval{1'000'000'000};  // of tegrastats, for lines without a time
  constexpr int kNothingWakes = -1;
  MachineHistory history;
  auto read = watch::read_text_input(
      {kind, file}, kInterval,
      [&](SystemSample& sample) {
        // tegrastats reports no available memory. Its used memory excludes the page cache.
        if (!sample.ram_available && sample.ram_total && sample.ram_used)
          sample.ram_available = *sample.ram_total - *sample.ram_used;
        for (GpuSample& gpu : sample.gpus)  // a CSV may have only one of the two
          if (!gpu.memory_used && gpu.memory_total && gpu.memory_free)
            gpu.memory_used = *gpu.memory_total - *gpu.memory_free;
        // The file may also have lines of a program.
        const bool is_sample = sample.ram_total || !sample.gpus.empty();
        if (is_sample) history.add(sample);
      },
      [] { return false; }, kNothingWakes);
  std::ranges::move(machine_findings(history, file.string()), std::back_inserter(findings));
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
    if (is_smi_header(line)) return "nvidia-smi";
    SystemSample sample;
    if (line.find("RAM ") == line.npos || line.find("MB (lfb ") == line.npos) continue;
    if (sources::read_tegrastats_line(line, sample) && sample.ram_total) return "tegrastats";
  }
  return {};
}

Result<std::string> read_live_machine(const fs::path& root, const std::string& name, Findings& findings) {
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
  std::ranges::move(machine_findings(history, name), std::back_inserter(findings));
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
