#include "samples.h"

#include <array>
#include <cmath>

#include "base/json.h"
#include "page_text.h"
#include "report/run/report_json.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

constexpr std::int64_t kMillisecondOfRun = 1'000'000;

// A realistic distribution: one peak and a thin tail.
LatencySummary latency(double p50_ms, std::int64_t n) {
  const auto at = [&](double factor) {
    return Nanoseconds{static_cast<std::int64_t>(p50_ms * factor * kMillisecondOfRun)};
  };
  LatencySummary summary;
  summary.n = n;
  summary.mean_ns = p50_ms * 1.02 * kMillisecondOfRun;
  summary.sd_ns = p50_ms * 0.031 * kMillisecondOfRun;
  summary.cv = summary.sd_ns / summary.mean_ns;
  summary.min = at(0.95), summary.p50 = at(1), summary.p90 = at(1.06), summary.p99 = at(1.2),
  summary.max = at(1.6);
  if (n >= 64) summary.p90_bound = at(1.08);
  if (n >= 662) summary.p99_bound = at(1.3);
  for (int bucket = 0; bucket < 40; ++bucket) {
    const double distance = (bucket - 5) / 3.5;
    summary.histogram.push_back(std::llround(static_cast<double>(n) * 0.12 * std::exp(-distance * distance)));
  }
  summary.histogram.back() = 1;
  return summary;
}

// The worker marks a phase when it is complete; each entry has the memory from the mark to the next one.
void append_phase(ModelResult& model, Phase phase, std::int64_t milliseconds, double from_mib,
                  double to_mib) {
  const std::int64_t start = model.memory_series.empty() ? 0 : model.memory_series.back().time.count;
  model.phases.push_back({phase, Nanoseconds{start}});
  constexpr int kPoints = 24;
  for (int i = 0; i <= kPoints; ++i) {
    const double mib = from_mib + (to_mib - from_mib) * i / kPoints;
    model.memory_series.push_back({Nanoseconds{start + milliseconds * kMillisecondOfRun * i / kPoints},
                                   Bytes{static_cast<std::int64_t>(mib * 1024 * 1024)}});
  }
}

ModelResult measured_model(const std::string& name, double p50_ms, std::int64_t own_mib, std::int64_t n) {
  ModelResult model;
  model.name = name;
  model.path = "/data/models/" + name + ".onnx";
  model.backend = "onnxruntime", model.backend_version = "1.29.0", model.task = "yolox";
  model.input = "float32[1,3,416,416]";
  model.status = ModelStatus::ok;
  model.fps = 980.4 / p50_ms, model.pipeline_fps = 1000.0 / (p50_ms + 3);
  model.decode = latency(1.9, n), model.preprocess = latency(0.7, n), model.inference = latency(p50_ms, n);
  model.postprocess = latency(0.2, n), model.end_to_end = latency(p50_ms + 2.8, n);
  model.runtime_load_time = Nanoseconds{31 * kMillisecondOfRun},
  model.model_load_time = Nanoseconds{180 * kMillisecondOfRun};
  model.warmup_time = Nanoseconds{300 * kMillisecondOfRun};
  model.detections = CountSummary{n, 5.37, 0, 12};
  model.frames = n;
  const std::int64_t runtime = 30;
  model.memory.start = mebibytes(6), model.memory.runtime = mebibytes(runtime);
  model.memory.loaded = mebibytes(runtime + own_mib),
  model.memory.load_peak = mebibytes(runtime + own_mib * 3 / 2);
  model.memory.run_mean = mebibytes(runtime + own_mib * 2),
  model.memory.run_peak = mebibytes(runtime + own_mib * 2 + 1);
  model.memory.residual = mebibytes(runtime + 2), model.memory.frames = mebibytes(4);
  model.memory.cgroup_peak = mebibytes(runtime + own_mib * 2 + 6);
  model.memory.within_limit = true;
  model.file_size = mebibytes(own_mib / 2 + 1);
  model.cpu_percent = 187.2;
  const double own = static_cast<double>(own_mib);
  append_phase(model, Phase::start, 60, 6, 30);
  append_phase(model, Phase::runtime_loaded, 180, 30, 30 + own * 1.5);
  append_phase(model, Phase::model_loaded, 300, 30 + own, 30 + own * 2);
  append_phase(model, Phase::warm, static_cast<std::int64_t>(p50_ms * static_cast<double>(n)), 30 + own * 2,
               31 + own * 2);
  append_phase(model, Phase::running, 40, 31 + own * 2, 32);
  append_phase(model, Phase::unloaded, 10, 32, 32);
  return model;
}

