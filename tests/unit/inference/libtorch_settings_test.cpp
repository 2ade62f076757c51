// Tests that each setting reaches LibTorch or is rejected, and in which precision LibTorch computes.
#include "base/files.h"
#include "base/text.h"
#include "libtorch_fixture.h"

namespace headroom::inference {
namespace {

using test::Dims;
using ::testing::HasSubstr;

std::int64_t threads_with_torch() {
  const auto status = read_small_file("/proc/self/status");
  if (!status) return 0;
  for (const std::string_view line : split(*status, '\n'))
    if (line.starts_with("Threads:")) return parse_number<std::int64_t>(trim(line.substr(8))).value_or(0);
  return 0;
}

class TorchScriptSettings : public test::LibTorch {
 protected:
  std::vector<float> values_with(const RuntimeSettings& settings) {
    auto session = backend_->load(module("script"), settings);
    EXPECT_TRUE(session) << session.error().sentence();
    if (!session) return {};
    precision_ = session->description().metadata_value("headroom.precision");
    std::vector<float> input = test::filled({1, 3, 64, 64});
    EXPECT_TRUE(bind(*session, input, {1, 3, 64, 64}));
    const Status ran = session->run();
    EXPECT_TRUE(ran) << ran.error().sentence();
    std::vector<TensorView> views;
    EXPECT_TRUE(session->learn_outputs());
    EXPECT_TRUE(session->outputs(views));
    return test::values_of(views);
  }
  std::string why_refused(void (*change)(RuntimeSettings&)) {
    RuntimeSettings settings = one_thread();
    change(settings);
    return error_of_loading(module("script"), settings).why;
  }
  std::string precision_;
};

TEST_F(TorchScriptSettings, StartsThreads) {
  const std::int64_t before = threads_with_torch();
  (void)values_with(one_thread());
  EXPECT_EQ(threads_with_torch(), before);
  RuntimeSettings settings;
  settings.threads = 3;
  (void)values_with(settings);
  // The calling thread is the third. A second pool, for quantized operators, has as many threads.
  EXPECT_GE(threads_with_torch(), before + 2);
}

TEST_F(TorchScriptSettings, CpuComputesInFileTypes) {
  (void)values_with(one_thread());
  EXPECT_EQ(precision_, "fp32");
}

// The results differ from the exact values, but only within the 8 bits of bfloat16's mantissa.
TEST_F(TorchScriptSettings, ComputesInBf16AndReturnsFloat32) {
  RuntimeSettings settings = one_thread();
  const std::vector<float> exact = values_with(settings);
  settings.precision = Precision::bf16;
  const std::vector<float> rounded = values_with(settings);
  EXPECT_EQ(precision_, "bf16");
  ASSERT_EQ(exact.size(), 10U);
  ASSERT_EQ(rounded.size(), 10U);
  EXPECT_NE(exact, rounded);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(rounded[i], exact[i], 0.02);
  settings.precision = Precision::fp32;
  EXPECT_EQ(values_with(settings), exact);  // autocast is off again
}

TEST_F(TorchScriptSettings, RejectsUnsupportedSettings) {
  EXPECT_THAT(why_refused([](RuntimeSettings& s) { s.arena = false; }), HasSubstr("no arena on the CPU"));
  EXPECT_THAT(why_refused([](RuntimeSettings& s) { s.arena_extend = ArenaExtend::same_as_requested; }),
              HasSubstr("no arena on the CPU"));
  EXPECT_THAT(why_refused([](RuntimeSettings& s) { s.memory_pattern = false; }), HasSubstr("pattern"));
  EXPECT_THAT(why_refused([](RuntimeSettings& s) { s.spinning = false; }), HasSubstr("OMP_WAIT_POLICY"));
  EXPECT_THAT(why_refused([](RuntimeSettings& s) { s.graph_level = 3; }), HasSubstr("graph level 3"));
  EXPECT_THAT(why_refused([](RuntimeSettings& s) { s.threads = -1; }), HasSubstr("-1 threads"));
}

// LibTorch's CPU allocator has no figures.
TEST_F(TorchScriptSettings, ReportsNoAllocatorFiguresOnCpu) {
  auto session = backend_->load(module("script"), one_thread());
  ASSERT_TRUE(session) << session.error().sentence();
  const MemoryStats stats = session->memory_stats();
  EXPECT_FALSE(stats.arena_total || stats.arena_in_use || stats.allocations);
  EXPECT_FALSE(session->placement());
  EXPECT_FALSE(session->device_time());
}

}  // namespace
}  // namespace headroom::inference
