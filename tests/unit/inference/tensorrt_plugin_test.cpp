// Tests the TensorRT plug-in with a fake libnvinfer and a fake driver: the calls that it makes, their
// order, and its reaction to refusals. These tests do not show how a real TensorRT reacts
// (docs/tensorrt.md).
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>

#include "inference/backend.h"
#include "inference/tensorrt/engine_builder.h"
#include "inference/tensorrt/engine_file.h"
#include "support/scoped_environment.h"
#include "support/test_support.h"
#include "unit/inference/results.h"

namespace headroom::tensorrt {
namespace {

#ifndef HEADROOM_FAKE_TENSORRT_BUILT
TEST(TensorRtPlugin, RunsAgainstFakeLibrary) {
  GTEST_SKIP() << "NvInfer.h was not found when this was built (-DTENSORRT_INCLUDE_DIR=…)";
}
#else

namespace fs = std::filesystem;
using test::error_of;
using test::read_text;
using test::ScopedEnvironment;
using test::TemporaryFolder;
using test::value_of;
using test::write_text;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kPluginMiB = 1 << 20;
const std::string kScratchCall = "setDeviceMemoryV2";

fs::path plugin() { return fs::path(test::built_path("bin/libheadroom_backend_tensorrt.so")); }

class TensorRtPlugin : public testing::Test {
 protected:
  void SetUp() override {
    // Load the driver once by its full path; the plug-in then finds it by its name.
    driver_ = ::dlopen(test::built_path("tests/fake_cuda/libcuda.so.1").c_str(), RTLD_NOW | RTLD_GLOBAL);
    ASSERT_NE(driver_, nullptr) << ::dlerror();
  }
  std::uint64_t in_use() const {
    return reinterpret_cast<std::uint64_t (*)(unsigned)>(::dlsym(driver_, "fake_cuda_in_use"))(0);
  }
  fs::path engine(const std::string& name, const std::string& lines) {
    const fs::path path = folder_.path() / (name + ".engine");
    write_text(path, "ftrt\n" + lines);
    return path;
  }
  // Returns the calls since the last calls().
  std::vector<std::string> calls() {
    std::vector<std::string> lines;
    std::ifstream file(log_);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    fs::remove(log_);
    return lines;
  }
  static inference::Backend open() { return value_of(inference::Backend::open({"tensorrt", plugin()})); }
  static inference::Backend start() {
    inference::Backend backend = open();
    value_of(backend.start());
    return backend;
  }
  static RuntimeSettings on_gpu(bool captures = false) {
    RuntimeSettings settings;
    settings.device = "cuda:0";
    settings.device_graph = captures;
    return settings;
  }
  // Loads an engine and binds its first input, float32[1,4].
  Result<inference::Session> load(inference::Backend& backend, const fs::path& path,
                                  RuntimeSettings settings = on_gpu()) {
    auto session = backend.load(path, settings);
    if (!session) return session;
    auto bound = session->bind_input(0, values_, sizeof values_, ElementType::float32, {1, 4});
    if (!bound) return forward_error(bound);
    return session;
  }
  Result<EngineOutcome> build(const std::string& model, EngineRequest order = {}) {
    order.model = folder_ / "m.onnx";
    if (!model.empty()) write_text(order.model, model);
    if (order.engine.empty()) order.engine = engine_path(order.model);
    return build_engine_with(plugin(), order, [&](const std::string& text) { progress_.push_back(text); });
  }

