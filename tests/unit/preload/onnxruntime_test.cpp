// Real ONNX Runtime in unmodified programs.
#include <set>

#include "unit/preload/traced_program.h"

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

// What the tracer learns from event stacks comes at different times in default and full mode, and never
// without host memory.
std::string name_of_mode(const testing::TestParamInfo<const char*>& mode) {
  const std::string options = mode.param;
  return options.empty() ? "Default" : options == "gpu" ? "Gpu" : "Full";
}
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

TEST_P(TraceOnnxRuntime, RecordsLayersWithoutACppRuntime) {
  TracedProgram traced(GetParam());
  const ProgramRun run = traced.run({program_path("traced_onnxruntime"), *model_, *runtime_});
  ASSERT_EQ(run.status.exit_code, 0) << run.output;
  expect_layers(traced.root());
}

TEST_P(TraceOnnxRuntime, RecordsLayersOfARuntimeFoundByRunpath) {
  // The program's RUNPATH is its own folder.
  const TemporaryFolder folder;
  std::filesystem::copy_file(program_path("traced_onnxruntime"), folder / "program");
  std::filesystem::create_symlink(*runtime_, folder / "libonnxruntime.so.1");
  TracedProgram traced(GetParam());
  const ProgramRun run = traced.run({(folder / "program").string(), *model_, "libonnxruntime.so.1"});
  ASSERT_EQ(run.status.exit_code, 0) << run.output;
  expect_layers(traced.root());
}

TEST_P(TraceOnnxRuntime, KeepsAProfileOfEachOfTwoCopies) {
  const TemporaryFolder folder;
  const std::filesystem::path copy = folder / "libother.so";
  std::filesystem::copy_file(*runtime_, copy);
  TracedProgram traced(GetParam());
  const ProgramRun run = traced.run({program_path("traced_onnxruntime"), *model_, *runtime_, copy});
  ASSERT_EQ(run.status.exit_code, 0) << run.output;
  const auto profiles = traced.root().info.profiles;
  ASSERT_EQ(profiles.size(), 2u);
  EXPECT_NE(profiles[0].session, profiles[1].session);
}

TEST_P(TraceOnnxRuntime, LeavesAProgramsOwnProfileAlone) {
  TracedProgram traced(GetParam());
  const std::string prefix = (traced.folder() / "own").string();
  traced.set_environment("TEST_PROFILE", prefix);
  const ProgramRun run = traced.run({program_path("traced_onnxruntime"), *model_, *runtime_});
  ASSERT_EQ(run.status.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, testing::StartsWith(prefix));
  EXPECT_TRUE(std::filesystem::exists(run.output.substr(0, run.output.find('\n'))));
  const SeenRecording seen = traced.root();
  expect_layers(seen);
  EXPECT_TRUE(seen.info.profiles.empty());
  EXPECT_THAT(seen.info.notes, testing::Contains(testing::HasSubstr("profiles an ONNX Runtime session")));
}

#if defined(HEADROOM_INFERENCE_PROGRAM)
using testing::AllOf, testing::Contains, testing::Each, testing::EndsWith, testing::HasSubstr,
    testing::IsEmpty;

constexpr const char* kSession = "setup/face_detection_front_128x128_barracuda";
constexpr const char* kLostProfile = "before the third run of setup/face_detection_front_128x128_barracuda";

// How often the first node of the graph ran while profiled.
std::size_t profiled_runs(const recording::RuntimeProfile& profile) {
  std::size_t runs = 0;
  for (const recording::NodeRun& run : profile.data.runs)
    if (run.node == 0) ++runs;
  return runs;
}

