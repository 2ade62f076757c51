#include "bench/conductor/bench_state.h"

#include <fmt/format.h>
#include <algorithm>
#include <cerrno>

#include "base/json.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "report/run/report_json.h"
#include "report/run/run_words.h"
#include "report/run/views.h"
#include "report/run/vos_words.h"
#include "types/budget.h"

namespace headroom::bench {

namespace fs = std::filesystem;

namespace {

// Removes the views of report.json, which `headroom report` can rebuild, and the frame times.
void make_room(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"report.html", "report.md", "summary.csv"}) fs::remove(folder / name, ignored);
  fs::remove_all(folder / "frames", ignored);
}

bool is_full_disk(const Error& error) {
  return error.why == errno_text(ENOSPC) || error.why == errno_text(EDQUOT);
}

// Extracts the reason from the child's error line: "error: WHAT: WHY; FIX".
std::string read_reason(int fd, const fs::path& page) {
  std::string text = read_descriptor(fd, "its errors").value_or("");
  const std::string what = fmt::format("error: cannot write {}: ", page.string());
  if (const std::size_t at = text.rfind(what); at != std::string::npos)
    text = text.substr(at + what.size(), text.find(';', at) - at - what.size());
  return std::string(trim(text));
}

// Writes report.html in a child, from the report.json that was just written. The page needs several copies of
// images and series in memory, about 10 to 90 MiB.
Status write_page(const fs::path& folder) {
  SpawnOptions options;
  options.command = {own_executable().string(), "report", folder.string(), "--html",
                     (folder / "report.html").string()};
  auto errors = Pipe::create();
  if (!errors) return forward_error(errors);
  options.stderr_fd = errors->write_end.get();
  auto child = Subprocess::spawn(options);
  if (!child) return forward_error(child);
  errors->write_end.reset();
  const std::string reason = read_reason(errors->read_end.get(), folder / "report.html");
  if (const ExitStatus end = child->wait(); !end.success())
    return failure(fmt::format("cannot write {}", (folder / "report.html").string()),
                   reason.empty() ? fmt::format("its process ended with {}", end.describe()) : reason,
                   fmt::format("try headroom report {} --html FILE", shell_word(folder.string())));
  return {};
}

}  // namespace

// The figures have priority: on a full disk, this makes room for them.
Status write_report_json(const BenchResult& result, const fs::path& folder) {
  const fs::path path = folder / "report.json";
  const std::string text = report::report_text(result);
  auto written = write_file_atomically(path, text);
  if (written || !is_full_disk(written.error())) return written;
  make_room(folder);
  return write_file_atomically(path, text);
}