ModelResult fallen_model() {
  ModelResult model;
  model.name = kHostileName;
  model.path = "/data/models/huge.onnx";
  model.backend = "onnxruntime", model.backend_version = "1.29.0";
  model.status = ModelStatus::oom;
  model.error = "the kernel killed the worker at 256.0 MiB; use a smaller input or raise --mem-limit";
  model.died_in = Phase::runtime_loaded;
  model.memory.start = mebibytes(6), model.memory.runtime = mebibytes(30),
  model.memory.load_peak = mebibytes(256);
  model.memory.within_limit = false;
  append_phase(model, Phase::start, 60, 6, 30);
  append_phase(model, Phase::runtime_loaded, 400, 30, 255.9);
  return model;
}

Limit sample_limit() {
  Limit limit;
  limit.bytes = mebibytes(256);
  limit.type = LimitType::hard;
  limit.mechanism = LimitMechanism::cgroup_v1;
  limit.routes = {{"malloc", "killed", "SIGKILL after 256.0 MiB"},
                  {"mmap_private", "killed", "SIGKILL after 256.0 MiB"},
                  {"memfd", "refused", "ENOMEM after 255.8 MiB"},
                  {"hugetlb", "not_tried", ""}};
  limit.note = "control group v2 is not mounted";
  return limit;
}

}  // namespace

