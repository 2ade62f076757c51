#include "doctor/run/run_findings.h"

#include <algorithm>
#include <filesystem>

#include "doctor/cure_trials.h"

#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The only finding, with this id.
Finding only(const char* id, const std::vector<Finding>& findings) {
  EXPECT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.empty() ? "" : findings[0].id, id);
  return findings.empty() ? Finding() : findings[0];
}

BenchResult finished_run(std::vector<ModelResult> models) {
  BenchResult result;
  result.complete = true;
  result.models = std::move(models);
  return result;
}

ModelResult model_named(const std::string& name) {
  ModelResult model;
  model.name = name;
  model.path = name + ".onnx";
  model.status = ModelStatus::ok;
  model.memory.load_peak = mebibytes(110);
  model.memory.run_peak = mebibytes(100);
  return model;
}

ModelResult onnx_model() {
  ModelResult model = model_named("a");
  model.backend = "onnxruntime";
  return model;
}

GpuMemory cuda_memory() {
  GpuMemory gpu;
  gpu.device = "cuda:0";
  return gpu;
}

std::vector<Finding> findings_of(const BenchResult& result) { return doctor::run_findings(result, ""); }

std::vector<std::string> ids(const BenchResult& result) {
  std::vector<std::string> names;
  for (const Finding& finding : doctor::run_findings(result, "run/report.json")) {
    names.push_back(finding.id);
    EXPECT_EQ(finding.evidence.at(0).file, "run/report.json");
  }
  return names;
}

TEST(RunFindings, ReportsFindingsOfTheRun) {
  BenchResult result = finished_run({model_named("a"), model_named("b")});
  for (ModelResult& model : result.models) {
    model.path = "same.onnx";
    model.file_size = mebibytes(50);
  }
  result.limit = Limit{gibibytes(1), LimitType::hard, LimitMechanism::cgroup_v2, {}, ""};
  EXPECT_THAT(ids(result), IsEmpty());
  result.limit =
      Limit{gibibytes(1), LimitType::soft, LimitMechanism::watchdog, {{"mmap", "escaped", ""}}, ""};
  result.system = {{"throttled", 10, 0, 0.2, 1}};
  EXPECT_THAT(ids(result), ElementsAre("soft-limit", "throttled")) << "alone, each has its weights to itself";
  result.parallel.emplace();
  EXPECT_THAT(ids(result), ElementsAre("soft-limit", "throttled", "duplicate-models"));
  EXPECT_EQ(findings_of(result)[2].cures[0].saves, mebibytes(50));
  // If it was measured, the memory above the bare runtime replaces the file size, which is smaller.
  for (ModelResult& model : result.models) {
    model.backend = "onnxruntime";
    model.memory.runtime = mebibytes(30);
    model.memory.run_peak = mebibytes(200);
  }
  const auto measured = findings_of(result)[2];
  ASSERT_EQ(measured.cures.size(), 2U);
  EXPECT_TRUE(measured.cures[0].settings->leave_out_also);
  EXPECT_EQ(measured.cures[0].saves, mebibytes(170));
  EXPECT_EQ(measured.cures[1].settings->settings, "mapped=on,prepack=off");
  EXPECT_EQ(measured.cures[1].settings->also, std::vector<std::string>{result.models[1].name});
  EXPECT_EQ(measured.cures[1].saves, mebibytes(2 * 3 * 50 - 50));
  result.options.emplace();
  const auto with_options = findings_of(result)[2];
  EXPECT_EQ(with_options.cures.at(0).command, "") << "a change of the program";
  EXPECT_THAT(with_options.cures.at(1).command,
              testing::AllOf(testing::StartsWith("headroom bench --model a=same.onnx,"),
                             HasSubstr(" --model b=same.onnx,"), HasSubstr("mapped=on")));
  for (ModelResult& model : result.models) model.settings.mapped = true;
  EXPECT_THAT(ids(result), ElementsAre("soft-limit", "throttled")) << "processes share the file's pages";
}

