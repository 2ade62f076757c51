// A real ONNX Runtime in programs that know nothing of Headroom.
#include <set>

#include "unit/tracer/traced_guest.h"

namespace headroom::test {
namespace {

#if defined(__aarch64__)
constexpr const char* kRuntime = "onnxruntime/lib/arm64/libonnxruntime.so.1";
#else
constexpr const char* kRuntime = "onnxruntime/lib/x64/libonnxruntime.so.1";
#endif
constexpr const char* kModel = "models/face_detection_front_128x128_barracuda.onnx";

std::set<std::string> scopes_in(const SeenRecording& seen) {
  std::set<std::string> scopes;
  for (const SeenEvent& event : seen.events) scopes.insert(event.scope);
  return scopes;
}

// In default mode and in full: what is noticed by the stacks of events comes at different moments.
class TraceOnnxRuntime : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    runtime_ = dependency_file(kRuntime);
    model_ = dependency_file(kModel);
    if (!runtime_ || !model_) GTEST_SKIP() << absent_message("ONNX Runtime and its model");
  }
  static void expect_layers(const SeenRecording& seen) {
    EXPECT_THAT(scopes_in(seen), testing::Contains(testing::HasSubstr("face_detection_front")));
  }

  std::optional<std::filesystem::path> runtime_, model_;
};

TEST_P(TraceOnnxRuntime, HasLayersWhereTheProgramHasNoCppRuntime) {
  TracedGuest traced(GetParam());
  const GuestRun run = traced.run({guest("trace_guest_onnxruntime"), *model_, *runtime_});
  ASSERT_EQ(run.status.exit_code, 0) << run.output;
  expect_layers(traced.root());
}

TEST_P(TraceOnnxRuntime, HasLayersWhereTheProgramsRunpathLeadsToIt) {
  // The guest's RUNPATH is its own folder.
  const TemporaryFolder folder;
  std::filesystem::copy_file(guest("trace_guest_onnxruntime"), folder / "guest");
  std::filesystem::create_symlink(*runtime_, folder / "libonnxruntime.so.1");
  TracedGuest traced(GetParam());
  const GuestRun run = traced.run({(folder / "guest").string(), *model_, "libonnxruntime.so.1"});
  ASSERT_EQ(run.status.exit_code, 0) << run.output;
  expect_layers(traced.root());
}

TEST_P(TraceOnnxRuntime, KeepsAProfileOfEachOfTwoCopies) {
  const TemporaryFolder folder;
  const std::filesystem::path copy = folder / "libother.so";
  std::filesystem::copy_file(*runtime_, copy);
  TracedGuest traced(GetParam());
  const GuestRun run = traced.run({guest("trace_guest_onnxruntime"), *model_, *runtime_, copy});
  ASSERT_EQ(run.status.exit_code, 0) << run.output;
  const auto profiles = traced.root().info.profiles;
  ASSERT_EQ(profiles.size(), 2u);
  EXPECT_NE(profiles[0].session, profiles[1].session);
}

TEST_P(TraceOnnxRuntime, LeavesAProgramsOwnProfileAlone) {
  TracedGuest traced(GetParam());
  const std::string prefix = (traced.folder() / "own").string();
  traced.set_environment("GUEST_PROFILE", prefix);
  const GuestRun run = traced.run({guest("trace_guest_onnxruntime"), *model_, *runtime_});
  ASSERT_EQ(run.status.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, testing::StartsWith(prefix));
  EXPECT_TRUE(std::filesystem::exists(run.output.substr(0, run.output.find('\n'))));
  const SeenRecording seen = traced.root();
  expect_layers(seen);
  EXPECT_TRUE(seen.info.profiles.empty());
  EXPECT_THAT(seen.info.notes, testing::Contains(testing::HasSubstr("profiles an ONNX Runtime session")));
}

INSTANTIATE_TEST_SUITE_P(Modes, TraceOnnxRuntime, testing::Values("", "full=1"),
                         [](const auto& mode) { return *mode.param == 0 ? "Default" : "Full"; });

}  // namespace
}  // namespace headroom::test