class TraceInference : public TraceOnnxRuntime {
 protected:
  SeenRecording trace(int threads, int runs, const std::string& end) {
    ProgramRun run = traced_.run({program_path("traced_inference"), *runtime_, *model_,
                                  std::to_string(threads), std::to_string(runs), end});
    status_ = run.status;
    EXPECT_EQ(run.output, "");
    return traced_.root();
  }
  // The session's layers have nodes, and no note reports missing ones.
  void expect_nodes(const SeenRecording& seen, std::size_t fewest_runs, std::size_t most_runs) {
    ASSERT_EQ(seen.info.profiles.size(), 1u);
    EXPECT_EQ(path_of(seen.info, seen.info.profiles[0].session), kSession);
    EXPECT_GE(profiled_runs(seen.info.profiles[0]), fewest_runs);
    EXPECT_LE(profiled_runs(seen.info.profiles[0]), most_runs);
    EXPECT_THAT(seen.info.notes, IsEmpty());
  }
  void expect_lost_nodes(const SeenRecording& seen) {
    EXPECT_THAT(seen.info.profiles, IsEmpty());
    EXPECT_THAT(seen.info.notes, testing::ElementsAre(HasSubstr(kLostProfile)));
    EXPECT_THAT(scopes_in(seen), Contains(EndsWith("face_detection_front_128x128_barracuda/run")));
  }

  TracedProgram traced_{GetParam()};
  ExitStatus status_;
};

// How a program ends, and how many profiled runs its recording has; 0: they are lost.
struct Ending {
  int threads, runs;
  const char* end;
  std::size_t fewest_runs, most_runs;
  int signal = 0;
};
TEST_P(TraceInference, ProfilesTheFirstRunsHoweverTheProgramEnds) {
  constexpr Ending kEndings[] = {
      {1, 20, "return", 3, 3},
      // Threads that share a session: also the runs in flight when the third ends. On few cores a moment
      // without runs may occur by chance, but hardly within the first six.
      {4, 100, "return", 3, 3 + 3},
      {1, 2, "return", 2, 2},
      {1, 2, "exit-at-once", 2, 2},
      {1, 2, "exec", 2, 2},
      // A run in a thread of the runtime's pool counts as one of the first three, and the profile does not
      // end before it.
      {0, 20, "async", 3, 3},
      {1, 2, "async", 3, 3},
      {1, 1, "abort", 1, 1, SIGABRT},
      {1, 2, "kill", 0, 0, SIGKILL},
      // The runtime is not called in a signal handler.
      {1, 2, "handler", 0, 0},
  };
  for (const Ending& ending : kEndings) {
    SCOPED_TRACE(std::string(ending.end) + " " + std::to_string(ending.runs));
    TracedProgram traced(GetParam());
    const ProgramRun run =
        traced.run({program_path("traced_inference"), *runtime_, *model_, std::to_string(ending.threads),
                    std::to_string(ending.runs), ending.end});
    EXPECT_EQ(run.status.signal, ending.signal);
    EXPECT_TRUE(ending.signal != 0 || run.status.exit_code == 0);
    EXPECT_EQ(run.output, "");
    const SeenRecording seen = traced.root();
    EXPECT_EQ(seen.info.closed, ending.signal == 0);
    if (ending.fewest_runs > 0)
      expect_nodes(seen, ending.fewest_runs, ending.most_runs);
    else
      expect_lost_nodes(seen);
  }
}

TEST_P(TraceInference, NestsTheTracersWorkInTheProgramsScope) {
  const SeenRecording seen = trace(1, 4, "return");
  std::set<std::string> own;
  for (const std::string& scope : scopes_in(seen))
    if (scope.find(recording::kTracerScope) != std::string::npos) own.insert(scope);
  EXPECT_THAT(own, Each(testing::AnyOf("setup/headroom: profiling", "infer/headroom: profiling")));
  EXPECT_FALSE(own.empty());
}

// The child inherits the parent's session and the file descriptor of its profile.
TEST_P(TraceInference, ForkedChildLeavesTheProfileToItsParent) {
  const SeenRecording seen = trace(1, 2, "fork");
  EXPECT_EQ(status_.exit_code, 0);
  expect_nodes(seen, 2, 2);
  for (const auto& file : std::filesystem::directory_iterator(traced_.root_path().string() + ".d")) {
    if (file.path().extension() != ".hrec") continue;
    EXPECT_THAT(read_recording(file.path()).info.profiles, IsEmpty()) << file.path();
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, TraceInference, testing::Values("", "full=1", "gpu"), name_of_mode);
#endif

INSTANTIATE_TEST_SUITE_P(Modes, TraceOnnxRuntime, testing::Values("", "full=1", "gpu"), name_of_mode);

}  // namespace
}  // namespace headroom::test