BenchResult sample_run() {
  BenchResult run;
  run.run_name = "2026-11-21_10-30-00", run.started_at = "2026-11-21T10:30:00+01:00";
  run.complete = true;
  run.command = "headroom bench --source video=vtest.avi --model yolox=yolox.onnx --mem-limit 256MiB --tune";
  run.host.hostname = "bench-7", run.host.machine = "x86_64", run.host.kernel = "6.1.0-40-amd64";
  run.host.os = "Debian GNU/Linux 12 (bookworm)", run.host.cpu_model = "AMD EPYC 7B13";
  run.host.cpus = 2, run.host.ram_total = gibibytes(8), run.host.headroom_version = "0.1.0";
  run.host.gpus = {{0, "NVIDIA H200", "GPU-1", "00000000:00:06.0", mebibytes(143'771), false, {}}};
  SourceMetadata source;
  source.spec.kind = SourceKind::video, source.spec.path = "/data/vtest.avi";
  SourceSequence sequence;
  sequence.name = "vtest.avi", sequence.frames = 795, sequence.width = 768, sequence.height = 576;
  source.sequences.push_back(sequence);
  source.total_frames = 795;
  source.skipped.push_back({"IMG_3.jpg", "truncated JPEG"});
  run.source = source;
  run.limit = sample_limit();
  run.image_size = 640, run.confidence = 0.25, run.iou = 0.45;
  run.options.emplace();
  run.options->memory_limit = mebibytes(256);
  run.options->max_frames = 1000;
  run.setup_time = Nanoseconds{12'300 * kMillisecondOfRun},
  run.inference_time = Nanoseconds{95'000 * kMillisecondOfRun};

  ModelResult tuned = measured_model("yolox_nano_416", 14.2, 9, 900);
  RuntimeSettings without_arena;
  without_arena.arena = false;
  RuntimeSettings one_thread;
  one_thread.threads = 1;
  tuned.trials = {
      {tuned.settings, ModelStatus::ok, "", Nanoseconds{14'200'000}, mebibytes(49)},
      {without_arena, ModelStatus::ok, "", Nanoseconds{14'700'000}, mebibytes(41)},
      {one_thread, ModelStatus::timeout, "no sign of life for 120 s", std::nullopt, std::nullopt}};
  tuned.smallest_settings = without_arena;
  tuned.confidence = 0.6, tuned.iou = 0.45;
  tuned.warnings = {"the latency varies by 3.1 % (CV), more than 2.5 %: the machine was not quiet"};
  tuned.cleanups = {{"video", "vtest.avi", mebibytes(44)}};
  tuned.annotated_images = {"samples/yolox_nano_416/000.png", "samples/yolox_nano_416/001.png",
                            "samples/lost.png"};
  ModelResult skipped;
  skipped.name = "yolov8n_thermal", skipped.error = "no path was given for this slot";
  run.models = {tuned, measured_model("yolox_nano_1280", 130, 62, 300), fallen_model(), skipped};

  ParallelResult parallel;
  parallel.together = {measured_model("yolox_nano_416", 22, 9, 900),
                       measured_model("yolox_nano_1280", 210, 62, 300)};
  parallel.sum_of_peaks = mebibytes(204), parallel.joint_peak = mebibytes(186),
  parallel.joint_peak_source = "cgroup_v1";
  run.parallel = parallel;
  PipelineResult pipeline;
  pipeline.status = ModelStatus::ok;
  pipeline.models = {
      {"yolox_nano_416", Nanoseconds{80 * kMillisecondOfRun}, mebibytes(9), latency(15, 300)},
      {"yolox_nano_1280", Nanoseconds{210 * kMillisecondOfRun}, mebibytes(60), latency(140, 300)}};
  pipeline.frame = latency(158, 300), pipeline.fps = 6.2, pipeline.frames = 300;
  pipeline.runtime = mebibytes(30), pipeline.loaded = mebibytes(99), pipeline.peak = mebibytes(170);
  run.pipeline = pipeline;
  PoolResult pool;
  pool.status = ModelStatus::ok, pool.budget = mebibytes(96), pool.baseline = mebibytes(30);
  PooledModel small, large;
  small.name = "yolox_nano_416", small.requests = 300, small.hits = 270, small.loads = 30,
  small.unloads = small.evictions = 29;
  large.name = "yolox_nano_1280", large.every = 10, large.requests = large.loads = 30,
  large.unloads = large.evictions = 29;
  small.charge = mebibytes(14), small.load = latency(60, 30), small.inference = latency(15, 300);
  large.charge = mebibytes(62), large.load = latency(210, 30), large.inference = latency(140, 30);
  pool.models = {small, large};
  pool.all_at_once = mebibytes(106), pool.peak = mebibytes(93), pool.samples = 3'187;
  pool.frame = latency(17, 300), pool.fps = 24.1, pool.frames = 300;
  pool.load_time = Nanoseconds{7'900 * kMillisecondOfRun},
  pool.reload_time = Nanoseconds{7'620 * kMillisecondOfRun};
  run.pool = pool;
  run.system = {{"cpu_percent", 190, 12, 81.2, 100}, {"ram_used_bytes", 190, 1.2e9, 1.3e9, 1.5e9}};
  run.warnings = {"the clock was throttled while yolox_nano_1280 ran"};
  return run;
}

void write_sample_images(const std::filesystem::path& run_folder) {
  // One grey pixel.
  constexpr std::array<unsigned char, 67> kPng{
      0x89, 'P',  'N',  'G',  '\r', '\n', 0x1a, '\n', 0,    0,    0,    0x0d, 'I',  'H',  'D',  'R',  0,
      0,    0,    1,    0,    0,    0,    1,    8,    0,    0,    0,    0,    0x3a, 0x7e, 0x9b, 0x55, 0,
      0,    0,    0x0a, 'I',  'D',  'A',  'T',  0x78, 0xda, 0x63, 0x68, 0,    0,    0,    0x82, 0,    0x81,
      0xda, 0x45, 0x08, 0x3b, 0,    0,    0,    0,    'I',  'E',  'N',  'D',  0xae, 0x42, 0x60, 0x82};
  const std::string bytes(kPng.begin(), kPng.end());
  std::filesystem::create_directories(run_folder / "samples/yolox_nano_416");
  write_text(run_folder / "samples/yolox_nano_416/000.png", bytes);
  write_text(run_folder / "samples/yolox_nano_416/001.png", bytes);
}

std::string sample_metrics(int seconds) {
  std::string lines;
  for (int i = 0; i < seconds * 2; ++i) {
    report::MetricsLine line;
    line.since_start = Nanoseconds{i * 500 * kMillisecondOfRun};
    line.phase = "inference";
    line.model = i < seconds ? "yolox_nano_416" : "yolox_nano_1280";
    line.system.cpu_percent = 80 + 10 * std::sin(i / 5.0);
    line.system.ram_total = gibibytes(8);
    line.system.ram_used = mebibytes(1200 + i % 7 * 3);
    line.system.swap_used = Bytes{0};
    line.system.temperatures_celsius = {{"cpu-thermal", 50 + i / 20.0}, {"gpu-thermal", 47 + i / 30.0}};
    line.system.power_watts = {{"VDD_IN", 7 + std::cos(i / 9.0)}};
    report::NamedProcessMemory worker;
    worker.model = line.model, worker.pid = 4711, worker.phase = "warm";
    worker.memory.rss = mebibytes(48 + i % 5), worker.memory.rss_peak = mebibytes(53);
    line.processes.push_back(worker);
    lines += to_line(report::to_json(line)) + "\n";
  }
  return lines;
}

}  // namespace headroom::test
