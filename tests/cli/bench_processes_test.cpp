// The processes of a run: none survives a killed conductor. If the decoder dies or hangs, the error names it,
// and the figures so far are kept.

#include <signal.h>
#include <sstream>
#include <thread>

#include "cli/bench_fixture.h"
#include "cli/process_tree.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;
using BenchProcesses = BenchTest;

constexpr const char* kFaceModel = "models/face_detection_back_256x256_barracuda.onnx";
constexpr std::int64_t kPictures = 3000;  // far more than are decoded before a test stops the decoder

// The same small image under many names.
std::string many_pictures(Bench& bench) {
  const fs::path folder = bench.pictures();
  for (std::int64_t i = 1; i < kPictures; ++i) {
    std::error_code exists;
    fs::create_hard_link(folder / "small.bmp", folder / (std::to_string(i) + ".bmp"), exists);
  }
  return folder.string();
}

// True once metrics.jsonl shows that the model runs its measured frames.
bool is_measuring(const Bench& bench) {
  return read_text(bench.run_folder() / "metrics.jsonl").find("\"warm\"") != std::string::npos;
}

TEST_F(BenchProcesses, LeavesNoOrphansWhenKilled) {
  const auto face = dependency_file(kFaceModel);
  if (!face) GTEST_SKIP() << absent_message("the face model");
  for (const std::string verb : {"_setup", "_decode"}) {  // during the setup and during the measurement
    std::vector<Child> children;
    CommandOptions options;
    options.while_running = [&](int conductor) {
      auto now = descendants_of(conductor);
      if (find_child(now, "_worker") == nullptr || find_child(now, verb) == nullptr) return true;
      children = std::move(now);
      ::kill(conductor, SIGKILL);
      return false;
    };
    const CommandResult result = bench_.run(
        {"--source", many_pictures(bench_), "--max-frames", "3000", "--max-frames-in-mem", "1", "--model",
         verb == "_setup" ? model("m", "load hang") + ",backend=misbehaving" : "face=" + face->string()},
        options);
    EXPECT_EQ(result.signal, SIGKILL) << result.err;
    EXPECT_GE(children.size(), 2U);
    for (const Child& child : children) EXPECT_TRUE(ends(child)) << child.verb << " " << child.pid;
  }
}

// The state of the program that decodes for this decoder process: 'T' is stopped.
std::optional<char> state_of_program(int decoder) {
  std::error_code code;
  for (const auto& process : fs::directory_iterator("/proc", code)) {
    const std::string stat = read_text(process.path() / "stat");
    const std::size_t at = stat.rfind(") ");  // the name before it may contain any character
    if (at == std::string::npos) continue;
    std::istringstream fields(stat.substr(at + 2));
    char state = 0;
    int parent = 0;
    fields >> state >> parent;
    if (parent == decoder) return state;
  }
  return std::nullopt;
}

// The decoder waits for the next request while the worker runs, so the program that decodes must be stopped.
TEST_F(BenchProcesses, StopsTheVideoDecoderWhileAModelRuns) {
  const auto video = opencv_example("data/Megamind.avi");
  if (!video) GTEST_SKIP() << absent_message("Megamind.avi of opencv-doc");
  int times_stopped = 0;
  CommandOptions options;
  options.while_running = [&](int conductor) {
    const auto children = descendants_of(conductor);
    const Child* decoder = find_child(children, "_decode");
    const auto state = decoder != nullptr ? state_of_program(decoder->pid) : std::nullopt;
    if (state == 'T') ++times_stopped;
    return true;
  };
  ASSERT_THAT(bench_.run({"--source", video->string(), "--backend", "misbehaving", "--imgsz", "64",
                          "--max-frames", "100", "--model", model("m", "segment even 64\nrun sleep 20")},
                         options),
              Ends(0));
  EXPECT_GE(times_stopped, 5);
}

TEST_F(BenchProcesses, ReportsWhyAKilledSetupEnded) {
  CommandOptions options;
  options.while_running = [&](int conductor) {
    const auto now = descendants_of(conductor);
    const Child* setup = find_child(now, "_setup");
    if (setup == nullptr || find_child(now, "_worker") == nullptr) return true;
    ::kill(setup->pid, SIGKILL);
    return false;
  };
  EXPECT_THAT(run({"--model", model("m", "load hang")}, options),
              Ends(1, testing::_, HasSubstr("the report so far is in " + bench_.run_folder().string())));
  const Json report = bench_.report();
  EXPECT_EQ(get_bool(report, "complete"), false);
  const Json& warnings = get_member(report, "warnings");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0].get<std::string>(), HasSubstr("ended with SIGKILL"));
  EXPECT_THAT(file("report.md"), HasSubstr(warnings[0].get<std::string>()));
}

