// Tests the TensorRT plug-in with a fake libnvinfer and a fake driver: the calls that it makes, their
// order, and its reaction to refusals. These tests do not show how a real TensorRT reacts
// (docs/tensorrt.md).
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/text.h"
#include "inference/backend.h"
#include "inference/tensorrt/engine_builder.h"
#include "inference/tensorrt/engine_file.h"
#include "scoped_environment.h"
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
using test::read_text;
using test::ScopedEnvironment;
using test::TemporaryFolder;
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
  static inference::Backend start() {
    auto backend = inference::Backend::open({"tensorrt", plugin()});
    EXPECT_TRUE(backend) << backend.error().sentence();
    const auto started = backend->start();
    EXPECT_TRUE(started) << started.error().sentence();
    return std::move(*backend);
  }
  static RuntimeSettings on_gpu() {
    RuntimeSettings settings;
    settings.device = "cuda:0";
    return settings;
  }
  // Loads an engine and binds its first input, float32[1,4].
  Result<inference::Session> load(inference::Backend& backend, const fs::path& path,
                                  RuntimeSettings settings = on_gpu()) {
    auto session = backend.load(path, settings);
    if (!session) return session;
    if (auto bound = session->bind_input(0, values_, sizeof values_, ElementType::float32, {1, 4}); !bound)
      return forward_error(bound);
    return session;
  }
  Result<EngineOutcome> build(const std::string& model, EngineRequest order = {}) {
    order.model = folder_.path() / "m.onnx";
    if (!model.empty()) write_text(order.model, model);
    if (order.engine.empty()) order.engine = engine_path(order.model);
    return build_engine_with(plugin(), order, [&](const std::string& text) { progress_.push_back(text); });
  }

  TemporaryFolder folder_;
  fs::path log_ = folder_.path() / "calls";
  ScopedEnvironment libraries_{"HEADROOM_TENSORRT", test::built_path("tests/fake_tensorrt")};
  ScopedEnvironment log_variable_{"FAKE_TENSORRT_LOG", log_.string()};
  void* driver_ = nullptr;
  std::vector<std::string> progress_;
  float values_[4] = {1, 2, 3, 4};
};

constexpr const char* kSmall = "input x 1 4\noutput y 1 2\nscratch 1048576\nweights 2097152\n";

TEST_F(TensorRtPlugin, RunMakesTheExpectedCallsInOrder) {
  const std::uint64_t before = in_use();
  {
    auto backend = start();
    EXPECT_EQ(backend.version().substr(0, 3), std::to_string(HEADROOM_TENSORRT_MAJOR) + ".");
    const auto facts = test::value_of(backend.prepare_device("cuda:0"));
    EXPECT_EQ(facts.name, "Fake GPU 0");
    auto session = test::value_of(load(backend, engine("a", kSmall)));
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
  RuntimeSettings settings = on_gpu();
  settings.device_graph = true;
  auto session = test::value_of(load(backend, engine("a", kSmall), settings));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(session.run());
  const auto seen = calls();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "enqueueV3"), 2)
      << "one run without a graph, one in the capture";
}

TEST_F(TensorRtPlugin, EnginesShareScratchOfLargestSize) {
  auto backend = start();
  const std::uint64_t before = in_use();
  auto small = load(backend, engine("small", "input x 1 4\noutput y 1 2\nscratch 4194304\n"));
  ASSERT_TRUE(small);
  auto large = load(backend, engine("large", "input x 1 4\noutput y 1 2\nscratch 16777216\n"));
  ASSERT_TRUE(large);
  const std::uint64_t tensors = 4 * 4 * 2;
  EXPECT_LE(in_use() - before, 16 * kPluginMiB + 2 * tensors) << "not 20 MiB";
  calls();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(small->run());
    ASSERT_TRUE(large->run());
  }
  const auto seen = calls();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), kScratchCall + " 16777216"), 1)
      << "the small engine gets the new address once";
}

TEST_F(TensorRtPlugin, RecapturesGraphWhenScratchMoves) {
  auto backend = start();
  RuntimeSettings settings = on_gpu();
  settings.device_graph = true;
  auto small = load(backend, engine("small", kSmall), settings);
  ASSERT_TRUE(small);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(small->run());
  auto large = load(backend, engine("large", "input x 1 4\noutput y 1 2\nscratch 16777216\n"));
  ASSERT_TRUE(large);
  calls();
  ASSERT_TRUE(small->run());
  EXPECT_THAT(calls(), ElementsAre(kScratchCall + " 16777216", "enqueueV3"));
}

