// The TensorRT plug-in on a real driver, with the fake library of tests/support, whose "inference" copies the
// first input to the first output on the device. The transfers, pinned memory, captured graphs and time
// stamps are those of the plug-in.
#include <gtest/gtest.h>

#include <numeric>

#include "cuda/driver.h"
#include "inference/backend.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;

class TensorRtGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto driver = cuda::Driver::open(); !driver)
      GTEST_SKIP() << absent_message(driver.error().sentence());
    ::setenv("HEADROOM_TENSORRT", test::built_path("tests/fake_tensorrt").c_str(), 1);
    auto opened = inference::Backend::open(
        {"tensorrt", fs::path(test::built_path("bin/libheadroom_backend_tensorrt.so"))});
    ASSERT_TRUE(opened) << opened.error().sentence();
    ASSERT_TRUE(opened->start());
    const auto facts = opened->prepare_device("cuda:0");
    ASSERT_TRUE(facts) << facts.error().sentence();
    backend_ = std::move(*opened);
  }
  Result<inference::Session> load(const std::string& lines, bool captures) {
    write_text(folder_.path() / "m.engine", "ftrt\n" + lines);
    RuntimeSettings settings;
    settings.device = "cuda:0";
    settings.device_graph = captures;
    return backend_->load(folder_.path() / "m.engine", settings);
  }
  TemporaryFolder folder_;
  std::optional<inference::Backend> backend_;
};

TEST_F(TensorRtGpu, CopiesValuesToTheDeviceAndBackInEachRun) {
  for (const bool captures : {false, true}) {
    auto session = load(
        "input x 1 100000\ninput z 1 4\noutput y 1 100000\nscratch 4194304\nweights 2097152\n", captures);
    ASSERT_TRUE(session) << session.error().sentence();
    std::vector<float> x(100000);
    float z[4] = {};
    ASSERT_TRUE(session->bind_input(0, x.data(), x.size() * 4, ElementType::float32, {1, 100000}));
    ASSERT_TRUE(session->bind_input(1, z, sizeof z, ElementType::float32, {1, 4}));
    std::vector<TensorView> views;
    for (int run = 0; run < 5; ++run) {
      std::iota(x.begin(), x.end(), static_cast<float>(run));
      const auto ran = session->run();
      ASSERT_TRUE(ran) << ran.error().sentence();
      ASSERT_TRUE(session->outputs(views));
      EXPECT_TRUE(std::equal(x.begin(), x.end(), views[0].as_float()))
          << "run " << run << (captures ? ", captured" : "");
      ASSERT_TRUE(session->device_time());
      EXPECT_GT(session->device_time()->count, 0);
      EXPECT_LT(session->device_time()->count, 1'000'000'000);
    }
  }
}

TEST_F(TensorRtGpu, StagesMemoryThatCannotBePinnedTwice) {
  auto session = load("input x 1 16\ninput z 1 16\noutput y 1 16\n", false);
  ASSERT_TRUE(session) << session.error().sentence();
  std::vector<float> both(32);  // one page
  ASSERT_TRUE(session->bind_input(1, both.data() + 16, 64, ElementType::float32, {1, 16}));
  ASSERT_TRUE(session->bind_input(0, both.data(), 64, ElementType::float32, {1, 16}));
  std::iota(both.begin(), both.end(), 7.0F);
  ASSERT_TRUE(session->run());
  std::vector<TensorView> views;
  ASSERT_TRUE(session->outputs(views));
  EXPECT_TRUE(std::equal(both.begin(), both.begin() + 16, views[0].as_float()));
}

TEST_F(TensorRtGpu, TwoEnginesShareOneScratchMemory) {
  auto small = load("input x 1 8\noutput y 1 8\nscratch 1048576\n", true);
  ASSERT_TRUE(small);
  std::vector<float> a(8, 1.0F), b(8, 2.0F);
  ASSERT_TRUE(small->bind_input(0, a.data(), 32, ElementType::float32, {1, 8}));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(small->run());
  auto large = load("input x 1 8\noutput y 1 8\nscratch 67108864\n", true);
  ASSERT_TRUE(large);
  ASSERT_TRUE(large->bind_input(0, b.data(), 32, ElementType::float32, {1, 8}));
  std::vector<TensorView> views;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(small->run());
    ASSERT_TRUE(small->outputs(views));
    EXPECT_EQ(views[0].as_float()[7], 1.0F);
    ASSERT_TRUE(large->run());
    ASSERT_TRUE(large->outputs(views));
    EXPECT_EQ(views[0].as_float()[7], 2.0F);
  }
}

TEST_F(TensorRtGpu, ReportsADriverRefusalAsOutOfMemory) {
  const auto session = load("input x 1 8\noutput y 1 8\nweights 1000000000000000\n", false);
  ASSERT_FALSE(session);
  EXPECT_TRUE(inference::is_out_of_memory(session.error())) << session.error().sentence();
}

}  // namespace
}  // namespace headroom::test