TEST(RunFindings, NamesEachFileThatIsLoadedTwice) {
  const TemporaryFolder folder;
  write_text(folder / "c.onnx", "weights");
  std::filesystem::create_symlink("c.onnx", folder / "link to c.onnx");
  BenchResult result = finished_run(
      {model_named("a"), model_named("b"), model_named("c"), model_named("d"), model_named("e")});
  result.models[0].path = result.models[1].path = "same.onnx";
  result.models[2].path = folder / "c.onnx";
  result.models[3].path = folder / "link to c.onnx";
  for (ModelResult& model : result.models) {
    model.file_size = mebibytes(2);
    model.memory.runtime = mebibytes(30);
    model.memory.run_peak = mebibytes(200);
  }
  result.parallel.emplace();
  auto findings = findings_of(result);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].title, "a and b are the same file: its weights are in memory 2 times");
  EXPECT_EQ(findings[1].title, "c and d are the same file: its weights are in memory 2 times");
  EXPECT_EQ(findings[1].cures[0].saves, mebibytes(170));
  // The memory of the joint run counts, without the file pages, which the processes share anyway.
  result.parallel->together = result.models;
  for (ModelResult& model : result.parallel->together) {
    model.memory.load_peak = mebibytes(90);
    model.memory.run_peak = mebibytes(100);
    model.memory.file_backed_peak = mebibytes(40);
  }
  findings = findings_of(result);
  EXPECT_EQ(findings[1].cures[0].saves, mebibytes(60));
}

TEST(RunFindings, ModelThatDiedWhileLoadingIsPreparedElsewhere) {
  ModelResult model = onnx_model();
  model.status = ModelStatus::oom;
  model.died_in = Phase::runtime_loaded;
  model.path = "a b.onnx";
  BenchResult result = finished_run({model});
  result.options.emplace();
  result.options->memory_limit = mebibytes(250);
  const auto findings = findings_of(result);
  ASSERT_EQ(findings.size(), 1U);
  const Cure& first = findings[0].cures.at(0);
  EXPECT_EQ(first.settings->settings, "mapped=on,prepack=off");
  EXPECT_EQ(first.command,
            "headroom bench --model 'a=a b.onnx,backend=onnxruntime,prepack=off,mapped=on' --skip-inference "
            "--prepared-dir prepared && headroom bench --model 'a=a "
            "b.onnx,backend=onnxruntime,prepack=off,mapped=on' "
            "--mem-limit 250MiB --prepared-dir prepared");
  EXPECT_THAT(doctor::preparing_arguments(result, result.models[0], CureSettings{"a", "prepack=off"}),
              IsEmpty());
  EXPECT_EQ(findings[0].cures.at(1).command,
            "headroom bench --model 'a=a b.onnx,backend=onnxruntime' --mem-limit 250MiB --tune");
  EXPECT_EQ(std::ranges::count_if(findings[0].cures,
                                  [](const Cure& cure) {
                                    return cure.command ==
                                           "headroom bench --model 'a=a b.onnx,backend=onnxruntime'";
                                  }),
            1)
      << "what it needs where nothing limits it";
}

TEST(RunFindings, ReportsFindingsOfAModel) {
  ModelResult model = onnx_model();
  model.memory.load_peak = mebibytes(300);
  model.memory.frames = mebibytes(64);
  model.layers = LayerMemory{"", 3, mebibytes(100), {{MemoryKind::arena_unused, "", mebibytes(40)}}, "", {}};
  TuneTrial now, small;
  now.settings = model.settings;
  now.peak = mebibytes(200);
  small.settings.arena = false;
  small.peak = mebibytes(150);
  model.trials = {now, small};
  model.smallest_settings = small.settings;
  BenchResult result = finished_run({model});
  EXPECT_THAT(ids(result), ElementsAre("load-peak-over-run-peak", "oversized-arena", "smaller-settings",
                                       "large-frame-buffers"));
  const auto findings = findings_of(result);
  EXPECT_EQ(findings[0].cures[0].saves, mebibytes(200));
  EXPECT_EQ(findings[1].cures[0].saves, mebibytes(40));
  EXPECT_EQ(findings[2].cures[0].saves, mebibytes(50));
  EXPECT_EQ(findings[0].cures[0].command, "--model a=PATH,mapped=on,prepack=off");
  EXPECT_EQ(findings[2].cures[0].settings->settings, "arena=off");
  EXPECT_FALSE(findings[3].cures[0].settings) << "how many frames were held is not known";
}

