// Tests that each setting reaches ONNX Runtime, by effects that the runtime shows; and the report of out
// of memory.
#include <sys/resource.h>

#include "onnxruntime_fixture.h"
#include "support/scoped_environment.h"

namespace headroom::inference {
namespace {

using test::error_of;
using test::threads_of_this_process;
using test::value_of;
using ::testing::HasSubstr;

class Settings : public test::OnnxRuntime {
 protected:
  void SetUp() override {
    OnnxRuntime::SetUp();
    path_ = test::dependency_file("models/ch_PP-OCRv4_det_infer.onnx");
    if (!path_) GTEST_SKIP() << test::absent_message("ch_PP-OCRv4_det_infer.onnx");
  }
  MemoryStats stats_after_two_runs() {
    auto model = value_of(load(*path_, settings_));
    for (int i = 0; i < 2; ++i) value_of(model.session.run());
    return model.session.memory_stats();
  }
  std::vector<float> values() {
    auto model = value_of(load(*path_, settings_, 64));
    return run(model.session);
  }
  RuntimeSettings settings_ = one_thread();
  std::optional<std::filesystem::path> path_;
};

auto near(const std::vector<float>& expected) {
  return ::testing::Pointwise(::testing::FloatNear(1e-3F), expected);
}

TEST_F(Settings, StartsThreads) {
  const std::int64_t before = threads_of_this_process();
  settings_.threads = 3;
  const auto three = value_of(load(*path_, settings_));
  EXPECT_EQ(threads_of_this_process(), before + 2);  // the calling thread is the third
  const auto one = value_of(load(*path_, one_thread()));
  EXPECT_EQ(threads_of_this_process(), before + 2);
}

TEST_F(Settings, ReportsNoArenaFiguresWithoutArena) {
  settings_.arena = false;
  const MemoryStats stats = stats_after_two_runs();
  EXPECT_FALSE(stats.arena_total);
  EXPECT_FALSE(stats.arena_extensions);
}

TEST_F(Settings, ArenaGrowsAsRequestedAndPatternPlansOneBlock) {
  const MemoryStats doubling = stats_after_two_runs();
  if (!doubling.arena_total) GTEST_SKIP() << "this ONNX Runtime keeps no statistics";
  settings_.memory_pattern = false;
  EXPECT_LT(*doubling.allocations, *stats_after_two_runs().allocations);
  settings_.arena_extend = ArenaExtend::same_as_requested;
  // Doubling needs few large extensions, exact growth many small ones.
  EXPECT_LT(*doubling.arena_extensions, *stats_after_two_runs().arena_extensions);
  EXPECT_GE(*doubling.arena_total, *doubling.arena_in_use);
  EXPECT_GE(*doubling.arena_peak, *doubling.arena_in_use);
}

TEST_F(Settings, ResultDoesNotDependOnPrepackingSpinningOrGraphLevel) {
  settings_.prepacking = false;
  settings_.spinning = false;
  settings_.graph_level = 0;
  const std::vector<float> expected = values();
  for (const int level : {1, 2, 99}) {
    settings_.graph_level = level;
    EXPECT_THAT(values(), near(expected)) << "graph level " << level;
  }
  settings_.graph_level = 7;
  EXPECT_EQ(error_of_loading(*path_, settings_).why, "invalid graph level 7; use 0, 1, 2 or 99");
}

TEST_F(Settings, MappedWeightsComeFromAPreparedFile) {
  const test::TemporaryFolder folder;
  const test::ScopedEnvironment cache("HEADROOM_ENGINE_CACHE", (folder / "cache").string());
  const std::vector<float> expected = values();
  settings_.mapped = true;
  if (!backend_->load(*path_, settings_)) GTEST_SKIP() << "this ONNX Runtime cannot map models";
  const std::vector<float> first = values();
  EXPECT_THAT(first, near(expected));
  const auto files = [&] {
    return std::count_if(std::filesystem::directory_iterator(folder / "cache"),
                         std::filesystem::directory_iterator(),
                         [](const auto& entry) { return entry.path().extension() == ".ort"; });
  };
  EXPECT_EQ(files(), 1) << "the file was made only once";
  EXPECT_EQ(values(), first);
  settings_.graph_level = 1;
  EXPECT_THAT(values(), near(expected));
  EXPECT_EQ(files(), 2) << "another graph level needs another file";
  // While the session exists, the process maps the file.
  const auto model = value_of(load(*path_, settings_, 64));
  EXPECT_THAT(test::read_text("/proc/self/maps"), HasSubstr((folder / "cache").string()));
}

TEST_F(Settings, RebuildsPreparedFileWhenWeightsChange) {
  const test::TemporaryFolder folder;
  const test::ScopedEnvironment cache("HEADROOM_ENGINE_CACHE", (folder / "cache").string());
  // A property of the model (ModelProto.metadata_props) that looks like the entry of an external weight
  // file.
  const std::filesystem::path model = folder / "m.onnx";
  test::write_text(model, test::read_text(*path_) + "\x72\x11\x0A\x08location\x12\x05w.bin");
  test::write_text(folder / "w.bin", "weights");
  settings_.mapped = true;
  if (!backend_->load(model, settings_)) GTEST_SKIP() << "this ONNX Runtime cannot map models";
  const auto prepared = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(folder / "cache"))
      if (entry.path().extension() == ".ort") return entry.last_write_time();
    return std::filesystem::file_time_type{};
  };
  const auto first = prepared();
  ASSERT_TRUE(backend_->load(model, settings_));
  EXPECT_EQ(prepared(), first) << "the file was made only once";
  test::write_text(folder / "w.bin", "other weights");
  ASSERT_TRUE(backend_->load(model, settings_));
  EXPECT_NE(prepared(), first);
}

