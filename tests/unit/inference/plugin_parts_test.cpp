// Tests the code that all plug-ins share (src/inference/plugin/), with a runtime that does nothing.
#include <cstring>
#include <stdexcept>

#include "inference/plugin/cuda_device.h"
#include "inference/plugin/plugin_calls.h"
#include "inference/plugin/plugin_failure.h"
#include "inference/signature_tables.h"
#include "support/test_support.h"

namespace headroom::plugin {
namespace {

struct FakeRuntime {
  FakeRuntime() { ++alive; }
  ~FakeRuntime() { --alive; }
  FakeRuntime(const FakeRuntime&) = delete;
  FakeRuntime& operator=(const FakeRuntime&) = delete;
  const std::string& version() const { return version_; }
  static inline int alive = 0;

 private:
  std::string version_ = "1.2.3";
};

struct FakeSession {
  FakeSession(std::shared_ptr<FakeRuntime> shared, const char* path, const hr_settings& /*settings*/)
      : runtime(std::move(shared)) {
    if (std::strcmp(path, "damaged") == 0) throw Failure{HR_ERROR_FAILED, "it is damaged"};
  }
  std::shared_ptr<FakeRuntime> runtime;
};

template <class Work>
hr_error error_of(Work&& work) {
  hr_error error{};
  EXPECT_EQ(guarded(&error, work), 1);
  return error;
}

TEST(PluginCalls, ConvertsExceptionsToErrors) {
  hr_error none{};
  EXPECT_EQ(guarded(&none, [] {}), 0);
  EXPECT_EQ(none.kind, 0);
  const hr_error told = error_of([] { throw Failure{HR_ERROR_UNAVAILABLE, "it is absent"}; });
  EXPECT_EQ(told.kind, HR_ERROR_UNAVAILABLE);
  EXPECT_STREQ(told.message, "it is absent");
  EXPECT_EQ(error_of([] { throw std::bad_alloc(); }).kind, HR_ERROR_OUT_OF_MEMORY);
  const hr_error other = error_of([] { throw std::runtime_error("it broke"); });
  EXPECT_EQ(other.kind, HR_ERROR_FAILED);
  EXPECT_STREQ(other.message, "it broke");
  EXPECT_EQ(error_of([] { throw 1; }).kind, HR_ERROR_FAILED);
}

TEST(PluginCalls, ChecksIndices) {
  EXPECT_EQ(checked_index("output", 1, 2), 1U);
  EXPECT_STREQ(error_of([] { checked_index("output", 2, 2); }).message,
               "invalid output index 2; the model has 2");
  EXPECT_EQ(error_of([] { checked_index("output", -1, 2); }).kind, HR_ERROR_FAILED);
}

TEST(PluginCalls, CutsLongMessages) {
  const hr_error error = error_of([] { throw Failure{HR_ERROR_FAILED, std::string(5000, 'x')}; });
  EXPECT_EQ(std::string(error.message), std::string(sizeof error.message - 1, 'x'));
  char small[4];
  copy_text(small, "ab");
  EXPECT_STREQ(small, "ab");
  copy_text(small, "abcd");
  EXPECT_STREQ(small, "abc");
}

class PluginRuntime : public testing::Test {
 protected:
  PluginRuntime() { settings_.struct_size = sizeof settings_; }
  int load(const char* path) { return runtime_.load(path, &settings_, &session_, &error_); }

  StartedRuntime<FakeRuntime> runtime_{"Fake Runtime"};
  hr_settings settings_{};
  hr_error error_{};
  FakeSession* session_ = nullptr;
};

TEST_F(PluginRuntime, LivesFromFirstStartToLastStop) {
  runtime_.stop();
  EXPECT_STREQ(runtime_.version(), "");
  EXPECT_EQ(runtime_.start(&error_), 0);
  EXPECT_EQ(runtime_.start(&error_), 0);
  EXPECT_EQ(FakeRuntime::alive, 1);
  EXPECT_STREQ(runtime_.version(), "1.2.3");
  runtime_.stop();
  EXPECT_EQ(FakeRuntime::alive, 1);
  runtime_.stop();
  EXPECT_EQ(FakeRuntime::alive, 0);
}

TEST_F(PluginRuntime, OutlivesStopWhileASessionExists) {
  EXPECT_EQ(runtime_.start(&error_), 0);
  ASSERT_EQ(load("good"), 0) << error_.message;
  runtime_.stop();
  EXPECT_EQ(FakeRuntime::alive, 1);
  delete session_;
  EXPECT_EQ(FakeRuntime::alive, 0);
}

TEST_F(PluginRuntime, ReportsWhyLoadFails) {
  EXPECT_EQ(load("good"), 1);
  EXPECT_EQ(error_.kind, HR_ERROR_UNAVAILABLE);
  EXPECT_STREQ(error_.message, "Fake Runtime was not started");
  EXPECT_EQ(runtime_.start(&error_), 0);
  EXPECT_EQ(load("damaged"), 1);
  EXPECT_EQ(error_.kind, HR_ERROR_FAILED);
  settings_.struct_size = sizeof settings_ - 1;
  EXPECT_EQ(load("good"), 1);
  EXPECT_EQ(error_.kind, HR_ERROR_UNAVAILABLE);
  EXPECT_STREQ(
      error_.message,
      "the settings come from an older Headroom than this plug-in; install both from the same version");
  EXPECT_EQ(session_, nullptr);
}

TEST(PluginCalls, RejectsDeviceThatIsNotAGpu) {
  hr_device_facts facts{};
  const hr_error error = error_of([&] { prepare_device("cpu", "cpu and cuda:N", facts); });
  EXPECT_EQ(error.kind, HR_ERROR_UNAVAILABLE);
  EXPECT_STREQ(error.message, "it runs on cpu and cuda:N, not on 'cpu'");
  EXPECT_EQ(error_of([&] { prepare_device("tpu:0", "cuda:N", facts); }).kind, HR_ERROR_UNAVAILABLE);
}

TEST(SignatureTables, PointIntoTheirArguments) {
  const TensorSpec x{"x", ElementType::float32, {-1, 3}, {"batch", ""}}, y{"y", ElementType::int64, {}, {}};
  const ModelDescription model{{x}, {y, x}, {{"task", "detect"}}};
  const inference::SignatureTables tables(model);
  hr_description description{};
  tables.fill(description);
  ASSERT_EQ(description.input_count, 1);
  ASSERT_EQ(description.output_count, 2);
  ASSERT_EQ(description.metadata_count, 1);
  EXPECT_STREQ(description.inputs[0].name, "x");
  EXPECT_EQ(description.inputs[0].element_type, static_cast<std::int32_t>(ElementType::float32));
  ASSERT_EQ(description.inputs[0].rank, 2);
  EXPECT_EQ(description.inputs[0].dims, model.inputs[0].dims.data());
  EXPECT_STREQ(description.inputs[0].dim_names[0], "batch");
  EXPECT_STREQ(description.inputs[0].dim_names[1], "");
  EXPECT_EQ(description.outputs[0].rank, 0);
  EXPECT_STREQ(description.outputs[1].dim_names[0], "batch");
  EXPECT_STREQ(description.metadata_keys[0], "task");
  EXPECT_STREQ(description.metadata_values[0], "detect");
}

}  // namespace
}  // namespace headroom::plugin
