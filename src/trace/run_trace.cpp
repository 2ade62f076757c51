#include "trace/run_trace.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>

#include "base/files.h"
#include "base/log.h"
#include "recording/format.h"
#include "trace/device_account.h"
#include "trace/live_figures.h"
#include "trace/recording_files.h"

namespace headroom::trace {
namespace fs = std::filesystem;
namespace {

// A larger recording is only opened, so that the prompt returns within seconds after the command's end.
constexpr Bytes kAnalysedAtOnce = mebibytes(256);

Status check_options(const TraceOptions& options) {
  for (const auto& [name, size] :
       {std::pair{"--ring", options.ring}, std::pair{"--max-size", options.max_size}})
    if (size && *size < kSmallestRecording)
      return usage_error(fmt::format("{} {} is too small", name, format_bytes(*size)), "",
                         fmt::format("use at least {}", format_bytes(kSmallestRecording)));
  return {};
}

// The tracer respects this limit, because a signal kills a program whose file grows beyond it.
Status check_file_size_limit(const TraceOptions& options, Bytes size_limit) {
  constexpr Bytes kLeast{recording::kHeaderBytes + recording::kDefaultMetadataBytes +
                         recording::kDefaultSegmentBytes};
  rlimit file_size{};
  if (::getrlimit(RLIMIT_FSIZE, &file_size) != 0 || file_size.rlim_cur == RLIM_INFINITY) return {};
  const Bytes most{static_cast<std::int64_t>(std::min<rlim_t>(file_size.rlim_cur, INT64_MAX))};
  if (most < kLeast)
    return usage_error("cannot write a recording",
                       fmt::format("the file size limit is {} (ulimit -f), and a recording needs at least {}",
                                   format_bytes(most), format_bytes(kLeast)),
                       "raise the limit with ulimit -f");
  const Bytes wanted = options.ring.value_or(options.max_size.value_or(size_limit));
  if (most < wanted)
    log::warning("ulimit -f limits each recording to {} instead of {}", format_bytes(most),
                 format_bytes(wanted));
  return {};
}

void warn_of_other_tools(const TraceOptions& options) {
  if (const char* other = std::getenv("NVTX_INJECTION64_PATH"); options.layers && other != nullptr)
    if (!is_tracer_library(other))
      log::warning(
          "NVTX_INJECTION64_PATH is set to {}, so NVTX ranges go to that tool and do not become layers",
          other);
}

// The bytes of a recording's segments: its size without header and metadata.
std::uint64_t record_bytes(const RecordingFile& file) {
  constexpr std::uint64_t kBeforeSegments = recording::kHeaderBytes + recording::kDefaultMetadataBytes;
  std::error_code code;
  const std::uint64_t bytes = fs::file_size(file.path, code);
  return code ? 0 : bytes - std::min(bytes, kBeforeSegments);
}

// The process's memory peak, by which `headroom report` sorts the processes of a tree.
std::uint64_t peak_bytes_of(recording::Recording& recording, const RecordingFile& file,
                            const LiveFigures& live) {
  auto analysis = live.analysis_of(file.path, recording);
  if (!analysis) analysis = attribution::analyze_recording(recording, {.timeline_points = 2});
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, report::figures_of(file.path.string(), recording.info(), *analysis).size()));
}

// Models run in the workers of `headroom bench`.
bool is_bench_worker(const recording::RecordingInfo& info) {
  return info.command.size() > 1 && info.command[1] == "_worker" &&
         fs::path(info.command[0]).filename() == own_executable().filename();
}

struct Chosen {
  const RecordingFile& file;
  bool by_memory = false, of_worker = false;
};

// Chooses the recording to show: normally the command's own. If the command only started the real program (a
// shell, env, a compiler driver), that of the process with the largest peak; if `headroom bench` ran, that of
// its largest worker. If finding that out would take too long, the one with the most records.
Chosen main_recording(const std::vector<RecordingFile>& recordings, const fs::path& root,
                      const LiveFigures& live) {
  constexpr std::uint64_t kMuchMore = 4;
  const RecordingFile& own = recordings.front();
  if (recordings.size() == 1) return {own};
  std::uint64_t to_analyse = 0;
  for (const RecordingFile& file : recordings)
    if (!live.has_figures_of(file.path)) to_analyse += record_bytes(file);
  const bool by_memory = to_analyse <= static_cast<std::uint64_t>(kAnalysedAtOnce.count) / 2;
  std::vector<std::uint64_t> sizes(recordings.size()), worker_sizes(recordings.size());
  bool has_workers = false;
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    auto recording = recording::Recording::open(recordings[i].path);
    if (!recording) continue;
    sizes[i] = by_memory ? peak_bytes_of(*recording, recordings[i], live) : record_bytes(recordings[i]);
    if (!is_bench_worker(recording->info())) continue;
    has_workers = true;
    worker_sizes[i] = sizes[i];
  }
  const std::vector<std::uint64_t>& candidates = has_workers ? worker_sizes : sizes;
  const auto largest = std::max_element(candidates.begin(), candidates.end());
  if (!has_workers && own.path == root && *largest <= kMuchMore * sizes.front()) return {own};
  return {recordings[static_cast<std::size_t>(largest - candidates.begin())], by_memory, has_workers};
}