namespace {

// Writes report.json, report.md and summary.csv, and report.html if these three succeeded. The error names
// the first file that failed.
Status write_all_reports(const BenchResult& result, const fs::path& folder) {
  Status first;
  const auto keep = [&](Status status) {
    if (first && !status) first = std::move(status);
  };
  keep(write_report_json(result, folder));
  keep(write_file_atomically(folder / "report.md", report::to_markdown(result)));
  keep(write_file_atomically(folder / "summary.csv", report::to_csv(result)));
  if (std::ranges::any_of(result.models,
                          [](const ModelResult& model) { return model.vos && !model.vos->scores.empty(); }))
    keep(write_file_atomically(folder.parent_path() / "jetson_benchmark_summary.csv",
                               report::to_reference_csv(result)));
  if (first) keep(write_page(folder));
  return first;
}

// The ledger's peaks, plus the driver's own memory at the end of the same phases.
std::optional<FootprintGpu> gpu_footprint(const std::vector<GpuMemory>& gpus) {
  if (gpus.empty() || !gpus.front().load_peak || !gpus.front().run_peak) return std::nullopt;
  const GpuMemory& gpu = gpus.front();
  const auto with_driver = [](Bytes peak, const std::optional<Bytes>& asked,
                              const std::optional<Bytes>& process) {
    return asked && process ? peak + std::max(Bytes{}, *process - *asked) : peak;
  };
  return FootprintGpu{gpu.device, gpu.name, with_driver(*gpu.load_peak, gpu.loaded, gpu.process_loaded),
                      with_driver(*gpu.run_peak, gpu.running, gpu.process_running),
                      gpu.is_integrated.value_or(false)};
}

// Writes footprints/NAME.json for each model that ran.
Status write_footprints(const BenchResult& result, const PreparedData& prepared, const fs::path& folder) {
  for (const ModelResult& model : result.models) {
    const ModelMemory& memory = model.memory;
    if (model.status != ModelStatus::ok || !memory.runtime || !memory.loaded || !memory.load_peak ||
        !memory.run_mean || !memory.run_peak)
      continue;
    const auto known = std::ranges::find(prepared.models, model.name, &PreparedModel::name);
    Footprint footprint;
    footprint.name = model.name;
    footprint.path = model.path;
    if (known != prepared.models.end()) footprint.model_fingerprint = known->fingerprint;
    footprint.backend = model.backend;
    footprint.backend_version = model.backend_version;
    footprint.input = model.input;
    footprint.host = this_host();
    footprint.runtime = *memory.runtime;
    footprint.frames = memory.frames.value_or(Bytes{});
    footprint.loaded = *memory.loaded - *memory.runtime;
    footprint.load_peak = *memory.load_peak - *memory.runtime;
    footprint.run_mean = *memory.run_mean - *memory.runtime - footprint.frames;
    footprint.run_peak = *memory.run_peak - *memory.runtime - footprint.frames;
    footprint.file_backed = memory.file_backed_peak;
    footprint.charged_peak = memory.cgroup_peak;
    footprint.gpu = gpu_footprint(model.gpu_memory);
    footprint.settings = model.settings;
    footprint.measured_at = result.started_at;
    if (auto made = make_folder(folder / "footprints"); !made) return made;
    if (auto written = write_file_atomically(folder / "footprints" / (file_name_of(model.name) + ".json"),
                                             to_text(report::to_json(footprint)));
        !written)
      return written;
  }
  return {};
}

}  // namespace

Status write_frame_times(const std::string& model, const KeptFrames& frames, const fs::path& folder) {
  if (frames.empty()) return {};
  if (auto made = make_folder(folder / "frames"); !made) return made;
  return write_file_in_pieces(folder / "frames" / (file_name_of(model) + ".csv"),
                              [&](const WritePiece& write) {
                                Status written = write(report::kFrameTimesHeader);
                                std::string text;
                                frames.each([&](std::span<const FrameTimes> piece) {
                                  text.clear();
                                  report::append_csv(text, piece);
                                  if (written) written = write(text);
                                });
                                return written;
                              });
}

void step(Run& run, const std::string& text) {
  run.progress_line.clear();
  if (run.options.quiet)
    log::debug("{}", text);
  else
    log::info("{}", text);
}

void note_disk_problem(Run& run, const Status& written) {
  if (written || std::exchange(run.disk_warned, true)) return;
  run.progress_line.clear();
  Error error = written.error();
  error.fix = "free space there, or choose another --output-dir";
  log::warning("the run continues and its figures will be printed, but {}", error.sentence());
}

void save_progress(Run& run) { note_disk_problem(run, write_report_json(run.result, run.folder.path)); }

Status save_finished(Run& run) {
  run.result.system = run.metrics.summary();
  if (auto problem = run.metrics.take_problem()) run.result.warnings.push_back(std::move(*problem));
  auto written = write_all_reports(run.result, run.folder.path);
  if (auto footprints = write_footprints(run.result, run.prepared, run.folder.path); written)
    written = footprints;
  return written;
}

void save_reports(Run& run) { note_disk_problem(run, save_finished(run)); }

void save_partial_result(Run& run, ModelResult partial) {
  partial.status = ModelStatus::failed;
  partial.error = report::kCutShort;
  run.result.models[run.measuring] = std::move(partial);
  save_progress(run);
}

}  // namespace headroom::bench
