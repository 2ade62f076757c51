#include "report/run/report_json.h"

#include "base/json.h"
#include "sample_results.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {
using testing::HasSubstr;

// Removes the fields that are only in metadata.json.
BenchResult without_file_names(BenchResult run) {
  if (run.source)
    for (SourceSequence& sequence : run.source->sequences) {
      sequence.path.clear();
      sequence.images.clear();
      sequence.objects.clear();
    }
  return run;
}

TEST(ReportText, MatchesTheJsonDocument) {
  auto runs = test::sample_runs();
  BenchResult same = test::rich_run();
  same.models[0].name = same.command =
      "@models go here@";  // the placeholder that report_text() uses internally
  runs.push_back({"same", same});
  BenchResult none = test::rich_run();
  none.models.clear();
  runs.push_back({"none", none});
  for (const auto& [name, run] : runs) {
    EXPECT_EQ(report_text(run), to_text(to_json(run))) << name;
    EXPECT_EQ(report_text(run, false), to_line(to_json(run)) + "\n") << name;
  }
}

BenchResult every_field() {
  BenchResult run = test::rich_run();
  run.host.board = "NVIDIA Jetson Orin Nano Developer Kit";
  run.source->spec = {SourceKind::camera, "kept as it is", 3};
  run.source->sequences[0].images = {"a.jpg"};
  ModelResult& model = run.models[0];
  // No run has a shared arena; only the model pool uses it.
  model.settings = {3,
                    false,
                    ArenaExtend::same_as_requested,
                    false,
                    false,
                    1,
                    false,
                    "cuda:0",
                    Precision::fp16,
                    {},
                    ConvSearch::standard,
                    true,
                    true};
  model.died_in = Phase::unloaded;
  model.device_time = model.inference;
  model.gpu_memory = {test::some_gpu_memory()};
  model.placement = {120, 2, "Shape x2"};
  model.memory.violations = 2;
  model.warnings = {"a", "b"};
  model.confidence = 0.9;
  model.iou = 0.3;
  BenchOptions& options = run.options.emplace();
  options.backend = "onnxruntime";
  options.task = "yolox";
  options.device = "cuda:0";
  options.conv_search = ConvSearch::heuristic;
  options.capture_graph = true;
  options.gpu_memory_limit = "0=4GiB";
  options.image_size = 320;
  options.confidence = 0.1;
  options.iou = 0.2;
  options.max_frames = 7;
  options.warmup_frames = 3;
  options.max_frames_in_memory = 5;
  options.limit_videos = 1;
  options.limit_objects = 2;
  options.threads = 4;
  options.memory_limit = mebibytes(64);
  options.limit_mechanism = "watchdog";
  options.workspace = mebibytes(32);
  options.timeout = {5};
  options.metrics_interval = {6};
  options.strict = options.tune = options.parallel = options.pipeline = options.layers = true;
  options.skip_setup = options.skip_inference = true;
  options.prepared_dir = "p";
  options.output_dir = "o";
  options.sample_images = 9;
  run.models[3].settings.threads = 7;
  run.parallel->within_limit = false;
  run.parallel->gpu_memory = {{"cuda:0", mebibytes(3), mebibytes(4), mebibytes(5)}};
  run.pipeline->gpu_memory = {test::some_gpu_memory()};
  options.pool = mebibytes(7);
  run.pool = *test::pool_run().pool;
  run.pool->status = ModelStatus::failed;
  run.pool->error = "another error";
  run.pool->died_in = Phase::warm;
  run.pool->memory = run.models[3].memory;
  run.pool->gpu_memory = {test::some_gpu_memory()};
  run.pool->samples_over = 2;
  run.pool->skipped_frames = 3;
  run.pool->frames_held = 4;
  run.pool->models[1].refusals = 5;
  run.pool->models[1].failures = 6;
  run.pool->models[1].error = "e";
  run.gpu_limit = {
      mebibytes(5), LimitType::hard, LimitMechanism::device_ledger, {{"pool", "refused", "a"}}, "n"};
  run.pipeline->error = "an error";
  run.pipeline->status = ModelStatus::crashed;
  return run;
}

