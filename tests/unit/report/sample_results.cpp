#include "sample_results.h"

namespace headroom::test {
namespace {

Limit hard_limit(Bytes bytes) {
  // The probe tries each route with at most 64 MiB.
  const std::string killed = "by the kernel's OOM killer after 60.0 MiB";
  return {.bytes = bytes,
          .type = LimitType::hard,
          .mechanism = LimitMechanism::cgroup_v2,
          .routes = {{"malloc", "killed", killed},
                     {"mmap_private", "killed", killed},
                     {"mmap_shared", "killed", killed},
                     {"memfd", "refused", "ENOMEM after 63.5 MiB"}},
          .note = ""};
}

SourceMetadata source_of(SourceKind kind, const std::string& path, std::int64_t frames, int width, int height,
                         const std::string& fingerprint) {
  SourceMetadata source;
  source.spec.kind = kind;
  source.spec.path = path;
  SourceSequence& sequence = source.sequences.emplace_back();
  sequence.name = path.substr(path.rfind('/') + 1);
  sequence.frames = frames;
  sequence.width = width;
  sequence.height = height;
  source.total_frames = frames;
  source.largest_frame = {std::int64_t{width} * height * 3};
  source.fingerprint = fingerprint;
  return source;
}

SourceMetadata video_source() {
  return source_of(SourceKind::video, "videos/vtest.avi", 795, 768, 576, "9d0f6c1e4b7a2358");
}

SourceMetadata picture_source() {
  SourceMetadata source = source_of(SourceKind::image_dir, "pictures", 48, 1280, 853, "01ce9a77f3b2d640");
  source.skipped = {{"IMG_0003.jpg", "truncated JPEG"}, {"notes|old.png", "not an image"}};
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

}  // namespace

BenchResult typical_run() {
  BenchResult run = run_of(
      "--source videos/vtest.avi --model yolox_nano_416=models/yolox_nano_416.onnx --mem-limit 512MiB");
  run.source = video_source();
  run.limit = hard_limit(mebibytes(512));
  for (const Shape& shape : {kNano416, kNano640, kNano1280})
    run.models.push_back(measured(shape, 795, run.limit));
  run.models[0].confidence = 0.6;  // given after the model's path
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
  run.limit = {.bytes = mebibytes(128),
               .type = LimitType::soft,
               .mechanism = LimitMechanism::watchdog,
               .routes = {{"malloc", "killed", "SIGKILL 48 ms after 128.0 MiB"},
                          {"mmap_shared", "escaped", ""},
                          {"memfd", "not_tried", ""}},
               .note = "no control group could be made: permission denied"};
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

namespace {

VosResult vos_of(PromptKind prompt, double j, std::int64_t leak) {
  VosResult vos;
  vos.prompt = prompt;
  vos.objects = VosObjects::alone;
  vos.side = 512;
  vos.bank = kibibytes(3'640);
  vos.trials = {{1, kibibytes(3'640), mebibytes(180), std::nullopt}};
  std::int64_t after = 90 << 20;
  int size = 0;
  for (const char* video : {"sav_000|1", "sav_000002"}) {
    for (const char* object : {"000", "001"}) {
      VosClip clip{video, object, 1280, 720 + 360 * size, 300, 1};
      clip.fps = 12.5;
      clip.peak = mebibytes(180 + 20 * size);
      clip.after = Bytes{after += leak};
      clip.growth = GrowthSlope{0, -512, 1024, 128};
      vos.clips.push_back(clip);
      vos.scores.push_back({video, object, 73, j, j + 0.0625, j + 0.03125, j - 0.125, j - 0.0625});
    }
    ++size;
  }
  vos.j = j;
  vos.f = j + 0.0625;
  vos.j_and_f = j + 0.03125;
  vos.reference_j = j - 0.125;
  vos.reference_j_and_f = j - 0.0625;
  vos.per_frame = vos.clips.front().growth;
  vos.loads = {mebibytes(60), mebibytes(60), mebibytes(60)};
  return vos;
}

}  // namespace

BenchResult vos_run() {
  BenchResult run = run_of("--split_dir sav_val --models edgetam_points,edgetam_bbox --vos-objects alone");
  run.vos = VosSource{"/data/sav_val", VosLayout::sav};
  run.source.emplace();
  run.source->spec.path = "/data/sav_val";
  run.source->sequences = {{"sav_000|1", {}, {}, 300, 1280, 720, {}},
                           {"sav_000002", {}, {}, 300, 1280, 1080, {}}};
  run.source->total_frames = 600;
  run.source->fingerprint = "00c0ffee00c0ffee-612";
  run.source->prompted_by_mask = 3;
  run.source->prompted_by_file = 1;
  run.options.emplace();
  run.options->task = "vos";
  run.options->vos = VosOptions{"/data/sav_val"};
  run.options->vos->objects = VosObjects::alone;
  const Shape net{"edgetam_points", "vos", "uint8[3,512,512]", 80'000, 60'000, 90'000, 54'000};
  for (const PromptKind prompt : {PromptKind::points, PromptKind::box}) {
    ModelResult model = measured(net, 1'200, std::nullopt);
    if (prompt == PromptKind::box) model.name = "edgetam_bbox";
    model.detections.reset();
    model.vos =
        vos_of(prompt, prompt == PromptKind::box ? 0.75 : 0.6875, prompt == PromptKind::box ? 0 : 8 << 20);
    run.models.push_back(model);
  }
  ModelResult other = run.models.back();  // files of another project, objects together
  other.name = "sam2export";
  VosResult& vos = *other.vos;
  vos.label = "not the reference algorithm: the mask is always one of three";
  vos.objects = VosObjects::together;
  vos.scores.clear();
  for (auto figure : {&VosResult::j, &VosResult::f, &VosResult::j_and_f, &VosResult::reference_j,
                      &VosResult::reference_j_and_f})
    (vos.*figure).reset();
  std::erase_if(vos.clips, [](const VosClip& clip) { return clip.object != "000"; });
  for (VosClip& clip : vos.clips) {
    clip.object.clear();
    clip.objects = 2;
    for (const char* object : {"000", "001"})
      vos.object_ends.push_back({clip.video, object, clip.after, std::nullopt});
  }
  run.models.push_back(std::move(other));
  VosResult& leaks = *run.models.front().vos;
  leaks.leaks = {{"object", "host", {8 << 20, 8'380'000, 8'400'000, 6}}};
  leaks.left_out = {
      {"sav_000003", {}, "3840 × 2160 with 1 object would need about 2.40 GiB, above the limit of 2.00 GiB"}};
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

// The figures are those of an H200 (benchmarks/results/gpu_inference.md).
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
          {"vos", vos_run()},
          {"empty", empty_run()}};
}

}  // namespace headroom::test
