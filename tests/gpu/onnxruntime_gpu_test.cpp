// ONNX Runtime's CUDA provider behind the plug-in: its outputs match those of the CPU, for each run's input.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "unit/inference/onnxruntime_fixture.h"
#include "unit/inference/tiny_onnx.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using Values = std::vector<std::vector<float>>;  // of each output

class OnnxRuntimeGpu : public OnnxRuntime {
 protected:
  void SetUp() override {
    // By default the provider multiplies with a mantissa of 10 bits (TF32).
    ::setenv("NVIDIA_TF32_OVERRIDE", "0", 1);
    OnnxRuntime::SetUp();
    if (!backend_) return;
    if (model("mnist.onnx").empty()) GTEST_SKIP() << absent_message("the shared models");
    auto ready = backend_->prepare_device("cuda:0");
    if (!ready) GTEST_SKIP() << "skipped: " << ready.error().sentence();
    EXPECT_FALSE(ready->name.empty());
    EXPECT_THAT(ready->uuid, testing::StartsWith("GPU-"));
    // Loads a model first, so that a machine with a GPU but without the provider skips.
    auto session = backend_->load(model("mnist.onnx"), on_gpu());
    if (!session && session.error().kind == ErrorKind::input)
      GTEST_SKIP() << "skipped: " << session.error().sentence();
  }
  static fs::path model(const std::string& name) {
    return shared_data("models/" + name).value_or(fs::path());
  }
  static RuntimeSettings on_gpu() {
    RuntimeSettings settings;
    settings.device = "cuda:0";
    return settings;
  }
  static Values run(LoadedModel& model) {
    auto ran = model.session.run();
    EXPECT_TRUE(ran) << ran.error().sentence();
    std::vector<TensorView> views;
    if (auto got = model.session.outputs(views); !ran || !got) return {};
    Values values;
    for (const TensorView& view : views) {
      std::size_t count = view.type == ElementType::float32 && view.data != nullptr ? 1 : 0;
      for (std::size_t i = 0; i < view.rank; ++i) count *= static_cast<std::size_t>(view.dims[i]);
      const auto* data = static_cast<const float*>(view.data);
      values.emplace_back(data, data + count);
    }
    return values;
  }
  // With 32-bit floats only the order of additions differs.
  static void expect_alike(const Values& gpu, const Values& cpu, const std::string& what) {
    ASSERT_EQ(gpu.size(), cpu.size()) << what;
    for (std::size_t i = 0; i < cpu.size(); ++i) {
      ASSERT_EQ(gpu[i].size(), cpu[i].size()) << what << ", output " << i;
      double scale = 1e-3, largest = 0;
      for (std::size_t k = 0; k < cpu[i].size(); ++k) {
        scale = std::max(scale, std::fabs(double{cpu[i][k]}));
        largest = std::max(largest, std::fabs(double{gpu[i][k]} - double{cpu[i][k]}));
      }
      EXPECT_LT(largest / scale, 5e-3) << what << ", output " << i;
    }
  }
  static void scramble(LoadedModel& model) {
    for (auto& input : model.inputs)
      if (input.type == ElementType::float32) {
        auto* values = reinterpret_cast<float*>(input.data.data());
        const std::size_t count = input.data.size() / sizeof(float);
        std::reverse(values, values + count);
        for (std::size_t i = 0; i < count; ++i) values[i] *= 0.7F;
      }
  }
};

TEST_F(OnnxRuntimeGpu, MatchesTheCpuForEachInput) {
  for (const char* name : {"mnist.onnx", "yolox_nano_416x416.onnx", "yunet_n_dynamic.onnx", "silero_vad.onnx",
                           "ultraface_rfb_320.onnx", "FastestDet.onnx"}) {
    auto gpu = load(model(name), on_gpu());
    auto cpu = load(model(name), one_thread());
    ASSERT_TRUE(gpu) << name << ": " << gpu.error().sentence();
    ASSERT_TRUE(cpu) << name;
    const auto nodes = gpu->session.placement();
    ASSERT_TRUE(nodes) << name;
    EXPECT_GT(nodes->on_device, 0) << name;
    fmt::print("{}: {} nodes on the device, {} elsewhere ({})\n", name, nodes->on_device, nodes->on_cpu,
               nodes->on_cpu_kinds);
    for (int round = 0; round < 3; ++round) {
      expect_alike(run(*gpu), run(*cpu), std::string(name) + ", round " + std::to_string(round));
      const auto time = gpu->session.device_time();
      ASSERT_TRUE(time) << name;
      EXPECT_GT(time->count, 0) << name;
      scramble(*gpu);
      scramble(*cpu);
    }
    ASSERT_TRUE(gpu->session.trim()) << name;
    expect_alike(run(*gpu), run(*cpu), std::string(name) + " after trim");
  }
}