TEST(ReportJson, ReadsBackWhatItWrote) {
  for (const auto& [name, run] : test::sample_runs()) {
    const auto back = read_report(to_text(to_json(run)));
    ASSERT_TRUE(back) << name << ": " << back.error().sentence();
    EXPECT_TRUE(*back == without_file_names(run)) << name << "\n" << to_text(to_json(*back));
  }
  const BenchResult run = every_field();
  const auto back = bench_result_from_json(to_json(run));
  ASSERT_TRUE(back) << back.error().sentence();
  EXPECT_TRUE(*back == without_file_names(run));
}

TEST(ReportJson, OmitsNonFiniteFigures) {
  BenchResult run = test::typical_run();
  run.models[0].fps = std::numeric_limits<double>::quiet_NaN();
  run.models[0].inference->mean_ns = std::numeric_limits<double>::infinity();
  const std::string text = to_text(to_json(run));
  EXPECT_THAT(text, testing::Not(HasSubstr("null")));
  const auto back = read_report(text);
  ASSERT_TRUE(back);
  EXPECT_FALSE(back->models[0].fps);
}

TEST(ReportJson, ReplacesInvalidUtf8InNames) {
  BenchResult run = test::typical_run();
  run.models[0].name = "caf\xe9";
  const auto back = read_report(to_text(to_json(run)));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->models[0].name, "caf\xef\xbf\xbd");
}

TEST(ReportJson, ToleratesUnknownAndAbsentKeysAndNull) {
  const auto run = read_report(
      R"({"schema_version": 1, "of_a_later_version": [1], "models": [{"name": "m", "fps": null, "new": {}}]})");
  ASSERT_TRUE(run) << run.error().sentence();
  ASSERT_EQ(run->models.size(), 1U);
  EXPECT_EQ(run->models[0].name, "m");
  EXPECT_FALSE(run->models[0].fps);
  EXPECT_FALSE(run->limit);
  EXPECT_FALSE(run->source);
}

TEST(ReportJson, AcceptsIntegersForFractions) {
  const auto run = read_report(R"({"schema_version": 1, "models": [{"fps": 30}]})");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->models[0].fps, 30.0);
}

struct Broken {
  const char* text;
  const char* problem;
};

TEST(ReportJson, NamesThePlaceOfAWrongValue) {
  const Broken cases[] = {
      {R"({"schema_version":1,"models":[{},{"memory":{"run_peak_bytes":"12 MB"}}]})",
       "/models/1/memory/run_peak_bytes is a string, not a whole number"},
      {R"({"schema_version":1,"models":[{"fps":"fast"}]})", "/models/0/fps is a string, not a number"},
      {R"({"schema_version":1,"models":{}})", "/models is an object, not a list"},
      {R"({"schema_version":1,"models":[7]})", "/models/0 is a whole number, not an object"},
      {R"({"schema_version":1,"models":[{"status":"dead"}]})",
       "/models/0/status is 'dead', not one of ok, oom, crashed, timeout, failed, skipped"},
      {R"({"schema_version":1,"complete":"yes"})", "/complete is a string, not true or false"},
      {R"({"schema_version":1,"image_size":3000000000})",
       "/image_size is a whole number, not a whole number in its range"},
      {R"({"schema_version":1,"models":[{"frames":18446744073709551615}]})", "/models/0/frames"},
      {R"({"schema_version":1,"models":[{"frames":1.5}]})",
       "/models/0/frames is a number, not a whole number"},
      {R"({"schema_version":1,"source":[]})", "/source is a list, not an object"},
      {R"({"schema_version":1,"models":[{"stages_ns":{"decode":{"histogram":[1,true]}}}]})",
       "/models/0/stages_ns/decode/histogram/1 is true or false"},
  };
  for (const auto& [text, problem] : cases) {
    const auto run = read_report(text);
    ASSERT_FALSE(run) << text;
    EXPECT_EQ(run.error().kind, ErrorKind::input);
    EXPECT_THAT(run.error().why, HasSubstr(problem)) << text;
  }
}