// The default window is 16 MiB or one frame. Above that, the user asked for many frames, or one frame is
// large.
TEST(RunFindings, ManyFramesSuggestFewerFrames) {
  ModelResult model = model_named("a");
  model.memory.frames = mebibytes(96);
  BenchResult result = finished_run({model_named("b"), model});
  result.source.emplace();
  result.source->largest_frame = mebibytes(6);
  const Finding many = only("large-frame-buffers", findings_of(result));
  EXPECT_EQ(many.cures.at(0).settings->max_frames_in_memory, 8);
  EXPECT_EQ(many.cures[0].saves, mebibytes(48));
  result.options.emplace();
  EXPECT_THAT(findings_of(result).at(0).cures.at(0).command,
              testing::AllOf(testing::StartsWith("headroom bench "), HasSubstr("--model a=a.onnx"),
                             HasSubstr("--max-frames-in-mem 8")));
  result.source->largest_frame = mebibytes(24);
  EXPECT_EQ(findings_of(result)[0].cures.at(0).settings->max_frames_in_memory, 2);
  result.source->largest_frame = mebibytes(96);
  const auto one = findings_of(result);
  ASSERT_EQ(one[0].cures.size(), 1) << "eight frames in place of one are no cure";
  EXPECT_FALSE(one[0].cures[0].settings);
}

TEST(RunFindings, ReportsLimitThatDidNotRefuse) {
  ModelResult model = onnx_model();
  model.memory.within_limit = false;
  model.memory.violations = 7;
  BenchResult result = finished_run({model});
  const Finding finding = only("limit-exceeded", findings_of(result));
  EXPECT_EQ(finding.severity, Severity::severe);
  EXPECT_EQ(finding.figures.at(0).name, "violations");
  EXPECT_EQ(std::get<std::int64_t>(finding.figures[0].value), 7);
  EXPECT_EQ(finding.cures.at(0).command, "headroom bench --tune");
  result.models[0].memory.within_limit = true;
  EXPECT_THAT(ids(result), IsEmpty());
}

TEST(RunFindings, ReportsWorkspacesAndPinnedMemory) {
  ModelResult model = onnx_model();
  model.layers = LayerMemory{"", 3, mebibytes(100), {{MemoryKind::workspace, "", mebibytes(40)}}, "", {}};
  model.gpu_memory = {cuda_memory()};
  model.gpu_memory[0].pinned_host = mebibytes(64);
  BenchResult result = finished_run({model});
  EXPECT_THAT(ids(result), ElementsAre("oversized-workspace")) << "a discrete GPU needs pinned memory";
  result.models[0].gpu_memory[0].is_integrated = true;
  EXPECT_THAT(ids(result), ElementsAre("oversized-workspace", "pinned-memory-on-unified-memory"));
  EXPECT_EQ(findings_of(result)[1].cures[0].saves, mebibytes(64));
  set_settings(result.models[0].settings, "threads=1");
  const Finding finding = findings_of(result).at(0);
  for (const Cure& cure : finding.cures)
    EXPECT_FALSE(cure.settings) << "these are the current settings: " << cure.command;
}

TEST(RunFindings, ReportsExpensiveConvolutionSearch) {
  ModelResult model = onnx_model();
  model.settings.device = "cuda:0";
  model.gpu_memory = {cuda_memory()};
  model.gpu_memory[0].loaded = mebibytes(100);
  model.gpu_memory[0].run_peak = mebibytes(600);
  BenchResult result = finished_run({model});
  const Finding finding = only("convolution-search", findings_of(result));
  EXPECT_EQ(finding.confidence, Confidence::possible);
  EXPECT_EQ(finding.cures.at(0).settings->settings, "convolutions=heuristic");
  result.models[0].settings.conv_search = ConvSearch::heuristic;
  EXPECT_THAT(ids(result), IsEmpty());
}