TEST_F(Settings, RejectsUnknownDevices) {
  settings_.device = "tpu:0";
  EXPECT_EQ(error_of_loading(*path_, settings_).why, "unknown device 'tpu:0'; use cpu or cuda:N");
  EXPECT_EQ(error_of(backend_->prepare_device("tpu:0")).why, "it runs on cpu and cuda:N, not on 'tpu:0'");
}

// ONNX Runtime computes in the file's types, so a report must not show another precision.
TEST_F(Settings, RejectsOtherPrecision) {
  settings_.precision = Precision::fp32;
  EXPECT_TRUE(backend_->load(*path_, settings_));
  settings_.precision = Precision::bf16;
  EXPECT_THAT(error_of_loading(*path_, settings_).why, HasSubstr("in the types of the model's file"));
}

TEST_F(Settings, TrimReleasesTheArenaAndCpuRunHasNoDeviceTime) {
  for (const ArenaExtend extend : {ArenaExtend::next_power_of_two, ArenaExtend::same_as_requested}) {
    settings_.arena_extend = extend;
    auto model = value_of(load(*path_, settings_));
    EXPECT_TRUE(model.session.trim());  // before the first run
    ASSERT_TRUE(model.session.run());
    EXPECT_FALSE(model.session.device_time());
    EXPECT_FALSE(model.session.placement());
    const MemoryStats before = model.session.memory_stats();
    value_of(model.session.trim());
    const MemoryStats after = model.session.memory_stats();
    if (!before.arena_total) GTEST_SKIP() << "this ONNX Runtime keeps no statistics";
    EXPECT_LT(after.arena_total->count, before.arena_total->count / 4);
    EXPECT_FALSE(run(model.session).empty());
  }
  settings_.arena = false;
  auto model = value_of(load(*path_, settings_));
  ASSERT_TRUE(model.session.run());
  EXPECT_TRUE(model.session.trim());
}

// In a child process with little address space, ONNX Runtime's allocation is refused, and the error says
// so.
TEST_F(Settings, ReportsRefusedAllocationAsOutOfMemory) {
#if defined(HEADROOM_SANITIZED)
  GTEST_SKIP() << "a sanitizer needs more address space than this test allows";
#endif
  settings_.arena = false;
  const auto in_child = [&] {
    auto model = load(*path_, settings_, 2048);
    if (!model) ::_exit(3);
    rlimit limit{mebibytes(64).count, mebibytes(64).count};
    ::setrlimit(RLIMIT_DATA, &limit);
    const Status ran = model->session.run();
    if (ran) ::_exit(4);
    std::fprintf(stderr, "%s\n", ran.error().sentence().c_str());
    ::_exit(is_out_of_memory(ran.error()) ? 0 : 5);
  };
  EXPECT_EXIT(in_child(), ::testing::ExitedWithCode(0), "out of memory");
}

}  // namespace
}  // namespace headroom::inference