// The path relative to the working folder, if it lies inside.
fs::path display_path(const fs::path& path) {
  std::error_code code;
  const fs::path here = fs::current_path(code);
  const fs::path relative = code ? path : path.lexically_relative(here);
  return relative.empty() || *relative.begin() == ".." ? path : relative;
}

void read_figures(const RecordingFile& file, const LiveFigures& live, TraceOutcome& outcome) {
  auto recording = recording::Recording::open(file.path);
  if (!recording) {
    outcome.problems.push_back(recording.error().sentence());
    return;
  }
  outcome.info = recording->info();
  outcome.problems = recording->problems();
  auto analysis = live.analysis_of(file.path, *recording);
  if (!analysis && disk_bytes_of(file.path) > static_cast<std::uint64_t>(kAnalysedAtOnce.count)) return;
  if (!analysis) analysis = attribution::analyze_recording(*recording, {});
  outcome.events = analysis->events;
  outcome.figures = memory_figures(recording->info(), *analysis);
  outcome.problems = analysis->problems;
}

}  // namespace

TraceOutcome finish_recordings(const std::vector<std::string>& command, const fs::path& root,
                               const CommandEnd& end, const LiveFigures& live) {
  TraceOutcome outcome;
  outcome.command = command;
  outcome.end = end;
  std::vector<RecordingFile> recordings = find_recordings(root);
  outcome.still_running = mark_growing(root, recordings);
  for (const RecordingFile& file : recordings)
    if (!file.growing) compact_recording(file.path);
  if (auto written = write_tree_index(root, recordings); !written)
    outcome.problems.push_back(written.error().sentence());
  if (recordings.empty()) return outcome;

  const auto [chosen, by_memory, of_worker] = main_recording(recordings, root, live);
  outcome.recording = display_path(chosen.path);
  outcome.disk_bytes = disk_bytes_of(chosen.path);
  outcome.of_descendant = chosen.path != root;
  outcome.by_memory = by_memory;
  outcome.of_worker = of_worker;
  outcome.programs = recordings.size();
  for (const RecordingFile& file : recordings) outcome.tree_bytes += disk_bytes_of(file.path);
  if (std::error_code code; fs::is_directory(tree_folder(root), code))
    outcome.tree = display_path(tree_folder(root));
  read_figures(chosen, live, outcome);
  return outcome;
}

Result<fs::path> prepare_recording(const TraceOptions& options, const std::string& program) {
  if (auto valid = check_options(options); !valid) return forward_error(valid);
  auto output = prepare_output(options.output, program, options.replace_output);
  if (!output) return output;
  if (auto enough = check_file_size_limit(options, default_size_limit(*output)); !enough)
    return forward_error(enough);
  return output;
}

Result<int> run_trace(const TraceOptions& asked) {
  TraceOptions options = asked;
  if (options.command.empty())
    return usage_error("headroom trace needs a command", "",
                       "add it after --, for example headroom trace -- ./app");
  if (auto usable = check_library(options.library); !usable) return forward_error(usable);
  auto program = find_program(options.command[0]);
  if (!program) return forward_error(program);
  if (auto traceable = check_traceable(*program, options.library); !traceable)
    return forward_error(traceable);
  auto output = prepare_recording(options, options.command[0]);
  if (!output) return forward_error(output);
  const Bytes size_limit = default_size_limit(*output);
  warn_of_other_tools(options);
  std::optional<DeviceAccount> account;
  if (options.device_limits.any() || !options.share.empty()) {
    auto opened = DeviceAccount::open(options.device_limits, options.share);
    if (!opened) return forward_error(opened);
    account.emplace(std::move(*opened));
    options.device_limits = account->limits();
    options.account = account->file().string();
  }
  // Nothing of the command has run so far; from here on, its exit code is ours.

  LiveFigures live(*output, options.full && !options.ring);
  auto end = run_command(options.command, tracer_environment(options, *output, size_limit));
  if (!end) return forward_error(end);
  live.finish();
  TraceOutcome outcome = finish_recordings(options.command, *output, *end, live);
  for (unsigned device = 0; account && device < ledger::kMaxDevices; ++device)
    if (account->refused(device) > 0) outcome.refused_in = *output;
  [[maybe_unused]] const auto written = write_all(STDERR_FILENO, trace_summary(outcome));
  const int code = end->exit_code();
  if (outcome.info) return code;
  log::error("no recording was written to {}: the preload library {} did not start in the command",
             output->string(), options.library.string());
  return code != 0 ? code : 3;
}

std::vector<report::ProcessFigures> other_processes(const std::filesystem::path& file) {
  std::vector<report::ProcessFigures> others;
  for (const RecordingFile& other : find_recordings(file)) {
    if (other.path == file) continue;
    auto recording = recording::Recording::open(other.path);
    if (!recording) {
      others.emplace_back().file = other.path.string();
      others.back().problem = recording.error().sentence();
      continue;
    }
    // Only sums are shown, so two points of the timeline are enough.
    const auto analysis = attribution::analyze_recording(*recording, {.timeline_points = 2});
    others.push_back(report::figures_of(other.path.string(), recording->info(), analysis));
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return others;
}

}  // namespace headroom::trace