TEST_F(TensorRtPlugin, DynamicOutputHasActualSize) {
  auto backend = start();
  auto session = test::value_of(load(backend, engine("nms", "input x 1 4\noutput boxes -1 6\n")));
  ASSERT_TRUE(session.run());
  EXPECT_THAT(calls(), Contains("setOutputAllocator boxes"));
  std::vector<TensorView> views;
  ASSERT_TRUE(session.outputs(views));
  EXPECT_EQ(views[0].dim(0), 1);
  EXPECT_EQ(views[0].dim(1), 6);
  RuntimeSettings settings = on_gpu();
  settings.device_graph = true;
  auto captured = load(backend, engine("nms", "input x 1 4\noutput boxes -1 6\n"), settings);
  ASSERT_TRUE(captured);
  EXPECT_THAT(captured->run().error().sentence(), HasSubstr("omit --capture-graph"));
}

TEST_F(TensorRtPlugin, ReportsRefusedMemoryWithFigures) {
  auto backend = start();
  const std::uint64_t before = in_use();
  for (const char* lines : {"input x 1 4\noutput y 1 2\nweights 100000000000\n",
                            "input x 1 4\noutput y 1 2\nscratch 100000000000\n"}) {
    const auto session = backend.load(engine("big", lines), on_gpu());
    ASSERT_FALSE(session);
    EXPECT_TRUE(inference::is_out_of_memory(session.error())) << session.error().sentence();
    EXPECT_THAT(session.error().sentence(),
                HasSubstr("it requested 93.13 GiB of device memory while it held 0 B"));
  }
  EXPECT_EQ(in_use(), before);
}

TEST_F(TensorRtPlugin, SupportsOnlyTensorRtsOwnPlugins) {
  auto backend = start();
  EXPECT_TRUE(backend.load(engine("nms", std::string(kSmall) + "plugin EfficientNMS_TRT\n"), on_gpu()));
  const auto other = backend.load(engine("other", std::string(kSmall) + "plugin Mine\n"), on_gpu());
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().sentence(), AllOf(HasSubstr("a plug-in that TensorRT does not include"),
                                              HasSubstr("Cannot find plugin: Mine")));
}

TEST_F(TensorRtPlugin, DeviceFaultIsNotOutOfMemory) {
  auto backend = start();
  const auto fail = reinterpret_cast<void (*)(int)>(::dlsym(driver_, "fake_cuda_fails"));
  ASSERT_NE(fail, nullptr);
  fail(700);
  const auto session = backend.load(engine("a", kSmall), on_gpu());
  const auto built = build("input x 1 4\noutput y 1 2\ntrial 1048576\n");
  fail(0);
  for (const Error& error : {session ? Error{} : session.error(), built ? Error{} : built.error()}) {
    EXPECT_FALSE(inference::is_out_of_memory(error));
    EXPECT_THAT(error.sentence(),
                AllOf(HasSubstr("failed: CUDA_ERROR_OTHER"), HasSubstr("not a lack of memory")));
  }
}

TEST_F(TensorRtPlugin, RejectsUnsupportedSettingsWithReason) {
  auto backend = start();
  const auto why = [&](const std::string& lines, RuntimeSettings settings) {
    const auto session = load(backend, engine("a", lines), settings);
    return session ? std::string("it was loaded") : session.error().sentence();
  };
  RuntimeSettings settings;
  EXPECT_THAT(why(kSmall, settings),
              HasSubstr("TensorRT runs on GPUs only, not on cpu; use --device cuda:N"));
  settings = on_gpu();
  settings.conv_search = ConvSearch::heuristic;
  EXPECT_THAT(why(kSmall, settings), HasSubstr("chose the algorithms"));
  settings = on_gpu();
  settings.arena_extend = ArenaExtend::same_as_requested;
  EXPECT_THAT(why(kSmall, settings), HasSubstr("has no arena"));
  for (const auto& set : std::initializer_list<void (*)(RuntimeSettings&)>{
           [](RuntimeSettings& s) { s.memory_pattern = false; },
           [](RuntimeSettings& s) { s.prepacking = false; }, [](RuntimeSettings& s) { s.spinning = false; },
           [](RuntimeSettings& s) { s.graph_level = 1; }}) {
    settings = on_gpu();
    set(settings);
    EXPECT_THAT(why(kSmall, settings), HasSubstr("are settings of ONNX Runtime; omit pattern"));
  }
  EXPECT_THAT(why("input x 1 8\noutput y 1 2\n", on_gpu()),
              HasSubstr("input x of this engine accepts [1,8] to [1,8]"));
  write_text(folder_.path() / "b.engine", "garbage");
  EXPECT_THAT(backend.load(folder_.path() / "b.engine", on_gpu()).error().sentence(),
              AllOf(HasSubstr("rejects this engine"), HasSubstr("the magic tag does not match")));
}