  TemporaryFolder folder_;
  fs::path log_ = folder_ / "calls";
  ScopedEnvironment libraries_{"HEADROOM_TENSORRT", test::built_path("tests/fake_tensorrt")};
  ScopedEnvironment log_variable_{"FAKE_TENSORRT_LOG", log_.string()};
  void* driver_ = nullptr;
  std::vector<std::string> progress_;
  float values_[4] = {1, 2, 3, 4};
};

const std::string kModel = "input x 1 4\noutput y 1 2\n";
const std::string kSmall = kModel + "scratch 1048576\nweights 2097152\n";

TEST_F(TensorRtPlugin, RunMakesTheExpectedCallsInOrder) {
  const std::uint64_t before = in_use();
  {
    auto backend = start();
    EXPECT_EQ(backend.version().substr(0, 3), std::to_string(HEADROOM_TENSORRT_MAJOR) + ".");
    const auto facts = value_of(backend.prepare_device("cuda:0"));
    EXPECT_EQ(facts.name, "Fake GPU 0");
    auto session = value_of(load(backend, engine("a", kSmall)));
    EXPECT_EQ(session.description().inputs[0].describe(), "float32[1,4]");
    EXPECT_EQ(session.description().outputs[0].name, "y");
    ASSERT_TRUE(session.run());
    ASSERT_TRUE(session.run());
    EXPECT_THAT(calls(),
                ElementsAre("createInferRuntime of the headers", "setGpuAllocator", "deserializeCudaEngine",
                            "createExecutionContext user managed", "setNvtxVerbosity 0",
                            kScratchCall + " 1048576", "setInputShape x 1x4", "setInputTensorAddress x",
                            "setTensorAddress y", "enqueueV3", "enqueueV3"));
    std::vector<TensorView> views;
    ASSERT_TRUE(session.outputs(views));
    EXPECT_EQ(views[0].count(), 2);
    EXPECT_NE(views[0].data, nullptr);
    EXPECT_TRUE(session.device_time());
    EXPECT_EQ(session.placement()->on_device, 3);
    const auto stats = session.memory_stats();
    EXPECT_EQ(stats.arena_in_use->count, static_cast<std::int64_t>(2 * kPluginMiB + 16 + 8))
        << "weights, input, output";
    EXPECT_GE(in_use(), before + 3 * kPluginMiB + 24);
  }
  EXPECT_THAT(calls(), ElementsAre("~context", "~engine", "~runtime"));
  EXPECT_EQ(in_use(), before) << "all memory is freed";
}

TEST_F(TensorRtPlugin, CapturedGraphNeedsOneEnqueue) {
  auto backend = start();
  auto session = value_of(load(backend, engine("a", kSmall), on_gpu(true)));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(session.run());
  const auto seen = calls();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "enqueueV3"), 2)
      << "one run without a graph, one in the capture";
}

TEST_F(TensorRtPlugin, EnginesShareScratchOfLargestSize) {
  auto backend = start();
  const std::uint64_t before = in_use();
  auto small = value_of(load(backend, engine("small", kModel + "scratch 4194304\n")));
  auto large = value_of(load(backend, engine("large", kModel + "scratch 16777216\n")));
  const std::uint64_t tensors = 4 * 4 * 2;
  EXPECT_LE(in_use() - before, 16 * kPluginMiB + 2 * tensors) << "not 20 MiB";
  calls();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(small.run());
    ASSERT_TRUE(large.run());
  }
  const auto seen = calls();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), kScratchCall + " 16777216"), 1)
      << "the small engine gets the new address once";
}

TEST_F(TensorRtPlugin, RecapturesGraphWhenScratchMoves) {
  auto backend = start();
  auto small = value_of(load(backend, engine("small", kSmall), on_gpu(true)));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(small.run());
  auto large = value_of(load(backend, engine("large", kModel + "scratch 16777216\n")));
  calls();
  ASSERT_TRUE(small.run());
  EXPECT_THAT(calls(), ElementsAre(kScratchCall + " 16777216", "enqueueV3"));
}

TEST_F(TensorRtPlugin, DynamicOutputHasActualSize) {
  auto backend = start();
  auto session = value_of(load(backend, engine("nms", "input x 1 4\noutput boxes -1 6\n")));
  ASSERT_TRUE(session.run());
  EXPECT_THAT(calls(), Contains("setOutputAllocator boxes"));
  std::vector<TensorView> views;
  ASSERT_TRUE(session.outputs(views));
  EXPECT_EQ(views[0].dim(0), 1);
  EXPECT_EQ(views[0].dim(1), 6);
  auto captured = value_of(load(backend, folder_ / "nms.engine", on_gpu(true)));
  EXPECT_THAT(error_of(captured.run()).sentence(), HasSubstr("omit --capture-graph"));
}

