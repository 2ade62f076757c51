#include "sample_results.h"

#include <algorithm>

namespace headroom::test {
namespace {

constexpr std::int64_t kMicrosecond = 1'000;
constexpr std::int64_t kSecond = 1'000'000'000;

}  // namespace

LatencySummary latency(std::int64_t p50_us, std::int64_t n, std::int64_t spread) {
  const std::int64_t p50 = p50_us * kMicrosecond;
  LatencySummary summary;
  summary.n = n;
  summary.mean_ns = static_cast<double>(p50 * 1009 / 1000);
  summary.sd_ns = static_cast<double>(p50 * spread / 1000);
  summary.cv = summary.sd_ns / summary.mean_ns;
  summary.min = {p50 * 962 / 1000};
  summary.p50 = {p50};
  summary.p90 = {p50 * (1000 + spread) / 1000};
  summary.p99 = {p50 * (1000 + 4 * spread) / 1000};
  summary.max = {p50 * (1000 + 9 * spread) / 1000};
  if (n >= 64) summary.p90_bound = Nanoseconds{p50 * (1000 + 3 * spread / 2) / 1000};
  if (n >= 662) summary.p99_bound = Nanoseconds{p50 * (1000 + 6 * spread) / 1000};
  // A triangle around the eleventh bucket, a thin tail, and the largest value in the last bucket.
  std::int64_t left = n;
  for (std::int64_t bucket = 0; bucket < 47; ++bucket) {
    const std::int64_t distance = bucket < 11 ? 11 - bucket : bucket - 11;
    const std::int64_t share = distance < 12 ? 12 - distance : (bucket % 5 == 0 ? 1 : 0);
    const std::int64_t count = n * share / 160;
    summary.histogram.push_back(count);
    left -= count;
  }
  summary.histogram[11] += left - 1;
  summary.histogram.push_back(1);
  return summary;
}

std::vector<MemoryPoint> memory_series(Bytes start, Bytes runtime, Bytes load_peak, Bytes run_peak,
                                       Nanoseconds end) {
  std::vector<MemoryPoint> series;
  constexpr std::int64_t kPoints = 200;
  const auto between = [](Bytes from, Bytes to, std::int64_t step, std::int64_t steps) {
    return Bytes{from.count + (to.count - from.count) * step / steps};
  };
  for (std::int64_t i = 0; i < kPoints; ++i) {
    Bytes resident;
    if (i < 10)
      resident = between(start, runtime, i, 10);
    else if (i < 40)
      resident = between(runtime, load_peak, i - 10, 30);
    else if (i < 50)
      resident = between(load_peak, run_peak - mebibytes(4), i - 40, 10);
    else if (i < 192)
      resident = run_peak - mebibytes((i * 7) % 5) + kibibytes(i == 120 ? 0 : -64);
    else
      resident = between(run_peak, runtime, i - 191, 8);
    series.push_back({Nanoseconds{end.count * i / (kPoints - 1)}, resident});
  }
  return series;
}

ModelResult measured(const Shape& shape, std::int64_t n, std::optional<Limit> limit) {
  ModelResult model;
  model.name = shape.name;
  model.path = "models/" + shape.name + ".onnx";
  model.backend = "onnxruntime";
  model.backend_version = "1.29.0";
  model.task = shape.task;
  model.input = shape.input;
  model.status = ModelStatus::ok;
  model.inference = latency(shape.p50_us, n);
  model.decode = latency(1900, n, 60);
  model.preprocess = latency(640, n, 45);
  model.postprocess = latency(180, n, 90);
  model.end_to_end = latency(shape.p50_us + 2720, n, 24);
  model.fps = 1e9 / model.inference->mean_ns;
  model.pipeline_fps = 1e9 / model.end_to_end->mean_ns;
  model.runtime_load_time = milliseconds(31);
  model.model_load_time = milliseconds(40 + shape.file_kib / 64);
  model.warmup_time = Nanoseconds{shape.p50_us * 11 * kMicrosecond};
  model.detections = CountSummary{n, 5.375, 0, 12};
  model.frames = n;
  ModelMemory& memory = model.memory;
  memory.start = kibibytes(5'412);
  memory.runtime = kibibytes(31'208);
  memory.loaded = *memory.runtime + kibibytes(shape.own_kib);
  memory.load_peak = *memory.loaded + kibibytes(shape.file_kib);
  memory.run_peak = *memory.loaded + kibibytes(shape.work_kib);
  memory.run_mean = *memory.run_peak - kibibytes(612);
  memory.residual = *memory.runtime + kibibytes(1'904);
  memory.frames = mebibytes(4);
  memory.cgroup_peak = std::max(*memory.run_peak, *memory.load_peak) + kibibytes(2'340);
  memory.pss_run_peak = *memory.run_peak - kibibytes(1'100);
  if (limit) memory.within_limit = true;
  model.file_size = kibibytes(shape.file_kib);
  model.cpu_percent = 187.25;
  return model;
}

void add_course(ModelResult& model) {
  const Nanoseconds end{kSecond + model.inference->p50.count * model.frames};
  model.memory_series = memory_series(*model.memory.start, *model.memory.runtime, *model.memory.load_peak,
                                      *model.memory.run_peak, end);
  const auto at = [&](std::int64_t point) {
    return model.memory_series[static_cast<std::size_t>(point)].time;
  };
  model.phases = {{Phase::start, at(0)}, {Phase::runtime_loaded, at(10)}, {Phase::model_loaded, at(41)},
                  {Phase::warm, at(50)}, {Phase::running, at(191)},       {Phase::unloaded, at(199)}};
  model.annotated_images = {"samples/" + model.name + "_1.jpg", "samples/" + model.name + "_2.jpg"};
  model.cleanups = {{"video", "vtest.avi", *model.memory.run_peak - kibibytes(2'048)}};
}

ModelResult fallen(const std::string& name, ModelStatus status, Phase phase, const std::string& error) {
  ModelResult model;
  model.name = name;
  model.path = "models/" + name + ".onnx";
  model.backend = "onnxruntime";
  model.backend_version = "1.29.0";
  model.status = status;
  model.died_in = phase;
  model.error = error;
  model.memory.start = kibibytes(5'412);
  if (phase > Phase::start) model.memory.runtime = kibibytes(31'208);
  return model;
}

void add_tuning(ModelResult& model) {
  RuntimeSettings two_threads;
  two_threads.threads = 2;
  RuntimeSettings exact_arena = two_threads;
  exact_arena.arena_extend = ArenaExtend::same_as_requested;
  RuntimeSettings no_arena = two_threads;
  no_arena.arena = false;
  RuntimeSettings no_prepacking = no_arena;
  no_prepacking.prepacking = false;
  RuntimeSettings one_thread;
  one_thread.threads = 1;
  model.settings = two_threads;
  model.smallest_settings = no_arena;
  model.trials = {
      {two_threads, ModelStatus::ok, "", model.inference->p50, *model.memory.run_peak},
      {exact_arena, ModelStatus::ok, "", Nanoseconds{model.inference->p50.count * 1012 / 1000},
       *model.memory.run_peak - mebibytes(2)},
      {no_arena, ModelStatus::ok, "", Nanoseconds{model.inference->p50.count * 1031 / 1000},
       *model.memory.run_peak - mebibytes(9)},
      {no_prepacking, ModelStatus::ok, "", Nanoseconds{model.inference->p50.count * 1270 / 1000},
       *model.memory.run_peak - mebibytes(11)},
      {one_thread, ModelStatus::timeout, "no sign of life for 120 s", std::nullopt, std::nullopt}};
}

// Figures of a traced YOLOX-nano at 640 pixels.
LayerMemory traced_layers() {
  LayerMemory layers;
  layers.recording = "layers/yolox_nano_416.hrec";
  layers.frames = 8;
  layers.shares = {{MemoryKind::tensors, "", Bytes{19'235'840}},
                   {MemoryKind::arena_unused, "", Bytes{11'231'232}},
                   {MemoryKind::module, "libonnxruntime.so.1", Bytes{5'772'019}},
                   {MemoryKind::weights, "", Bytes{3'640'332}},
                   {MemoryKind::graph, "", Bytes{3'557'747}},
                   {MemoryKind::tracing, "", Bytes{2'195'456}},
                   {MemoryKind::arena_rounding, "", Bytes{1'735'680}},
                   {MemoryKind::workspace, "", Bytes{1'122'013}},
                   {MemoryKind::unnamed, "", Bytes{2'048}}};
  for (const MemoryShare& share : layers.shares) layers.peak += share.bytes;
  layers.peak_node = "Slice_35";
  layers.nodes = {{"Slice_35", "Slice", "CPUExecutionProvider", 3, Nanoseconds{4'266'000}, Bytes{2'457'600},
                   Bytes{4'915'200}, Bytes{32}, Bytes{20'971'520}},
                  {"Conv_1_nchwc", "Conv", "CPUExecutionProvider", 3, Nanoseconds{17'790'000},
                   Bytes{6'553'600}, Bytes{4'915'200}, Bytes{6'976}, Bytes{18'874'368}},
                  {"Shape_7", "Shape", "CPUExecutionProvider", 3, Nanoseconds{9'000}, std::nullopt,
                   std::nullopt, std::nullopt, std::nullopt}};
  return layers;
}

GpuMemory some_gpu_memory() {
  GpuMemory gpu;
  gpu.device = "cuda:0";
  gpu.name = "NVIDIA H200";
  gpu.uuid = "GPU-04524f92-7be3-be1c-882c-c9fdf97f8890";
  gpu.total = mebibytes(143'156);
  gpu.is_integrated = true;
  gpu.runtime = mebibytes(1);
  gpu.loaded = mebibytes(192);
  gpu.load_peak = mebibytes(193);
  gpu.running = mebibytes(320);
  gpu.run_peak = mebibytes(321);
  gpu.residual = mebibytes(2);
  gpu.pinned_host = kibibytes(592);
  gpu.process_runtime = mebibytes(518);
  gpu.process_loaded = mebibytes(722);
  gpu.process_running = mebibytes(854);
  gpu.process_residual = mebibytes(532);
  gpu.limit = mebibytes(600);
  gpu.within_limit = false;
  gpu.refused = 2;
  gpu.refused_bytes = mebibytes(170);
  return gpu;
}

}  // namespace headroom::test