TEST_F(OnnxRuntimeGpu, ACapturedGraphReadsEachInput) {
  RuntimeSettings settings = on_gpu();
  settings.device_graph = true;
  auto gpu = load(model("yolox_nano_416x416.onnx"), settings);
  auto cpu = load(model("yolox_nano_416x416.onnx"), one_thread());
  ASSERT_TRUE(gpu) << gpu.error().sentence();
  ASSERT_TRUE(cpu);
  for (int round = 0; round < 5; ++round) {
    expect_alike(run(*gpu), run(*cpu), "round " + std::to_string(round));
    scramble(*gpu);
    scramble(*cpu);
  }
}

// y = -x stays on the GPU, where the second session reads it: c = a + y.
TEST_F(OnnxRuntimeGpu, ASessionReadsTheOutputOfAnother) {
  const OnnxValue a{"a", OnnxType::float32, {"n", "3"}}, x{"x", OnnxType::float32, {"n", "3"}},
      y{"y", OnnxType::float32, {"n", "3"}}, c{"c", OnnxType::float32, {"n", "3"}};
  TemporaryFolder folder;
  write_text(folder / "negative.onnx", onnx_model({"Neg", {x}, {y}}));
  write_text(folder / "sum.onnx", onnx_model({"Add", {a, y}, {c}}));
  auto first = value_of(backend_->load(folder / "negative.onnx", on_gpu()));
  auto second = value_of(backend_->load(folder / "sum.onnx", on_gpu()));
  for (const std::int64_t rows : {1, 2, 1}) {
    std::vector<float> xs(static_cast<std::size_t>(3 * rows), 2), as(xs.size(), 10);
    const std::vector<std::int64_t> dims{rows, 3};
    value_of(first.bind_input(0, xs.data(), xs.size() * sizeof(float), ElementType::float32, dims));
    value_of(second.bind_input(0, as.data(), as.size() * sizeof(float), ElementType::float32, dims));
    value_of(first.run());
    value_of(second.link_input(1, first, 0));
    for (const float value : {2.0F, 7.0F}) {
      xs[0] = value;
      value_of(first.run());
      value_of(second.run());
      std::vector<TensorView> views;
      value_of(first.outputs(views));
      EXPECT_EQ(views[0].data, nullptr);
      value_of(second.outputs(views));
      EXPECT_EQ(views[0].as_float()[0], 10 - value);
      EXPECT_EQ(views[0].as_float()[2], 8);
    }
  }
}

TEST_F(OnnxRuntimeGpu, AcceptsDeviceSettings) {
  for (const ConvSearch search : {ConvSearch::exhaustive, ConvSearch::heuristic, ConvSearch::standard})
    for (const bool small : {false, true}) {
      RuntimeSettings settings = on_gpu();
      settings.conv_search = search;
      settings.conv_small_workspace = small;
      settings.arena_extend = small ? ArenaExtend::same_as_requested : ArenaExtend::next_power_of_two;
      auto gpu = load(model("mnist.onnx"), settings);
      ASSERT_TRUE(gpu) << gpu.error().sentence();
      EXPECT_FALSE(run(*gpu).empty());
    }
  RuntimeSettings settings = on_gpu();
  settings.arena = false;
  const auto refused = load(model("mnist.onnx"), settings);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().sentence(), testing::HasSubstr("cannot disable the arena of a GPU"));
}

TEST_F(OnnxRuntimeGpu, NamesAMissingDevice) {
  auto ready = backend_->prepare_device("cuda:63");
  ASSERT_FALSE(ready);
  EXPECT_THAT(ready.error().sentence(), testing::HasSubstr("device cuda:63 not found"));
}

}  // namespace
}  // namespace headroom::test