TEST_F(TensorRtPlugin, ReportsRefusedMemoryWithFigures) {
  auto backend = start();
  const std::uint64_t before = in_use();
  for (const char* memory : {"weights", "scratch"}) {
    const Error error = error_of(backend.load(engine("big", kModel + memory + " 100000000000\n"), on_gpu()));
    EXPECT_TRUE(inference::is_out_of_memory(error)) << error.sentence();
    EXPECT_THAT(error.sentence(), HasSubstr("it requested 93.13 GiB of device memory while it held 0 B"));
  }
  EXPECT_EQ(in_use(), before);
}

TEST_F(TensorRtPlugin, SupportsOnlyTensorRtsOwnPlugins) {
  auto backend = start();
  EXPECT_TRUE(backend.load(engine("nms", kSmall + "plugin EfficientNMS_TRT\n"), on_gpu()));
  const Error error = error_of(backend.load(engine("other", kSmall + "plugin Mine\n"), on_gpu()));
  EXPECT_THAT(error.sentence(), AllOf(HasSubstr("a plug-in that TensorRT does not include"),
                                      HasSubstr("Cannot find plugin: Mine")));
}

TEST_F(TensorRtPlugin, DeviceFaultIsNotOutOfMemory) {
  auto backend = start();
  const auto fail = reinterpret_cast<void (*)(int)>(::dlsym(driver_, "fake_cuda_fails"));
  ASSERT_NE(fail, nullptr);
  fail(700);
  const auto session = backend.load(engine("a", kSmall), on_gpu());
  const auto built = build(kModel + "trial 1048576\n");
  fail(0);
  for (const Error& error : {session ? Error{} : session.error(), built ? Error{} : built.error()}) {
    EXPECT_FALSE(inference::is_out_of_memory(error));
    EXPECT_THAT(error.sentence(),
                AllOf(HasSubstr("failed: CUDA_ERROR_OTHER"), HasSubstr("not a lack of memory")));
  }
}

TEST_F(TensorRtPlugin, RejectsUnsupportedSettingsWithReason) {
  auto backend = start();
  const std::vector<std::pair<void (*)(RuntimeSettings&), std::string> > wrong{
      {[](RuntimeSettings& s) { s.device = "cpu"; },
       "TensorRT runs on GPUs only, not on cpu; use --device cuda:N"},
      {[](RuntimeSettings& s) { s.conv_search = ConvSearch::heuristic; }, "chose the algorithms"},
      {[](RuntimeSettings& s) { s.arena_extend = ArenaExtend::same_as_requested; }, "has no arena"},
      {[](RuntimeSettings& s) { s.memory_pattern = false; }, "are settings of ONNX Runtime; omit pattern"},
      {[](RuntimeSettings& s) { s.prepacking = false; }, "are settings of ONNX Runtime; omit pattern"},
      {[](RuntimeSettings& s) { s.spinning = false; }, "are settings of ONNX Runtime; omit pattern"},
      {[](RuntimeSettings& s) { s.graph_level = 1; }, "are settings of ONNX Runtime; omit pattern"}};
  for (const auto& [set, reason] : wrong) {
    RuntimeSettings settings = on_gpu();
    set(settings);
    EXPECT_THAT(error_of(load(backend, engine("a", kSmall), settings)).sentence(), HasSubstr(reason));
  }
  EXPECT_THAT(error_of(load(backend, engine("wide", "input x 1 8\noutput y 1 2\n"))).sentence(),
              HasSubstr("input x of this engine accepts [1,8] to [1,8]"));
  write_text(folder_ / "b.engine", "garbage");
  EXPECT_THAT(error_of(backend.load(folder_ / "b.engine", on_gpu())).sentence(),
              AllOf(HasSubstr("rejects this engine"), HasSubstr("the magic tag does not match")));
}