// A run whose decoder gets `signal` while the model is measured; another model follows.
struct DecoderSignalled {
  Bench bench;
  CommandResult result;
  Json report, face;
  bool signalled = false;

  DecoderSignalled(const fs::path& model, int signal) {
    CommandOptions options;
    options.while_running = [&](int conductor) {
      if (!is_measuring(bench)) return true;
      const auto children = descendants_of(conductor);
      const Child* decoder = find_child(children, "_decode");
      if (decoder == nullptr) return true;
      signalled = ::kill(decoder->pid, signal) == 0;
      return false;
    };
    result =
        bench.run({"--source", many_pictures(bench), "--metrics-interval", "50ms", "--max-frames", "3000",
                   "--max-frames-in-mem", "1", "--timeout", "5s", "--model", "face=" + model.string(),
                   "--model", "after=" + bench.model("after", "") + ",backend=misbehaving"},
                  options);
    report = bench.report();
    face = model_of(report, "face");
  }

  void expect_the_rest_unharmed() const {
    EXPECT_TRUE(signalled);
    EXPECT_EQ(result.exit_code, 1) << result.err;
    const std::int64_t frames = get_integer(get_member(face, "latency_ns"), "n").value_or(0);
    EXPECT_GT(frames, 0);
    EXPECT_LT(frames, kPictures);
    EXPECT_TRUE(get_number(face, "fps"));
    EXPECT_EQ(get_bool(report, "complete"), true);
    EXPECT_EQ(get_text(model_of(report, "after"), "status"), "ok");
    EXPECT_TRUE(fs::exists(bench.run_folder() / "report.html"));
  }
};

TEST_F(BenchProcesses, NamesADecoderThatIsKilledOrHangs) {
  const auto face = dependency_file(kFaceModel);
  if (!face) GTEST_SKIP() << absent_message("the face model");
  const DecoderSignalled killed(*face, SIGKILL);
  EXPECT_EQ(get_text(killed.face, "status"), "failed");
  EXPECT_EQ(get_text(killed.face, "error"), "the frame decoder ended with SIGKILL (signal 9)");
  killed.expect_the_rest_unharmed();
  const DecoderSignalled stopped(*face, SIGSTOP);
  EXPECT_EQ(get_text(stopped.face, "status"), "timeout");
  EXPECT_THAT(get_text(stopped.face, "error"), HasSubstr("the frame decoder did not respond for 5.000 s"));
  stopped.expect_the_rest_unharmed();
}

// Each run uses the answer of its own setup phase, even if another run prepares the same folder.
TEST_F(BenchProcesses, KeepsTheModelsOfRunsThatShareAPreparedFolder) {
  constexpr int kRuns = 6;
  std::vector<CommandResult> results(kRuns);
  std::vector<std::thread> runs;
  for (int i = 0; i < kRuns; ++i)
    runs.emplace_back([&, i] {
      const std::string name = "m" + std::to_string(i);
      const std::string outputs = (bench_.path() / name).string();
      results[static_cast<std::size_t>(i)] = run({"--json", "--max-frames", "3", "--output-dir", outputs,
                                                  "--model", name + "=" + bench_.model(name, "")});
    });
  for (std::thread& run : runs) run.join();
  for (int i = 0; i < kRuns; ++i) {
    const CommandResult& result = results[static_cast<std::size_t>(i)];
    EXPECT_THAT(result, Ends(0));
    const Json own = model_of(json_of(result), "m" + std::to_string(i));
    EXPECT_EQ(get_text(own, "status"), "ok") << result.out;
    // /proc counts in ticks of 10 ms: a run of a few milliseconds showed 0 % or 1155 %.
    const double percent = get_number(own, "cpu_percent").value_or(0);
    EXPECT_GT(percent, 0);
    EXPECT_LT(percent, 110.0 * static_cast<double>(std::max(1U, std::thread::hardware_concurrency())));
  }
}

}  // namespace
}  // namespace headroom::test
