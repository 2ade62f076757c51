// Tests that each setting reaches ONNX Runtime, by effects that the runtime shows; and the report of out
// of memory.
#include <sys/resource.h>

#include "base/files.h"
#include "base/text.h"
#include "onnxruntime_fixture.h"
#include "scoped_environment.h"
#include "unit/inference/results.h"

namespace headroom::inference {
namespace {

std::int64_t threads_of_this_process() {
  const auto status = read_small_file("/proc/self/status");
  if (!status) return 0;
  for (const std::string_view line : split(*status, '\n'))
    if (line.starts_with("Threads:")) return parse_number<std::int64_t>(trim(line.substr(8))).value_or(0);
  return 0;
}

class Settings : public test::OnnxRuntime {
 protected:
  void SetUp() override {
    OnnxRuntime::SetUp();
    path_ = test::dependency_file("models/ch_PP-OCRv4_det_infer.onnx");
    if (!path_) GTEST_SKIP() << test::absent_message("ch_PP-OCRv4_det_infer.onnx");
  }
  // The statistics after two runs; nothing if loading fails.
  std::optional<MemoryStats> stats_with(const RuntimeSettings& settings) {
    auto model = load(*path_, settings);
    EXPECT_TRUE(model) << model.error().sentence();
    if (!model) return std::nullopt;
    for (int run = 0; run < 2; ++run) {
      const Status ran = model->session.run();
      EXPECT_TRUE(ran) << ran.error().sentence();
    }
    return model->session.memory_stats();
  }
  std::optional<std::filesystem::path> path_;
};

TEST_F(Settings, StartsThreads) {
  const std::int64_t before = threads_of_this_process();
  RuntimeSettings settings;
  settings.threads = 3;
  const auto three = test::value_of(load(*path_, settings));
  EXPECT_EQ(threads_of_this_process(), before + 2);  // the calling thread is the third
  const auto one = test::value_of(load(*path_, one_thread()));
  EXPECT_EQ(threads_of_this_process(), before + 2);
}

TEST_F(Settings, ReportsNoArenaFiguresWithoutArena) {
  RuntimeSettings settings = one_thread();
  settings.arena = false;
  const auto stats = stats_with(settings);
  ASSERT_TRUE(stats);
  EXPECT_FALSE(stats->arena_total);
  EXPECT_FALSE(stats->arena_extensions);
}

TEST_F(Settings, ArenaGrowsAsRequested) {
  const auto doubling = stats_with(one_thread());
  RuntimeSettings settings = one_thread();
  settings.arena_extend = ArenaExtend::same_as_requested;
  settings.memory_pattern = false;
  const auto exact = stats_with(settings);
  ASSERT_TRUE(doubling && exact);
  if (!doubling->arena_total) GTEST_SKIP() << "this ONNX Runtime keeps no statistics";
  // Doubling needs few large extensions, exact growth many small ones.
  EXPECT_LT(*doubling->arena_extensions, *exact->arena_extensions);
  EXPECT_GE(*doubling->arena_total, *doubling->arena_in_use);
  EXPECT_GE(*doubling->arena_peak, *doubling->arena_in_use);
}

TEST_F(Settings, MemoryPatternPlansOneBlock) {
  RuntimeSettings settings = one_thread();
  const auto planned = stats_with(settings);
  settings.memory_pattern = false;
  const auto unplanned = stats_with(settings);
  ASSERT_TRUE(planned && unplanned);
  if (!planned->allocations) GTEST_SKIP() << "this ONNX Runtime keeps no statistics";
  EXPECT_LT(*planned->allocations, *unplanned->allocations);
}

TEST_F(Settings, ResultDoesNotDependOnPrepackingSpinningOrGraphLevel) {
  RuntimeSettings plain = one_thread();
  plain.prepacking = false;
  plain.spinning = false;
  std::vector<float> expected;
  for (const int level : {0, 1, 2, 99}) {
    plain.graph_level = level;
    auto model = test::value_of(load(*path_, plain, 64));
    ASSERT_TRUE(model.session.run());
    std::vector<TensorView> views;
    ASSERT_TRUE(model.session.outputs(views));
    std::vector<float> values(views[0].as_float(), views[0].as_float() + views[0].count());
    if (expected.empty()) expected = values;
    EXPECT_THAT(values, ::testing::Pointwise(::testing::FloatNear(1e-3F), expected))
        << "graph level " << level;
  }
  plain.graph_level = 7;
  const auto refused = backend_->load(*path_, plain);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().why, "invalid graph level 7; use 0, 1, 2 or 99");
}

TEST_F(Settings, MappedWeightsComeFromAPreparedFile) {
  const test::TemporaryFolder folder;
  const test::ScopedEnvironment cache("HEADROOM_ENGINE_CACHE", (folder / "cache").string());
  RuntimeSettings mapped = one_thread();
  const auto values_with = [&](const RuntimeSettings& settings) {
    std::vector<float> values;
    auto model = load(*path_, settings, 64);
    if (!model || !model->session.run()) return values;
    std::vector<TensorView> views;
    if (model->session.outputs(views))
      values.assign(views[0].as_float(), views[0].as_float() + views[0].count());
    return values;
  };
  const std::vector<float> expected = values_with(mapped);
  mapped.mapped = true;
  const std::vector<float> first = values_with(mapped);
  if (first.empty()) GTEST_SKIP() << "this ONNX Runtime cannot map models";
  EXPECT_THAT(first, ::testing::Pointwise(::testing::FloatNear(1e-3F), expected));
  const auto files = [&] {
    return std::count_if(std::filesystem::directory_iterator(folder / "cache"),
                         std::filesystem::directory_iterator(),
                         [](const auto& entry) { return entry.path().extension() == ".ort"; });
  };
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(values_with(mapped), first);
  EXPECT_EQ(files(), 1) << "the file was made only once";
  mapped.graph_level = 1;
  EXPECT_THAT(values_with(mapped), ::testing::Pointwise(::testing::FloatNear(1e-3F), expected));
  EXPECT_EQ(files(), 2) << "another graph level needs another file";
  // While the session exists, the process maps the file.
  const auto model = test::value_of(load(*path_, mapped, 64));
  EXPECT_THAT(test::read_text("/proc/self/maps"), ::testing::HasSubstr((folder / "cache").string()));
}

TEST_F(Settings, RebuildsPreparedFileWhenWeightsChange) {
  const test::TemporaryFolder folder;
  const test::ScopedEnvironment cache("HEADROOM_ENGINE_CACHE", (folder / "cache").string());
  // A property of the model (ModelProto.metadata_props) that looks like the entry of an external weight
  // file.
  const std::filesystem::path model = folder / "m.onnx";
  test::write_text(model, test::read_text(*path_) + "\x72\x11\x0A\x08location\x12\x05w.bin");
  test::write_text(folder / "w.bin", "weights");
  RuntimeSettings mapped = one_thread();
  mapped.mapped = true;
  if (!backend_->load(model, mapped)) GTEST_SKIP() << "this ONNX Runtime cannot map models";
  const auto prepared = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(folder / "cache"))
      if (entry.path().extension() == ".ort") return entry.last_write_time();
    return std::filesystem::file_time_type{};
  };
  const auto first = prepared();
  ASSERT_TRUE(backend_->load(model, mapped));
  EXPECT_EQ(prepared(), first) << "the file was made only once";
  test::write_text(folder / "w.bin", "other weights");
  ASSERT_TRUE(backend_->load(model, mapped));
  EXPECT_NE(prepared(), first);
}

