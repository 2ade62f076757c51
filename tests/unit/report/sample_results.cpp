#include "sample_results.h"

namespace headroom::test {
namespace {

constexpr std::int64_t kMicrosecond = 1'000;
constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

constexpr Nanoseconds milliseconds(std::int64_t n) { return {n * kMillisecond}; }

// A latency with a long tail, as real ones have; `spread` is the standard deviation over the P50, in ‰.
LatencySummary latency(std::int64_t p50_us, std::int64_t n, std::int64_t spread = 18) {
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
  // A triangle about the eleventh bucket, a thin tail, and the largest value in the last bucket.
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

// 200 points of resident memory: up to the loaded model with a hump, then a flat course with small waves.
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

struct Shape {
  std::string name, task, input;
  std::int64_t p50_us = 0;
  std::int64_t own_kib = 0;   // loaded − runtime
  std::int64_t work_kib = 0;  // run peak − loaded
  std::int64_t file_kib = 0;
};

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

const Shape kNano416{"yolox_nano_416", "yolox", "float32[1,3,416,416]", 14'200, 9'120, 11'776, 3'652};
const Shape kNano640{"yolox_nano_640", "yolox", "float32[1,3,640,640]", 33'700, 9'984, 24'320, 3'680};
const Shape kNano1280{"yolox_nano_1280", "yolox", "float32[1,3,1280,1280]", 141'300, 12'160, 88'064, 3'808};
const Shape kFace{"blazeface", "blazeface", "float32[1,3,128,128]", 880, 2'048, 1'280, 412};
const Shape kText{"text", "db_text", "float32[1,3,?,?]", 96'400, 14'336, 61'440, 4'640};

Limit hard_limit(Bytes bytes) {
  Limit limit;
  limit.bytes = bytes;
  limit.type = LimitType::hard;
  limit.mechanism = LimitMechanism::cgroup_v2;
  // The probe tries the routes with at most 64 MiB.
  const std::string killed = "by the kernel's OOM killer after 60.0 MiB";
  limit.routes = {{"malloc", "killed", killed},
                  {"mmap_private", "killed", killed},
                  {"mmap_shared", "killed", killed},
                  {"memfd", "refused", "ENOMEM after 63.5 MiB"}};
  return limit;
}

SourceMetadata video_source() {
  SourceMetadata source;
  source.spec.kind = SourceKind::video;
  source.spec.path = "videos/vtest.avi";
  SourceSequence sequence;
  sequence.name = "vtest.avi";
  sequence.frames = 795;
  sequence.width = 768;
  sequence.height = 576;
  source.sequences = {sequence};
  source.total_frames = 795;
  source.largest_frame = {768 * 576 * 3};
  source.fingerprint = "9d0f6c1e4b7a2358";
  return source;
}

SourceMetadata picture_source() {
  SourceMetadata source;
  source.spec.path = "pictures";
  SourceSequence sequence;
  sequence.name = "pictures";
  sequence.frames = 48;
  sequence.width = 1280;
  sequence.height = 853;
  source.sequences = {sequence};
  source.skipped = {{"IMG_0003.jpg", "truncated JPEG"}, {"notes|old.png", "not an image"}};
  source.total_frames = 48;
  source.largest_frame = {1280 * 853 * 3};
  source.fingerprint = "01ce9a77f3b2d640";
  return source;
}

BenchResult run_of(const std::string& arguments) {
  BenchResult run;
  run.run_name = "2026-11-21_10-30-00";
  run.started_at = "2026-11-21T10:30:00+01:00";
  run.complete = true;
  run.command = "headroom bench " + arguments;
  run.host.hostname = "bench-7", run.host.machine = "x86_64", run.host.kernel = "6.1.0-40-amd64";
  run.host.os = "Debian GNU/Linux 12 (bookworm)", run.host.cpu_model = "AMD EPYC 7B13";
  run.host.cpus = 2, run.host.ram_total = gibibytes(8), run.host.headroom_version = "0.1.0";
  run.image_size = 640;
  run.confidence = 0.25;
  run.iou = 0.45;
  run.setup_time = milliseconds(12'300);
  run.inference_time = milliseconds(95'040);
  run.frames_held_peak = 4;
  run.system = {{"cpu_percent", 190, 12.5, 81.25, 100},
                {"ram_used_bytes", 190, 1'200'300'032, 1'310'720'000, 1'500'512'256},
                {"swap_used_bytes", 190, 0, 0, 0},
                {"psi_some_percent", 190, 0, 0.125, 1.5}};
  return run;
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

PipelineResult pipeline_of(const std::vector<Shape>& shapes, std::int64_t n) {
  PipelineResult pipeline;
  pipeline.status = ModelStatus::ok;
  pipeline.runtime = kibibytes(31'208);
  pipeline.loaded = *pipeline.runtime;
  std::int64_t frame_us = 2'700;
  std::int64_t work_kib = 0;
  for (const Shape& shape : shapes) {
    pipeline.models.push_back({shape.name, milliseconds(40 + shape.file_kib / 64), kibibytes(shape.own_kib),
                               latency(shape.p50_us, n)});
    *pipeline.loaded += kibibytes(shape.own_kib);
    work_kib += shape.work_kib;
    frame_us += shape.p50_us;
  }
  pipeline.peak = *pipeline.loaded + kibibytes(work_kib * 3 / 4);
  pipeline.frame = latency(frame_us, n, 21);
  pipeline.fps = 1e9 / pipeline.frame->mean_ns;
  pipeline.frames = n;
  return pipeline;
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

}  // namespace

BenchResult typical_run() {
  BenchResult run = run_of(
      "--source videos/vtest.avi --model yolox_nano_416=models/yolox_nano_416.onnx --mem-limit 512MiB");
  run.source = video_source();
  run.limit = hard_limit(mebibytes(512));
  for (const Shape& shape : {kNano416, kNano640, kNano1280})
    run.models.push_back(measured(shape, 795, run.limit));
  run.models[0].confidence = 0.6;  // behind the model's path
  run.models[0].iou = run.iou;
  run.options.emplace();
  run.options->memory_limit = run.limit->bytes;
  run.options->max_frames = 1000;
  return run;
}

BenchResult rich_run() {
  BenchResult run = run_of("--config benches/all.toml --tune --parallel --pipeline --mem-limit 256MiB");
  run.source = video_source();
  run.source->skipped = {{"frame 211", "the frame could not be decoded"}};
  run.host.gpu_driver = "580.159.04";
  run.host.gpus = {
      {0,
       "NVIDIA H200",
       "GPU-49802edc-3f05-646c-39b4-e09f0322dc57",
       "00000000:00:06.0",
       mebibytes(143'771),
       false,
       {}},
      {1,
       "NVIDIA H200",
       "GPU-5a1b0c2d-0000-4f3e-8d7c-6b5a49382716",
       "00000000:00:07.0",
       mebibytes(143'771),
       true,
       {{"NVIDIA H200 MIG 1g.18gb", "MIG-c788539f-c1ea-5a36-8b4d-9b07d024b1bb", mebibytes(16'384)}}}};
  run.limit = hard_limit(mebibytes(256));
  run.limit->mechanism = LimitMechanism::cgroup_v1;
  run.limit->note = "control group v2 is not mounted with the memory controller";
  for (const Shape& shape : {kNano416, kNano1280, kText}) {
    ModelResult model = measured(shape, 795, run.limit);
    add_course(model);
    run.models.push_back(std::move(model));
  }
  add_tuning(run.models[0]);
  run.models[0].layers = traced_layers();
  run.models[0].in_step = InStep{"5139abfee5386c72", 795, true};
  run.models[1].warnings = {
      "inference latency varies by 3.1 % (standard deviation over mean; above 2.5 % the machine was not "
      "quiet)",
      "the clock was throttled while it ran"};
  run.models[1].inference = latency(141'300, 795, 31);
  ModelResult oom = fallen("yolox_x_1280", ModelStatus::oom, Phase::runtime_loaded,
                           "the kernel killed it at the limit of 256.0 MiB");
  oom.memory.load_peak = kibibytes(262'016);
  oom.memory.within_limit = false;
  oom.memory.violations = 1;
  oom.file_size = kibibytes(387'460);
  oom.memory_series = memory_series(kibibytes(5'412), kibibytes(31'208), kibibytes(262'016),
                                    kibibytes(262'016), milliseconds(1'900));
  oom.memory_series.resize(41);
  oom.phases = {{Phase::start, {0}}, {Phase::runtime_loaded, oom.memory_series[10].time}};
  run.models.push_back(oom);

  ParallelResult parallel;
  for (const Shape& shape : {kNano416, kText}) {
    Shape slower = shape;
    slower.p50_us = shape.p50_us * 17 / 10;
    parallel.together.push_back(measured(slower, 795, run.limit));
  }
  parallel.sum_of_peaks = *run.models[0].memory.run_peak + *run.models[2].memory.run_peak;
  parallel.joint_peak = *parallel.sum_of_peaks - mebibytes(21);
  parallel.joint_peak_source = "cgroup_v1";
  parallel.within_limit = true;
  run.parallel = parallel;
  run.pipeline = pipeline_of({kNano416, kText}, 795);
  run.system.insert(run.system.end(), {{"temperature_celsius.cpu-thermal", 190, 41.5, 52.25, 61},
                                       {"power_watts.VDD_IN", 190, 4.5, 7.75, 9.25},
                                       {"clock_hz.cpu0", 190, 729'600'000, 1'497'600'000, 1'510'400'000}});
  run.warnings = {"swap was used while the models ran"};
  return run;
}

BenchResult fallen_run() {
  BenchResult run = run_of("--source pictures --model 'a|b'=x.onnx --mem-limit 128MiB --timeout 30s");
  run.source = picture_source();
  Limit limit;
  limit.bytes = mebibytes(128);
  limit.type = LimitType::soft;
  limit.mechanism = LimitMechanism::watchdog;
  limit.routes = {{"malloc", "killed", "SIGKILL 48 ms after 128.0 MiB"},
                  {"mmap_shared", "escaped", ""},
                  {"memfd", "not_tried", ""}};
  limit.note = "no control group could be made: permission denied";
  run.limit = limit;
  Shape named = kFace;
  named.name = "face|*front*\n<b>\"v2\", `final`";
  run.models.push_back(measured(named, 48, run.limit));
  ModelResult over = measured(kNano1280, 48, run.limit);
  over.memory.within_limit = false;
  over.memory.violations = 7;
  run.models.push_back(over);
  run.models.push_back(fallen("huge", ModelStatus::oom, Phase::model_loaded,
                              "the watchdog killed it at 131.2 MiB, over the limit of 128.0 MiB"));
  run.models.back().memory.within_limit = false;
  run.models.back().memory.violations = 1;
  run.models.push_back(
      fallen("crashes", ModelStatus::crashed, Phase::warm, "it crashed with SIGSEGV (signal 11)"));
  run.models.push_back(fallen("hangs", ModelStatus::timeout, Phase::runtime_loaded,
                              "gave no sign of life for 30 s; raise --timeout if it only needs longer"));
  run.models.push_back(fallen("corrupt", ModelStatus::failed, Phase::runtime_loaded,
                              "cannot load models/corrupt.onnx: Protobuf parsing failed"));
  ModelResult skipped;
  skipped.name = "yolov8n_thermal";
  skipped.error = "no path was given for this slot";
  run.models.push_back(skipped);
  return run;
}

BenchResult parallel_run() {
  BenchResult run = run_of("--source videos/vtest.avi --parallel --mem-limit 128MiB");
  run.source = video_source();
  run.limit = hard_limit(mebibytes(128));
  for (const Shape& shape : {kNano640, kText}) run.models.push_back(measured(shape, 300, run.limit));
  ParallelResult parallel;
  Shape slower = kNano640;
  slower.p50_us = 60'100;
  parallel.together = {
      measured(slower, 300, run.limit),
      fallen("text", ModelStatus::oom, Phase::warm, "the kernel killed it at the limit of 128.0 MiB")};
  parallel.sum_of_peaks = *run.models[0].memory.run_peak + *run.models[1].memory.run_peak;
  parallel.joint_peak = mebibytes(128);
  parallel.joint_peak_source = "cgroup_v2";
  parallel.within_limit = false;
  run.parallel = parallel;
  return run;
}

BenchResult pipeline_run() {
  BenchResult run = run_of("--source videos/vtest.avi --pipeline");
  run.source = video_source();
  for (const Shape& shape : {kFace, kNano416, kText})
    run.models.push_back(measured(shape, 300, std::nullopt));
  run.pipeline = pipeline_of({kFace, kNano416, kText}, 300);
  return run;
}

BenchResult pool_run() {
  BenchResult run = run_of("--source videos/vtest.avi --pool 96MiB --pool-threads 2");
  run.source = video_source();
  run.options.emplace();
  run.options->pool = mebibytes(96);
  run.options->pool_threads = 2;
  PoolResult pool;
  pool.status = ModelStatus::ok;
  pool.budget = mebibytes(96);
  pool.threads = 2;
  pool.baseline = kibibytes(31'208);
  pool.all_at_once = pool.baseline;
  std::int64_t every = 1;
  for (const Shape& shape : {kFace, kNano416, kText}) {
    run.models.push_back(measured(shape, 300, std::nullopt));
    PooledModel model;
    model.name = shape.name;
    model.every = every;
    model.isolated = shape.name == kText.name;
    model.requests = 300 / every;
    model.loads = every == 1 ? 1 : 12;
    model.unloads = model.evictions = model.loads - 1;
    model.hits = model.requests - model.loads;
    model.charge = kibibytes(shape.own_kib + shape.work_kib);
    model.load = latency(40'000, model.loads);
    model.wait = latency(48'000, model.loads);
    model.inference = latency(shape.p50_us, model.requests);
    pool.all_at_once = *pool.all_at_once + *model.charge;
    pool.models.push_back(model);
    every *= 5;
  }
  pool.frame = latency(31'000, 300, 21);
  pool.fps = 1e9 / pool.frame->mean_ns;
  pool.load_time = milliseconds(1'000);
  pool.reload_time = milliseconds(880);
  pool.books_peak = mebibytes(89);
  pool.peak = mebibytes(88);
  pool.samples = 1'903;
  pool.frames = 300;
  run.pool = pool;
  return run;
}

BenchResult incomplete_run() {
  BenchResult run =
      run_of("--source camera=0 --model blazeface=models/blazeface.onnx --model text=models/text.onnx");
  run.complete = false;
  SourceMetadata source;
  source.spec.kind = SourceKind::camera;
  SourceSequence sequence;
  sequence.name = "camera 0";
  sequence.width = 640;
  sequence.height = 480;
  source.sequences = {sequence};
  run.source = source;
  run.models.push_back(measured(kFace, 40, std::nullopt));
  run.models.back().detections.reset();
  run.models.push_back(
      fallen("text", ModelStatus::failed, Phase::warm, "the run ended while it was being measured"));
  run.models.back().memory.loaded = kibibytes(45'544);
  ModelResult not_reached;
  not_reached.name = "yolox_nano_416";
  not_reached.path = "models/yolox_nano_416.onnx";
  not_reached.error = "the run ended before it was measured";
  run.models.push_back(not_reached);
  run.inference_time = milliseconds(2'100);
  return run;
}

BenchResult charged_run() {
  BenchResult run = run_of("--source pictures --mem-limit 96MiB");
  run.source = picture_source();
  run.limit = hard_limit(mebibytes(96));
  ModelResult slot;
  slot.name = "yolo11s_rgb";
  slot.error = "no path was given for this slot";
  run.models = {slot, measured(kText, 8, run.limit), measured(kFace, 48, run.limit)};
  run.models[1].memory.cgroup_peak = kibibytes(78'000);
  run.models[1].warnings = {"inference latency varies by 9.0 % (over 2.5 %: a busy machine)"};
  run.models[1].inference = latency(96'400, 8, 90);
  run.models[2].warnings = {"inference latency varies by 3.1 % (over 2.5 %: a busy machine)"};
  run.models[2].inference = latency(880, 48, 31);
  run.models[2].detections = CountSummary{48, 0.5, 0, 1};
  run.system.insert(run.system.end(), {{"refaults", 4, 0, 2.5, 9}, {"oom_kills", 4, 0, 1.75, 7}});
  return run;
}

BenchResult prepared_run() {
  BenchResult run = run_of("--source pictures --tune --skip-inference --mem-limit 128MiB");
  run.source = picture_source();
  run.limit = hard_limit(mebibytes(128));
  run.system.clear();
  run.frames_held_peak = 0;
  for (const Shape& shape : {kFace, kText}) {
    ModelResult full = measured(shape, 48, std::nullopt);
    if (shape.name == kFace.name) add_tuning(full);
    ModelResult prepared;
    prepared.name = full.name, prepared.path = full.path, prepared.backend = full.backend;
    prepared.backend_version = full.backend_version, prepared.task = full.task, prepared.input = full.input;
    prepared.status = ModelStatus::ok;
    prepared.settings = full.settings, prepared.trials = full.trials;
    prepared.smallest_settings = full.smallest_settings;
    prepared.file_size = full.file_size;
    run.models.push_back(prepared);
  }
  return run;
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

// The figures are those of an H200 (bench/results/gpu_inference.md).
BenchResult gpu_run() {
  BenchResult run = run_of("--task none --device cuda:0 --gpu-mem-limit 600MiB --parallel");
  run.gpu_limit = {mebibytes(600),
                   LimitType::hard,
                   LimitMechanism::device_ledger,
                   {{"device", "refused", "CUDA_ERROR_OUT_OF_MEMORY after 64.0 MiB"},
                    {"pool", "refused", "CUDA_ERROR_OUT_OF_MEMORY after 64.0 MiB"},
                    {"handle", "not_tried", "the driver has no such way"}},
                   ""};
  ModelResult fits = measured(kNano640, 300, std::nullopt);
  fits.settings.device = "cuda:0";
  fits.device_time = fits.inference;
  GpuMemory gpu = some_gpu_memory();
  gpu.is_integrated = false;
  gpu.within_limit = true;
  gpu.refused = 0;
  gpu.refused_bytes.reset();
  fits.gpu_memory = {gpu};
  fits.placement = {176, 48, "Cast x2, Equal x16, Gather x16"};
  ModelResult large = fallen("fcn_resnet50", ModelStatus::oom, Phase::model_loaded,
                             "onnxruntime cannot run fcn_resnet50.onnx: out of memory: Failed to allocate "
                             "memory for requested buffer of "
                             "size 81012992; 85.4 MiB more of cuda:0 were refused at the limit of 600.0 MiB, "
                             "of which 579.2 MiB were in use");
  large.settings.device = "cuda:0";
  GpuMemory refused = some_gpu_memory();
  refused.is_integrated = false;
  refused.running.reset(), refused.residual.reset(), refused.pinned_host.reset();
  refused.process_running.reset(), refused.process_residual.reset();
  large.gpu_memory = {refused};
  run.models = {fits, large};
  ParallelResult parallel;
  parallel.together = {fits, large};
  parallel.within_limit = false;
  parallel.joint_peak_is_lower_bound = true;
  parallel.gpu_memory = {{"cuda:0", mebibytes(579), std::nullopt, mebibytes(600)}};
  run.parallel = parallel;
  return run;
}

BenchResult empty_run() {
  BenchResult run;
  run.run_name = "2026-11-21_10-30-00";
  run.started_at = "2026-11-21T10:30:00+01:00";
  run.complete = true;
  return run;
}

std::vector<NamedRun> sample_runs() {
  return {{"typical", typical_run()},
          {"rich", rich_run()},
          {"fallen", fallen_run()},
          {"parallel", parallel_run()},
          {"pipeline", pipeline_run()},
          {"pool", pool_run()},
          {"incomplete", incomplete_run()},
          {"charged", charged_run()},
          {"prepared", prepared_run()},
          {"gpu", gpu_run()},
          {"empty", empty_run()}};
}

}  // namespace headroom::test