TEST_F(TensorRtPlugin, RejectsMissingTensorRtAndOtherMajorVersion) {
  const TemporaryFolder empty;
  auto backend = open();  // the plug-in itself loads without TensorRT
  {
    const ScopedEnvironment nowhere("HEADROOM_TENSORRT", empty.path().string());
    const Error error = error_of(backend.start());
    EXPECT_EQ(error.kind, ErrorKind::input);
    EXPECT_THAT(error.sentence(), AllOf(HasSubstr("libnvinfer.so."), HasSubstr("was not found"),
                                        HasSubstr("HEADROOM_TENSORRT")));
  }
  const ScopedEnvironment version("FAKE_TENSORRT_VERSION", "120001");
  EXPECT_THAT(error_of(backend.start()).sentence(), HasSubstr("but found 12.0.1"));
}

// --- building

TEST_F(TensorRtPlugin, BuildsAnEngineWithItsRecord) {
  EngineRequest order;
  order.workspace = mebibytes(64);
  order.image_size = 320;
  order.creator = "1.2.3";
  const auto built = value_of(build("input x -1 3 -1 -1\noutput y 1 2\ntrial 1048576\n", order));
  EXPECT_FALSE(built.already_built);
  EXPECT_EQ(built.device_peak, mebibytes(1));
  EXPECT_EQ(built.note, "");
  EXPECT_THAT(calls(), ElementsAre("createInferBuilder of the headers", "createNetworkV2 0",
                                   "setDimensions x 0 1x3x320x320", "setDimensions x 1 1x3x320x320",
                                   "setDimensions x 2 1x3x320x320", "addOptimizationProfile",
                                   "setProfilingVerbosity 0", "setMemoryPoolLimit 0 67108864",
                                   "setMemoryPoolLimit 4 67108864", "buildSerializedNetwork"));
  EXPECT_THAT(progress_, Contains("Timing tactics"));
  EXPECT_THAT(read_text(folder_ / "m.engine"), HasSubstr("ftrt"));
  const EngineRecord record = value_of(read_record(folder_ / "m.engine")).value();
  EXPECT_EQ(record.machine.gpu, "Fake GPU 0");
  EXPECT_EQ(record.machine.compute_capability, "1.1");
  EXPECT_EQ(record.machine.cuda_version, "13.0");
  EXPECT_EQ(record.settings, (EngineSettings{"fp32", 320, mebibytes(64)}));
  EXPECT_THAT(record.inputs, ElementsAre("x float32[1,3,320,320]"));
  EXPECT_EQ(record.model_path, (folder_ / "m.onnx").string());

  order.engine.clear();
  const auto again = value_of(build("", order));
  EXPECT_TRUE(again.already_built);
  EXPECT_THAT(calls(), Not(Contains("buildSerializedNetwork")));
}

TEST_F(TensorRtPlugin, ReplacesOtherEngineOnlyIfForced) {
  const auto why = [&](const EngineRequest& order, const std::string& text = "") {
    return error_of(build(text, order)).sentence();
  };
  ASSERT_TRUE(build(kModel));
  EngineRequest smaller;
  smaller.image_size = 320;
  EXPECT_THAT(why(smaller),
              HasSubstr("it was built with other settings (fp32, image size 640, workspace unlimited)"));
  EXPECT_THAT(why({}, kModel + "weights 1\n"), HasSubstr("m.onnx has changed since the engine was built"));
  write_text(folder_ / "m.onnx", kModel);
  {
    const ScopedEnvironment version("FAKE_TENSORRT_VERSION",
                                    std::to_string(HEADROOM_TENSORRT_MAJOR) + "9907");
    EXPECT_THAT(why({}), AllOf(HasSubstr("it was built by TensorRT"), HasSubstr(".99.7; add --force")));
    EngineRequest forced;
    forced.force = true;
    EXPECT_TRUE(build("", forced));
  }
  EXPECT_THAT(why({}), HasSubstr(".99.7, but this machine has")) << "the engine is now the other version's";
  fs::remove(folder_ / "m.engine.json");
  EXPECT_THAT(why({}), HasSubstr("Headroom did not build it"));
}

