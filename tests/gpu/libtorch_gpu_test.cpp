// CUDA graphs and linked sessions of the LibTorch plug-in. Each run has other inputs, so a replay that reads
// old ones is found.
#include <gmock/gmock.h>

#include "unit/inference/libtorch_fixture.h"

namespace headroom::test {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

// Three runs of one shape are normal, the next one is captured, and later ones are replays.
constexpr int kRuns = 8;

class LibTorchGpu : public LibTorch {
 protected:
  void SetUp() override {
    LibTorch::SetUp();
    if (IsSkipped() || !backend_) return;
    auto ready = backend_->prepare_device("cuda:0");
    if (!ready) GTEST_SKIP() << "skipped: " << ready.error().sentence();
  }
  static RuntimeSettings on_gpu(bool captures) {
    RuntimeSettings settings;
    settings.device = "cuda:0";
    settings.precision = Precision::fp32;
    settings.device_graph = captures;
    return settings;
  }
  static std::vector<float> run(inference::Session& session) {
    value_of(session.run());
    if (!session.knows_outputs()) value_of(session.learn_outputs());
    std::vector<TensorView> views;
    value_of(session.outputs(views));
    return values_of(views);
  }
  // The inputs of two_recorded with so many rows: floats, if they are not linked, and integers.
  static void bind_sum(inference::Session& session, std::vector<float>* a, std::vector<std::int64_t>& b,
                       std::int64_t rows) {
    const auto count = static_cast<std::size_t>(3 * rows);
    if (a != nullptr)
      value_of(session.bind_input(0, a->data(), count * sizeof(float), ElementType::float32, {rows, 3}));
    value_of(session.bind_input(1, b.data(), count * sizeof b[0], ElementType::int64, {rows, 3}));
  }
};

TEST_F(LibTorchGpu, ACapturedGraphReadsEachInput) {
  std::vector<float> on_gpu_input = filled({1, 3, 64, 64}), on_cpu_input = on_gpu_input;
  auto gpu = value_of(backend_->load(module("script"), on_gpu(true)));
  auto cpu = value_of(backend_->load(module("script"), one_thread()));
  value_of(bind(gpu, on_gpu_input, {1, 3, 64, 64}));
  value_of(bind(cpu, on_cpu_input, {1, 3, 64, 64}));
  for (int i = 0; i < 2 * kRuns; ++i) {
    for (auto* input : {&on_gpu_input, &on_cpu_input}) (*input)[static_cast<std::size_t>(i)] += 10;
    EXPECT_THAT(run(gpu), Pointwise(FloatNear(0.05F), run(cpu))) << "run " << i;
    if (i == kRuns) value_of(gpu.trim());
  }
}

TEST_F(LibTorchGpu, ANewShapeIsCapturedAnew) {
  std::vector<float> a(6, 1);
  std::vector<std::int64_t> b(6, 10);
  auto session = value_of(backend_->load(module("two_recorded"), on_gpu(true)));
  for (const std::int64_t rows : {1, 2, 1}) {
    bind_sum(session, &a, b, rows);
    for (int i = 0; i < kRuns; ++i) {
      a[1] = static_cast<float>(i);
      const std::vector<float> sums = run(session);
      ASSERT_EQ(sums.size(), static_cast<std::size_t>(3 * rows));
      EXPECT_EQ(sums.front(), 11);
      EXPECT_EQ(sums[1], static_cast<float>(10 + i)) << rows << " rows, run " << i;
    }
  }
}

TEST_F(LibTorchGpu, AModuleThatWaitsForTheGpuRunsWithoutAGraph) {
  auto session = value_of(backend_->load(module("reading"), on_gpu(true)));
  std::vector<float> x{1, 0, 0};
  value_of(bind(session, x, {1, 3}));
  for (int i = 1; i <= kRuns; ++i) {
    x[1] = static_cast<float>(i);
    EXPECT_THAT(run(session), ElementsAre(static_cast<float>(1 + i), static_cast<float>(i * (1 + i)), 0))
        << i;
  }
}

TEST_F(LibTorchGpu, ASessionReadsTheOutputOfAnother) {
  for (const bool of_first : {false, true})
    for (const bool of_second : {false, true}) {
      std::vector<float> a(6, 1), own(6, 5);
      std::vector<std::int64_t> tens(6, 10), hundreds(6, 100);
      auto first = value_of(backend_->load(module("two_recorded"), on_gpu(of_first)));
      auto second = value_of(backend_->load(module("two_recorded"), on_gpu(of_second)));
      for (const std::int64_t rows : {1, 2}) {
        bind_sum(first, &a, tens, rows);
        bind_sum(second, nullptr, hundreds, rows);
        run(first);
        value_of(second.link_input(0, first, 0));
        for (int i = 0; i < kRuns; ++i) {
          a[1] = static_cast<float>(i);
          EXPECT_TRUE(run(first).empty()) << "the output stays on the device";
          const std::vector<float> sums = run(second);
          ASSERT_EQ(sums.size(), static_cast<std::size_t>(3 * rows));
          EXPECT_EQ(sums[1], static_cast<float>(110 + i)) << of_first << of_second << " run " << i;
        }
        value_of(second.trim());
        value_of(first.trim());
      }
      bind_sum(second, &own, hundreds, 2);
      EXPECT_EQ(run(second).front(), 105);
    }
}

}  // namespace
}  // namespace headroom::test