TEST_F(TensorRtPlugin, ReportsMissingTensorRtInOneSentence) {
  const TemporaryFolder empty;
  const ScopedEnvironment nowhere("HEADROOM_TENSORRT", empty.path().string());
  auto backend = inference::Backend::open({"tensorrt", plugin()});
  ASSERT_TRUE(backend) << "the plug-in itself loads without TensorRT: " << backend.error().sentence();
  const auto started = backend->start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().kind, ErrorKind::input);
  EXPECT_THAT(started.error().sentence(),
              AllOf(HasSubstr("libnvinfer.so."), HasSubstr("was not found"), HasSubstr("HEADROOM_TENSORRT")));
}

TEST_F(TensorRtPlugin, RejectsOtherMajorVersion) {
  const ScopedEnvironment version("FAKE_TENSORRT_VERSION", "120001");
  auto backend = inference::Backend::open({"tensorrt", plugin()});
  ASSERT_TRUE(backend);
  EXPECT_THAT(backend->start().error().sentence(), HasSubstr("but found 12.0.1"));
}

// --- building

TEST_F(TensorRtPlugin, BuildsAnEngineWithItsRecord) {
  EngineRequest order;
  order.workspace = mebibytes(64);
  order.image_size = 320;
  order.creator = "1.2.3";
  const auto built = test::value_of(build("input x -1 3 -1 -1\noutput y 1 2\ntrial 1048576\n", order));
  EXPECT_FALSE(built.already_built);
  EXPECT_EQ(built.device_peak, mebibytes(1));
  EXPECT_EQ(built.note, "");
  EXPECT_THAT(calls(), ElementsAre("createInferBuilder of the headers", "createNetworkV2 0",
                                   "setDimensions x 0 1x3x320x320", "setDimensions x 1 1x3x320x320",
                                   "setDimensions x 2 1x3x320x320", "addOptimizationProfile",
                                   "setProfilingVerbosity 0", "setMemoryPoolLimit 0 67108864",
                                   "setMemoryPoolLimit 4 67108864", "buildSerializedNetwork"));
  EXPECT_THAT(progress_, Contains("Timing tactics"));
  EXPECT_THAT(read_text(folder_.path() / "m.engine"), HasSubstr("ftrt"));
  const auto record = read_record(folder_.path() / "m.engine");
  ASSERT_TRUE(record && *record);
  EXPECT_EQ((*record)->machine.gpu, "Fake GPU 0");
  EXPECT_EQ((*record)->machine.compute_capability, "1.1");
  EXPECT_EQ((*record)->machine.cuda_version, "13.0");
  EXPECT_EQ((*record)->settings, (EngineSettings{"fp32", 320, mebibytes(64)}));
  EXPECT_THAT((*record)->inputs, ElementsAre("x float32[1,3,320,320]"));
  EXPECT_EQ((*record)->model_path, (folder_.path() / "m.onnx").string());

  order.engine.clear();
  const auto again = test::value_of(build("", order));
  EXPECT_TRUE(again.already_built);
  EXPECT_THAT(calls(), Not(Contains("buildSerializedNetwork")));
}

TEST_F(TensorRtPlugin, ReplacesOtherEngineOnlyIfForced) {
  const std::string model = "input x 1 4\noutput y 1 2\n";
  const auto why = [&](const EngineRequest& order, const std::string& text = "") {
    const auto built = build(text, order);
    return built ? std::string("it was built") : built.error().sentence();
  };
  ASSERT_TRUE(build(model));
  EngineRequest smaller;
  smaller.image_size = 320;
  EXPECT_THAT(why(smaller),
              HasSubstr("it was built with other settings (fp32, image size 640, workspace unlimited)"));
  EXPECT_THAT(why({}, model + "weights 1\n"), HasSubstr("m.onnx has changed since the engine was built"));
  write_text(folder_.path() / "m.onnx", model);
  {
    const ScopedEnvironment version("FAKE_TENSORRT_VERSION",
                                    std::to_string(HEADROOM_TENSORRT_MAJOR) + "9907");
    EXPECT_THAT(why({}), AllOf(HasSubstr("it was built by TensorRT"), HasSubstr(".99.7; add --force")));
    EngineRequest forced;
    forced.force = true;
    EXPECT_TRUE(build("", forced));
  }
  EXPECT_THAT(why({}), HasSubstr(".99.7, but this machine has")) << "the engine is now the other version's";
  fs::remove(folder_.path() / "m.engine.json");
  EXPECT_THAT(why({}), HasSubstr("Headroom did not build it"));
}