TEST_F(TensorRtPlugin, RejectsIncompatibleOrStaleEngine) {
  EngineRequest order;
  order.image_size = 320;
  order.workspace = mebibytes(64);
  ASSERT_TRUE(build(kModel, order));
  const fs::path built = folder_ / "m.engine";
  auto backend = start();
  EXPECT_TRUE(backend.load(built, on_gpu()));
  EXPECT_TRUE(backend.load(folder_ / "m.onnx", on_gpu())) << "by the engine next to it";
  write_text(folder_ / "m.onnx", kModel + "weights 1\n");
  for (const char* name : {"m.engine", "m.onnx"})
    EXPECT_THAT(
        error_of(backend.load(folder_.path() / name, on_gpu())).sentence(),
        AllOf(HasSubstr("m.onnx has changed since the engine was built"), HasSubstr("headroom build-engine"),
              HasSubstr("m.onnx --imgsz 320 --workspace 64MiB --out"), HasSubstr("--force")));
  EngineRecord record = value_of(read_record(built)).value();
  record.machine.gpu = "Orin";
  ASSERT_TRUE(write_record(built, record));
  EXPECT_THAT(error_of(backend.load(built, on_gpu())).sentence(),
              HasSubstr("it was built for Orin, but this machine has Fake GPU 0"));
  write_text(folder_ / "other.onnx", kModel);
  EXPECT_THAT(error_of(backend.load(folder_ / "other.onnx", on_gpu())).sentence(),
              HasSubstr("none was built from this model"));
}

TEST_F(TensorRtPlugin, PrecisionDependsOnVersion) {
  EngineRequest order;
  order.precision = Precision::fp16;
  const auto half = build(kModel, order);
  if (HEADROOM_TENSORRT_MAJOR < 11) {
    ASSERT_TRUE(half) << half.error().sentence();
    EXPECT_THAT(calls(), Contains("setFlag 0"));
  } else {
    EXPECT_THAT(error_of(half).sentence(),
                HasSubstr("--fp16 is not available: TensorRT 11 builds a model in the types of its file"));
  }
  order.precision = Precision::int8;
  order.engine = folder_ / "int8.engine";
  EXPECT_THAT(error_of(build(kModel, order)).sentence(),
              HasSubstr("--int8 is not available: the model has no QuantizeLinear"));
  calls();
  EXPECT_TRUE(build(kModel + "quantized\n", order));
  EXPECT_EQ(testing::Value(calls(), Contains("setFlag 1")), HEADROOM_TENSORRT_MAJOR < 11);
}

TEST_F(TensorRtPlugin, ReportsParserAndBuilderErrors) {
  EXPECT_THAT(error_of(build("input x 1 4\nbad No importer registered for op: Odd\n")).sentence(),
              AllOf(HasSubstr("cannot read the model: No importer registered for op: Odd (node 7)")));
  EXPECT_THAT(error_of(build("input ids 1 -1\noutput y 1 2\n")).sentence(),
              HasSubstr("input ids has a dynamic shape"));
  const Error hungry = error_of(build(kModel + "trial 100000000000\n"));
  EXPECT_TRUE(inference::is_out_of_memory(hungry)) << hungry.sentence();
  EXPECT_THAT(hungry.sentence(),
              AllOf(HasSubstr("Could not find any implementation for node Conv_1"),
                    HasSubstr("it requested 93.13 GiB"), HasSubstr("a smaller --workspace")));
  EXPECT_THAT(hungry.sentence(), testing::Not(HasSubstr("computeCosts")));
  const std::string lacks =
      error_of(build(kModel + "lacks libnvinfer_builder_resource_sm90.so.10.15.1\n")).sentence();
  EXPECT_THAT(lacks,
              AllOf(HasSubstr("m.onnx: Unable to load library: libnvinfer_builder_resource_sm90.so.10.15.1"),
                    HasSubstr("; install the TensorRT package for this GPU: "
                              "libnvinfer_builder_resource_sm90.so.10.15.1 is not in /"),
                    testing::Not(HasSubstr("In Impl at"))));
  EXPECT_FALSE(fs::exists(folder_ / "m.engine"));
}

#endif

}  // namespace
}  // namespace headroom::tensorrt