TEST_F(Settings, RejectsUnknownDevices) {
  RuntimeSettings settings = one_thread();
  settings.device = "tpu:0";
  const auto refused = backend_->load(*path_, settings);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().why, "unknown device 'tpu:0'; use cpu or cuda:N");
  const auto unprepared = backend_->prepare_device("tpu:0");
  ASSERT_FALSE(unprepared);
  EXPECT_EQ(unprepared.error().why, "it runs on cpu and cuda:N, not on 'tpu:0'");
}

// ONNX Runtime computes in the file's types, so a report must not show another precision.
TEST_F(Settings, RejectsOtherPrecision) {
  RuntimeSettings settings = one_thread();
  settings.precision = Precision::fp32;
  EXPECT_TRUE(backend_->load(*path_, settings));
  settings.precision = Precision::bf16;
  const auto refused = backend_->load(*path_, settings);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().why, testing::HasSubstr("in the types of the model's file"));
}

TEST_F(Settings, CpuRunHasNoDeviceTime) {
  auto model = test::value_of(load(*path_, one_thread()));
  ASSERT_TRUE(model.session.run());
  EXPECT_FALSE(model.session.device_time());
  EXPECT_FALSE(model.session.placement());
}

TEST_F(Settings, TrimReleasesTheArena) {
  for (const ArenaExtend extend : {ArenaExtend::next_power_of_two, ArenaExtend::same_as_requested}) {
    RuntimeSettings settings = one_thread();
    settings.arena_extend = extend;
    auto model = test::value_of(load(*path_, settings));
    EXPECT_TRUE(model.session.trim());  // before the first run
    ASSERT_TRUE(model.session.run());
    const MemoryStats before = model.session.memory_stats();
    test::value_of(model.session.trim());
    const MemoryStats after = model.session.memory_stats();
    if (!before.arena_total) GTEST_SKIP() << "this ONNX Runtime keeps no statistics";
    EXPECT_LT(after.arena_total->count, before.arena_total->count / 4);
    EXPECT_TRUE(model.session.run());
    std::vector<TensorView> views;
    EXPECT_TRUE(model.session.outputs(views));
  }
  RuntimeSettings settings = one_thread();
  settings.arena = false;
  auto model = load(*path_, settings);
  ASSERT_TRUE(model && model->session.run());
  EXPECT_TRUE(model->session.trim());
}

// In a child process with little address space, ONNX Runtime's allocation is refused, and the error says
// so.
TEST_F(Settings, ReportsRefusedAllocationAsOutOfMemory) {
#if defined(HEADROOM_SANITIZED)
  GTEST_SKIP() << "a sanitizer needs more address space than this test allows";
#endif
  RuntimeSettings settings = one_thread();
  settings.arena = false;
  const auto in_child = [&] {
    auto model = load(*path_, settings, 2048);
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