TEST(RunFindings, OutOfMemoryNamesThePhase) {
  ModelResult model = model_named("a");
  model.status = ModelStatus::oom;
  model.died_in = Phase::runtime_loaded;
  model.error = "the kernel killed it";
  BenchResult result = finished_run({model});
  const Finding finding = only("model-out-of-memory", findings_of(result));
  EXPECT_EQ(finding.severity, Severity::severe);
  EXPECT_EQ(finding.title, "a ran out of memory while loading the model");
  EXPECT_EQ(finding.evidence[0].text, "the kernel killed it");
  EXPECT_THAT(finding.cause, HasSubstr("the weights and their re-packed copies"));
  result.limit.emplace().bytes = mebibytes(12);
  result.models[0].died_in = Phase::model_loaded;
  const Finding limited = findings_of(result).at(0);
  EXPECT_EQ(limited.title, "a ran out of memory while warming up, under a limit of 12.0 MiB");
  EXPECT_EQ(limited.figures.at(0).name, "limit_bytes");
  EXPECT_THAT(limited.cures, testing::Contains(testing::Field(&Cure::what, HasSubstr("--imgsz 320"))));
}

TEST(RunFindings, LeakNamesItsLevel) {
  for (const std::string level : {"object", "video"}) {
    ModelResult model = model_named("a");
    for (int i = 0; i < 12; ++i) model.cleanups.push_back({level, std::to_string(i), mebibytes(100 + 5 * i)});
    BenchResult result = finished_run({model});
    const Finding finding = only("leak", findings_of(result));
    EXPECT_THAT(finding.title, HasSubstr("leaks 5.0 MiB with each " + level));
    // The first ones only fill the arena.
    for (std::size_t i = 4; i < model.cleanups.size(); ++i) model.cleanups[i].resident = mebibytes(120);
    result.models = {model};
    EXPECT_THAT(ids(result), IsEmpty());
  }
}

// Resident MiB of a run.
struct Phases {
  const char* name;
  std::int64_t runtime, load_peak, run_peak, frames, files, residual;
};

ModelResult model_of(const Phases& phases) {
  ModelResult model = onnx_model();
  model.memory.runtime = mebibytes(phases.runtime);
  model.memory.load_peak = mebibytes(phases.load_peak);
  model.memory.run_peak = mebibytes(phases.run_peak);
  model.memory.frames = mebibytes(phases.frames);
  model.memory.file_backed_peak = mebibytes(phases.files);
  model.memory.residual = mebibytes(phases.residual);
  return model;
}

bool leaves_memory(const ModelResult& model) {
  BenchResult result = finished_run({model});
  for (const Finding& finding : findings_of(result))
    if (finding.id == "model-leaves-memory") return true;
  return false;
}

TEST(RunFindings, MemoryThatRuntimesKeepIsNotAFinding) {
  for (const Phases& healthy : {Phases{"face", 23, 43, 50, 0, 28, 39},
                                {"text recogniser", 23, 65, 75, 0, 28, 56},
                                {"text detector", 23, 59, 177, 6, 28, 46},
                                {"yolox 1280", 23, 85, 183, 6, 28, 60},
                                {"line segments", 23, 57, 394, 6, 28, 54},
                                {"160 MiB of weights, no arena", 23, 395, 380, 0, 27, 88},
                                {"the same, mapped", 23, 115, 195, 0, 186, 35},
                                {"yolox by LibTorch", 154, 185, 250, 6, 112, 186},
                                {"under AddressSanitizer", 198, 300, 268, 0, 130, 268}})
    EXPECT_FALSE(leaves_memory(model_of(healthy))) << healthy.name;
  // On a GPU, code and tables of the libraries stay: resnet50.
  ModelResult on_gpu = model_of({"resnet50", 143, 445, 811, 0, 300, 809});
  on_gpu.settings.device = "cuda:0";
  on_gpu.gpu_memory.emplace_back();
  EXPECT_FALSE(leaves_memory(on_gpu));
  // Mapped weights of a cache may stay: the kernel can reclaim pages of a file.
  EXPECT_FALSE(leaves_memory(model_of({"mapped", 23, 300, 300, 0, 280, 290})));
  ModelResult killed = model_of({"killed", 23, 300, 300, 0, 28, 290});
  EXPECT_TRUE(leaves_memory(killed));
  killed.status = ModelStatus::crashed;
  EXPECT_FALSE(leaves_memory(killed));
}