TEST(ReportJson, RejectsOtherDocumentsAndVersions) {
  EXPECT_THAT(read_report(R"({"schema_version": 2})").error().sentence(), HasSubstr("use a newer Headroom"));
  EXPECT_THAT(read_report("{}").error().why, HasSubstr("/schema_version"));
  EXPECT_FALSE(read_report("[]"));
  EXPECT_FALSE(read_report("null"));
  EXPECT_FALSE(read_report(""));
  EXPECT_FALSE(read_report(std::string(100'000, '[')));
  const std::string whole = to_text(to_json(test::typical_run()));
  EXPECT_FALSE(read_report(whole.substr(0, whole.size() / 2)));
}

TEST(ReportJson, RejectsListsThatNeedTooMuchMemory) {
  std::string text = R"({"schema_version":1,"models":[{})";
  for (int i = 0; i < 400'000; ++i) text += ",{}";
  EXPECT_THAT(read_report(text + "]}").error().why, HasSubstr("/models has 400001 elements"));
}

TEST(SettingsJson, ReadsBackSettings) {
  const RuntimeSettings settings{2, false, ArenaExtend::same_as_requested, false, false, 2, false, "cuda"};
  EXPECT_EQ(*settings_from_json(to_json(settings)), settings);
  EXPECT_EQ(*settings_from_json(Json::object()), RuntimeSettings{});
  EXPECT_FALSE(settings_from_json(Json()));
  EXPECT_THAT(settings_from_json(Json{{"threads", "two"}}).error().why, HasSubstr("/threads is a string"));
}

TEST(FootprintJson, ReadsBackAFootprint) {
  Footprint footprint;
  footprint.name = "yolo", footprint.path = "models/yolo.onnx",
  footprint.model_fingerprint = "0123456789abcdef";
  footprint.backend = "onnxruntime", footprint.backend_version = "1.29.0";
  footprint.input = "float32[1,3,416,416]", footprint.host = "bench-7, AMD EPYC 7B13";
  footprint.runtime = mebibytes(30), footprint.loaded = mebibytes(9), footprint.load_peak = mebibytes(12);
  footprint.run_mean = mebibytes(20), footprint.run_peak = mebibytes(21), footprint.frames = mebibytes(4);
  footprint.measured_at = "2026-11-21T10:30:00+01:00";
  footprint.settings.threads = 2;
  const auto back = footprint_from_json(to_json(footprint));
  ASSERT_TRUE(back) << back.error().sentence();
  EXPECT_EQ(*back, footprint);
  EXPECT_FALSE(footprint_from_json(Json::object()));
  EXPECT_THAT(footprint_from_json(Json{{"schema_version", 1}, {"runtime_bytes", -0.5}}).error().why,
              HasSubstr("/runtime_bytes"));
}

TEST(ReportJson, TakesTheLimitPeakFromTheEnforcedFigure) {
  const auto peak_in = [](const BenchResult& run, std::size_t model) {
    return get_integer(get_member(to_json(run)["models"][model], "memory"), "limit_peak_bytes");
  };
  BenchResult run = test::charged_run();
  EXPECT_EQ(peak_in(run, 1), run.models[1].memory.cgroup_peak->count);
  EXPECT_EQ(peak_in(run, 0), std::nullopt);  // a skipped model
  run.limit->mechanism = LimitMechanism::watchdog;
  EXPECT_EQ(peak_in(run, 1), run.models[1].memory.run_peak->count);
  run.models[1].memory.run_peak.reset();
  EXPECT_EQ(peak_in(run, 1), run.models[1].memory.load_peak->count);
  run.limit.reset();
  EXPECT_EQ(peak_in(run, 1), std::nullopt);
}

}  // namespace
}  // namespace headroom::report