TEST_F(TensorRtPlugin, RejectsIncompatibleOrStaleEngine) {
  const std::string model = "input x 1 4\noutput y 1 2\n";
  EngineRequest order;
  order.image_size = 320;
  order.workspace = mebibytes(64);
  ASSERT_TRUE(build(model, order));
  const fs::path built = folder_.path() / "m.engine";
  auto backend = start();
  EXPECT_TRUE(backend.load(built, on_gpu()));
  EXPECT_TRUE(backend.load(folder_.path() / "m.onnx", on_gpu())) << "by the engine next to it";
  write_text(folder_.path() / "m.onnx", model + "weights 1\n");
  for (const char* name : {"m.engine", "m.onnx"})
    EXPECT_THAT(
        backend.load(folder_.path() / name, on_gpu()).error().sentence(),
        AllOf(HasSubstr("m.onnx has changed since the engine was built"), HasSubstr("headroom build-engine"),
              HasSubstr("m.onnx --imgsz 320 --workspace 64MiB --out"), HasSubstr("--force")));
  auto record = read_record(built);
  ASSERT_TRUE(record && *record);
  (*record)->machine.gpu = "Orin";
  ASSERT_TRUE(write_record(built, **record));
  EXPECT_THAT(backend.load(built, on_gpu()).error().sentence(),
              HasSubstr("it was built for Orin, but this machine has Fake GPU 0"));
  write_text(folder_.path() / "other.onnx", model);
  EXPECT_THAT(backend.load(folder_.path() / "other.onnx", on_gpu()).error().sentence(),
              HasSubstr("none was built from this model"));
}

TEST_F(TensorRtPlugin, PrecisionDependsOnVersion) {
  const std::string model = "input x 1 4\noutput y 1 2\n";
  EngineRequest order;
  order.precision = Precision::fp16;
  const auto half = build(model, order);
  if (HEADROOM_TENSORRT_MAJOR < 11) {
    ASSERT_TRUE(half) << half.error().sentence();
    EXPECT_THAT(calls(), Contains("setFlag 0"));
  } else {
    ASSERT_FALSE(half);
    EXPECT_THAT(half.error().sentence(),
                HasSubstr("--fp16 is not available: TensorRT 11 builds a model in the types of its file"));
  }
  order.precision = Precision::int8;
  order.engine = folder_.path() / "int8.engine";
  EXPECT_THAT(build(model, order).error().sentence(),
              HasSubstr("--int8 is not available: the model has no QuantizeLinear"));
  calls();
  EXPECT_TRUE(build(model + "quantized\n", order));
  EXPECT_EQ(testing::Value(calls(), Contains("setFlag 1")), HEADROOM_TENSORRT_MAJOR < 11);
}

TEST_F(TensorRtPlugin, ReportsParserAndBuilderErrors) {
  EXPECT_THAT(build("input x 1 4\nbad No importer registered for op: Odd\n").error().sentence(),
              AllOf(HasSubstr("cannot read the model: No importer registered for op: Odd (node 7)")));
  EXPECT_THAT(build("input ids 1 -1\noutput y 1 2\n").error().sentence(),
              HasSubstr("input ids has a dynamic shape"));
  const auto hungry = build("input x 1 4\noutput y 1 2\ntrial 100000000000\n");
  ASSERT_FALSE(hungry);
  EXPECT_TRUE(inference::is_out_of_memory(hungry.error())) << hungry.error().sentence();
  EXPECT_THAT(hungry.error().sentence(),
              AllOf(HasSubstr("Could not find any implementation for node Conv_1"),
                    HasSubstr("it requested 93.13 GiB"), HasSubstr("a smaller --workspace")));
  EXPECT_FALSE(fs::exists(folder_.path() / "m.engine"));
}

#endif

}  // namespace
}  // namespace headroom::tensorrt