TEST(RunFindings, ReportsModelThatStaysAfterRelease) {
  BenchResult result = finished_run({model_named("other"), model_of({"", 23, 223, 230, 7, 28, 183})});
  result.models[0].memory = model_of({"", 23, 43, 50, 0, 28, 39}).memory;
  result.models[1].path = "a b.onnx";
  auto findings = findings_of(result);
  EXPECT_EQ(only("model-leaves-memory", findings).confidence, Confidence::possible);
  EXPECT_EQ(findings[0].title, "a used 200.0 MiB and left 160.0 MiB in memory after its release");
  ASSERT_EQ(findings[0].cures.size(), 3U);
  EXPECT_EQ(findings[0].cures[0].command, "headroom bench --model 'a=a b.onnx,isolated=on' --pool 512MiB");
  EXPECT_EQ(findings[0].cures[0].saves, mebibytes(160));
  EXPECT_EQ(findings[0].cures[1].command,
            "MALLOC_MMAP_THRESHOLD_=131072 headroom bench --model 'a=a b.onnx'");
  EXPECT_EQ(findings[0].cures[2].command, "headroom trace -- headroom bench --model 'a=a b.onnx'");
  // The command has the settings of the run, but not its limit.
  result.options.emplace();
  result.options->memory_limit = mebibytes(250);
  result.options->max_frames = 20;
  set_settings(result.models[1].settings, "threads=1");
  findings = findings_of(result);
  EXPECT_EQ(
      findings.at(0).cures[0].command,
      "headroom bench --model 'a=a b.onnx,backend=onnxruntime,threads=1,isolated=on' --max-frames 20 --pool "
      "512MiB");
  // An old report without the amount of file pages.
  result.models[1].memory.file_backed_peak.reset();
  EXPECT_TRUE(leaves_memory(result.models[1]));
}

TEST(RunFindings, ReportsFailedModelOrIncompleteRun) {
  for (const auto& [status, what] : {std::pair{ModelStatus::failed, "failed"},
                                     {ModelStatus::crashed, "crashed"},
                                     {ModelStatus::timeout, "timed out"}}) {
    BenchResult result = finished_run({model_named("a")});
    result.models[0].status = status;
    result.models[0].died_in = Phase::runtime_loaded;
    result.models[0].error = "no such operator";
    const Finding finding = only("model-failed", findings_of(result));
    EXPECT_EQ(finding.title, std::string("a ") + what + " while loading the model");
    EXPECT_EQ(finding.evidence.at(0).text, "no such operator");
    result.complete = false;
    const Finding incomplete = only("run-incomplete", findings_of(result));
    EXPECT_EQ(incomplete.severity, Severity::warning);
    EXPECT_EQ(incomplete.evidence.at(0).text, "a: no such operator");
  }
}

// `headroom bench` exits with 1 then, and so must the doctor of its run.
TEST(RunFindings, ReportsAFailedPoolOrPipeline) {
  BenchResult result = finished_run({model_named("a"), model_named("b")});
  result.pool.emplace().status = ModelStatus::ok;
  result.pipeline.emplace().status = ModelStatus::ok;
  EXPECT_THAT(findings_of(result), IsEmpty());
  result.pool->status = ModelStatus::failed;
  result.pool->error = "3 of 12 requests for a failed";
  const Finding pool = only("model-failed", findings_of(result));
  EXPECT_EQ(pool.title, "The pool failed");
  EXPECT_EQ(pool.severity, Severity::severe);
  EXPECT_EQ(pool.evidence.at(0).text, "3 of 12 requests for a failed");
  result.pool->status = ModelStatus::ok;
  result.pipeline->status = ModelStatus::crashed;
  EXPECT_EQ(only("model-failed", findings_of(result)).title, "The pipeline crashed");
  result.pipeline.reset();
  result.parallel.emplace().together = result.models;
  result.parallel->together[1].status = ModelStatus::timeout;
  EXPECT_EQ(only("model-failed", findings_of(result)).title, "b, together with the others, timed out");
}

TEST(RunFindings, ReportsModelsThatFitOnlyAlone) {
  BenchResult result = finished_run({model_named("a"), model_named("b")});
  result.limit.emplace().bytes = mebibytes(300);
  result.limit->type = LimitType::hard;
  result.options.emplace().memory_limit = mebibytes(300);
  ParallelResult& parallel = result.parallel.emplace();
  parallel.together = result.models;
  parallel.within_limit = true;
  EXPECT_THAT(findings_of(result), IsEmpty());

  parallel.together[1].status = ModelStatus::oom;
  parallel.together[1].error = "killed";
  parallel.within_limit = false;
  parallel.sum_of_peaks = mebibytes(400);
  const Finding finding = only("models-do-not-fit-together", doctor::run_findings(result, "r"));
  EXPECT_EQ(finding.severity, Severity::severe);
  EXPECT_EQ(finding.title, "b ran out of memory when all models ran together, but not alone");
  EXPECT_EQ(finding.evidence.at(0).text, "b: killed");
  EXPECT_EQ(finding.cures.at(0).command,
            "headroom bench --model a=a.onnx --model b=b.onnx --pool 300MiB --mem-limit 300MiB");
  EXPECT_EQ(finding.cures.at(2).command,
            "headroom bench --model a=a.onnx --model b=b.onnx --parallel --mem-limit 400MiB");

  parallel.together[1].status = ModelStatus::ok;
  EXPECT_EQ(findings_of(result).at(0).title, "All models together used more memory than the limit");
  // The model already fails alone, so its failure in the joint run is not reported.
  result.models[1].status = parallel.together[1].status = ModelStatus::oom;
  EXPECT_EQ(findings_of(result).size(), 1U);
  EXPECT_EQ(findings_of(result)[0].id, "model-out-of-memory");

  result.models[1].status = ModelStatus::ok;
  result.parallel.reset();
  result.pipeline.emplace().status = ModelStatus::oom;
  result.pipeline->error = "the kernel killed it";
  EXPECT_EQ(findings_of(result).at(0).title, "The pipeline ran out of memory");
  result.pipeline->status = ModelStatus::ok;
  result.pipeline->memory.within_limit = false;
  EXPECT_EQ(findings_of(result).at(0).title, "The pipeline used more memory than the limit");
  result.pipeline.reset();
  result.pool.emplace().status = ModelStatus::oom;
  const auto of_pool = findings_of(result);
  EXPECT_EQ(of_pool.at(0).title, "The pool ran out of memory");
  for (const Cure& cure : of_pool[0].cures) EXPECT_THAT(cure.command, testing::Not(HasSubstr("--pool")));
}

TEST(RunFindings, ReportsCopiesLeftByLoading) {
  ModelResult model = onnx_model();
  model.file_size = mebibytes(64);
  model.memory.runtime = mebibytes(24);
  model.memory.loaded = mebibytes(244);
  model.memory.load_peak = model.memory.run_peak = mebibytes(244);
  BenchResult result = finished_run({model});
  const Finding finding = only("loading-leaves-copies", findings_of(result));
  EXPECT_EQ(finding.title, "a holds 220.0 MiB after loading, 3.4 times its file size of 64.0 MiB");
  EXPECT_EQ(finding.cures.at(0).settings->settings, "mapped=on,prepack=off");
  EXPECT_EQ(finding.cures[0].saves, mebibytes(156));
  const auto has_none = [&](std::int64_t loaded, std::int64_t file, bool mapped) {
    result.models[0].memory.loaded = mebibytes(24 + loaded);
    result.models[0].file_size = mebibytes(file);
    result.models[0].settings.mapped = mapped;
    return findings_of(result).empty();
  };
  EXPECT_TRUE(has_none(150, 64, false)) << "the weights once as in the file, and once re-packed";
  EXPECT_TRUE(has_none(42, 4, false)) << "the runtime's own memory: yolox_nano at 1280 x 1280";
  EXPECT_TRUE(has_none(220, 64, true));
}

}  // namespace
}  // namespace headroom::test
