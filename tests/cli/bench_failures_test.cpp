// Failures in the field: each has one clear message and the right exit code, and everything else is measured.
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "base/files.h"
#include "base/text.h"
#include "cli/bench_fixture.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using BenchFailures = BenchTest;

// One failing model between two good ones; the good ones must be measured.
struct Neighbours {
  Bench bench;
  CommandResult result;
  Json report;

  explicit Neighbours(const std::string& commands, std::vector<std::string> more = {},
                      CommandOptions options = {}) {
    std::vector<std::string> arguments{"--source",     bench.pictures(),
                                       "--backend",    "misbehaving",
                                       "--max-frames", "5",
                                       "--model",      "before=" + bench.model("before", ""),
                                       "--model",      "bad=" + bench.model("bad", commands),
                                       "--model",      "after=" + bench.model("after", "")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    result = bench.run(arguments, std::move(options));
    report = bench.report();
    EXPECT_EQ(get_text(model_of(report, "before"), "status"), "ok") << result.err;
    EXPECT_EQ(get_text(model_of(report, "after"), "status"), "ok") << result.err;
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_TRUE(fs::exists(bench.run_folder() / "report.html"));
  }
  Json bad() const { return model_of(report, "bad"); }
};

TEST_F(BenchFailures, ReportsHowAModelFailed) {
  struct Case {
    const char *commands, *status, *error, *died_in;
    std::vector<std::string> more;
  };
  for (const Case& row : {Case{"load fail", "failed", "it was told to fail", "runtime_loaded", {}},
                          {"run crash", "crashed", "SIGSEGV", "model_loaded", {}},
                          {"load hang", "timeout", "--timeout", "runtime_loaded", {"--timeout", "4s"}},
                          {"run exit 7", "crashed", "exit code 7", "model_loaded", {}},
                          {"run bad_alloc", "oom", "", "model_loaded", {}}}) {
    SCOPED_TRACE(row.commands);
    const Neighbours run(row.commands, row.more);
    EXPECT_EQ(get_text(run.bad(), "status"), row.status);
    EXPECT_THAT(get_text(run.bad(), "error"), HasSubstr(row.error));
    EXPECT_EQ(get_text(run.bad(), "died_in"), row.died_in);
  }
}

TEST_F(BenchFailures, KeepsTheFiguresOfAKilledWorker) {
  bool killed = false;
  CommandOptions options;
  options.while_running = [&](int conductor) {
    // The worker of the inference phase has run some frames: wait until metrics.jsonl names it.
    if (file("metrics.jsonl").find("\"warm\"") == std::string::npos) return true;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const auto pid = parse_number<int>(entry.path().filename().string());
      if (!pid) continue;
      const std::string status = read_text(entry.path() / "status");
      if (status.find("PPid:\t" + std::to_string(conductor) + "\n") == std::string::npos) continue;
      if (read_text(entry.path() / "cmdline").find("_worker") == std::string::npos) continue;
      ::kill(*pid, SIGKILL);
      killed = true;
      return false;
    }
    return true;
  };
  const CommandResult result = run({"--metrics-interval", "50ms", "--max-frames", "1500", "--warmup", "1",
                                    "--model", model("slow", "run sleep 2"), "--model", model("after", "")},
                                   options);
  ASSERT_TRUE(killed);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const Json slow = entry("slow");
  EXPECT_EQ(get_text(slow, "status"), "crashed");
  EXPECT_THAT(get_text(slow, "error"), HasSubstr("killed from outside"));
  EXPECT_EQ(status_of("after"), "ok");
}

TEST_F(BenchFailures, MarksTheReportIncompleteAfterCtrlC) {
  const CommandOptions options = signal_when("metrics.jsonl", "slow", SIGINT);
  const CommandResult result =
      run({"--metrics-interval", "50ms", "--max-frames", "5000", "--model", model("first", ""), "--model",
           model("slow", "run sleep 2"), "--model", model("never", "")},
          options);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  const Json report = bench_.report();
  EXPECT_EQ(get_bool(report, "complete"), false);
  EXPECT_EQ(status_of("first"), "ok");
  EXPECT_THAT(error_of("slow"), HasSubstr("ended while it was being measured"));
  EXPECT_EQ(status_of("never"), "skipped");
  EXPECT_THAT(error_of("never"), HasSubstr("ended before it was measured"));
  EXPECT_THAT(file("report.md"), HasSubstr("ncomplete"));
}

TEST_F(BenchFailures, KeepsTheTrialsOfAnInterruptedSetup) {
  for (const int signal : {SIGINT, SIGKILL}) {
    Bench bench;
    CommandOptions options;
    options.while_running = [&](int conductor) {
      if (read_text(bench.run_folder() / "report.json").find("\"p50_ns\"") == std::string::npos) return true;
      ::kill(conductor, signal);
      return false;
    };
    bench.run({"--source", bench.pictures(), "--backend", "misbehaving", "--tune", "--model",
               "broken=" + bench.model("broken", "load fail"), "--model",
               "slow=" + bench.model("slow", "run sleep 20")},
              options);
    const Json report = bench.report();
    EXPECT_EQ(get_bool(report, "complete"), false);
    EXPECT_EQ(get_text(model_of(report, "broken"), "status"), "failed");
    const Json slow = model_of(report, "slow");
    EXPECT_EQ(get_text(slow, "status"), "skipped");
    ASSERT_FALSE(get_member(slow, "trials").empty());
    EXPECT_TRUE(get_integer(get_member(slow, "trials")[0], "p50_ns"));
  }
}

TEST_F(BenchFailures, LeavesAReportWhenTheConductorIsKilled) {
  const CommandOptions options = signal_when("metrics.jsonl", "slow", SIGKILL);
  const std::string slow = bench_.model("slow", "run sleep 2");
  const CommandResult result = run({"--metrics-interval", "50ms", "--max-frames", "5000", "--model",
                                    model("first", ""), "--model", "slow=" + slow},
                                   options);
  EXPECT_EQ(result.signal, SIGKILL);
  const Json report = bench_.report();
  EXPECT_EQ(get_bool(report, "complete"), false);
  EXPECT_EQ(status_of("first"), "ok");
}

TEST_F(BenchFailures, LeavesAPartialReportWhenKilledInItsOnlyModel) {
  const CommandOptions options = signal_when("metrics.jsonl", "slow", SIGKILL);
  const CommandResult result =
      run({"--metrics-interval", "50ms", "--max-frames", "5000", "--model", model("slow", "run sleep 2")},
          options);
  EXPECT_EQ(result.signal, SIGKILL);
  const Json report = bench_.report();
  EXPECT_EQ(get_bool(report, "complete"), false);
  EXPECT_EQ(status_of("slow"), "failed");
  EXPECT_THAT(error_of("slow"), HasSubstr("ended while it was being measured"));
  EXPECT_THAT(file("report.md"), HasSubstr("slow"));
}

// Like a TensorRT plug-in on a machine without TensorRT.
TEST_F(BenchFailures, TriesTheNextBackendIfOneCannotBeLoaded) {
  const auto model = dependency_file("models/face_detection_front_128x128_barracuda.onnx");
  if (!model) GTEST_SKIP() << absent_message("the face model");
  const fs::path plugins = bench_.path() / "plugins";
  fs::create_directories(plugins);
  write_text(plugins / "libheadroom_backend_tensorrt.so", "not a library");
  fs::copy_file(*model, bench_.path() / "m.onnx");
  write_text(bench_.path() / "m.engine", "an engine of it");
  const auto run_on = [&](const std::string& device) {
    CommandOptions options;
    options.folder = bench_.path();
    options.environment = {{"HEADROOM_BACKEND_PATH", plugins.string()},
                           {"LD_LIBRARY_PATH", test::built_path("tests/fake_cuda")}};
    return run_headroom({"bench", "--output-dir", "outputs", "--prepared-dir", "prepared", "--source",
                         bench_.pictures(), "--max-frames", "2", "--model", "m=m.onnx", "--device", device},
                        options);
  };
  const CommandResult on_cpu = run_on("cpu");
  EXPECT_EQ(on_cpu.exit_code, 0) << on_cpu.err;
  EXPECT_THAT(on_cpu.err, Not(HasSubstr("tensorrt"))) << "it runs on GPUs alone";
  EXPECT_EQ(get_text(entry("m"), "backend"), "onnxruntime");
#ifndef HEADROOM_SANITIZED  // a sanitizer's runtime must be loaded before any preloaded library
  // The next backend cannot use this device either: its library has no CUDA provider.
  const CommandResult on_gpu = run_on("cuda:0");
  EXPECT_EQ(on_gpu.exit_code, 1);
  EXPECT_THAT(on_gpu.err, HasSubstr("tensorrt cannot be used"));
  const Json used = entry("m");
  EXPECT_EQ(get_text(used, "backend"), "onnxruntime");
  EXPECT_THAT(get_text(used, "error"), HasSubstr("CUDA provider"));
  EXPECT_THAT(to_text(get_member(used, "warnings")), HasSubstr("tensorrt cannot be used"));
#endif
}

TEST_F(BenchFailures, NamesACorruptModelAndAnUnknownOperator) {
  const auto good = dependency_file("models/face_detection_back_256x256_barracuda.onnx");
  if (!good) GTEST_SKIP() << absent_message("the face model");
  const std::string corrupt = (bench_.path() / "corrupt.onnx").string();
  write_text(corrupt, read_text(*good).substr(0, 200'000));
  std::vector<std::string> arguments{
      "--source", bench_.pictures(),    "--max-frames", "3",
      "--model",  "corrupt=" + corrupt, "--model",      "good=" + good->string()};
  const auto unknown = shared_data("models_bad/pytorch_superresolution_prepost.onnx");
  if (unknown) arguments.insert(arguments.end(), {"--model", "unknown=" + unknown->string()});
  const CommandResult result = bench_.run(arguments);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(status_of("corrupt"), "failed");
  EXPECT_EQ(status_of("good"), "ok");
  if (unknown) {
    EXPECT_EQ(status_of("unknown"), "failed");
  }
}

TEST_F(BenchFailures, SkipsAndCountsATruncatedImage) {
  const auto picture = opencv_example("data/messi5.jpg");
  if (!picture) GTEST_SKIP() << absent_message("messi5.jpg of opencv-doc");
  write_text(bench_.path() / "pictures/cut.jpg", read_text(*picture).substr(0, 30'000));
  const CommandResult result = run({"--max-frames", "3", "--model", model("m", "")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("cut.jpg"));
  const Json skipped = get_member(get_member(bench_.report(), "source"), "skipped");
  ASSERT_EQ(skipped.size(), 1U);
  EXPECT_EQ(get_text(skipped[0], "name"), "cut.jpg");
}

// The header shows that the image would need 283 MiB, so nothing is decoded.
TEST_F(BenchFailures, SkipsAndCountsAnImageLargerThanTheWorkspace) {
  const std::string size("\x00\x00\x2A\xF8\x00\x00\x23\x28", 8);  // 11000, 9000
  write_text(bench_.path() / "pictures/big.png", std::string("\x89PNG\r\n\x1a\n\0\0\0\x0DIHDR", 16) + size +
                                                     std::string("\x08\x02\0\0\0CRC!\0\0\0\0IENDCRC!", 21));
  const std::vector<std::string> arguments{"--source", bench_.pictures(), "--backend",    "misbehaving",
                                           "--model",  model("m", ""),    "--max-frames", "3"};
  const CommandResult result = bench_.run(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(status_of("m"), "ok");
  const Json skipped = get_member(get_member(bench_.report(), "source"), "skipped");
  ASSERT_EQ(skipped.size(), 1U);
  EXPECT_EQ(get_text(skipped[0], "name"), "big.png");
  EXPECT_THAT(
      get_text(skipped[0], "reason"),
      testing::AllOf(HasSubstr("11000 x 9000 pixels of 24 bits needs 283.2 MiB"), HasSubstr("--workspace")));
  EXPECT_THAT(file("report.md"), HasSubstr("big.png"));
}

TEST_F(BenchFailures, WarnsIfASampleCannotBeWritten) {
  const auto model = dependency_file("models/face_detection_back_256x256_barracuda.onnx");
  if (!model) GTEST_SKIP() << absent_message("the face model");
  CommandOptions options;
  options.while_running = [&](int) {
    if (bench_.run_folder().empty()) return true;
    std::error_code code;
    fs::create_directories(bench_.run_folder() / "samples/face_1.jpg", code);  // a folder at the image's path
    return bool(code);
  };
  const CommandResult result =
      bench_.run({"--source", bench_.pictures(), "--model", "face=" + model->string()}, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 of 1 annotated samples could not be made"));
  const Json face = entry("face");
  EXPECT_THAT(to_text(get_member(face, "warnings")), HasSubstr("face_1.jpg"));
  EXPECT_TRUE(get_member(face, "annotated_images").empty());
}

// Size and modification time are unchanged, so the scan stays valid, and the run finds the damage.
TEST_F(BenchFailures, CountsAnImageDamagedAfterTheScan) {
  const auto model = dependency_file("models/face_detection_back_256x256_barracuda.onnx");
  if (!model) GTEST_SKIP() << absent_message("the face model");
  const fs::path pictures = bench_.pictures();
  const fs::path picture = fs::directory_iterator(pictures)->path();
  const fs::path victim = pictures / ("zz" + picture.extension().string());
  fs::copy_file(picture, victim);
  const std::vector<std::string> arguments{"--source", pictures.string(), "--model", "m=" + model->string()};
  auto setup = arguments;
  setup.emplace_back("--skip-inference");
  ASSERT_EQ(bench_.run(setup).exit_code, 0);
  const auto time = fs::last_write_time(victim);
  write_text(victim, std::string(fs::file_size(victim), 'x'));
  fs::last_write_time(victim, time);
  auto inference = arguments;
  inference.emplace_back("--skip-setup");
  const CommandResult result = bench_.run(inference);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json measured = entry("m");
  EXPECT_EQ(get_text(measured, "status"), "ok");
  EXPECT_EQ(get_integer(measured, "frames"), 1);
  EXPECT_EQ(get_integer(measured, "skipped_frames"), 1);
  EXPECT_THAT(to_text(get_member(measured, "warnings")), HasSubstr(victim.filename().string()));
}

// Wrong use ends with exit code 2 and one sentence before anything runs.
void expect_wrong_use(const CommandResult& result, const std::string& part) {
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(part));
  EXPECT_THAT(result.out, testing::IsEmpty());
}

TEST_F(BenchFailures, RejectsAnEmptyFolder) {
  fs::create_directory(bench_.path() / "empty");
  expect_wrong_use(bench_.run({"--source", (bench_.path() / "empty").string(), "--backend", "misbehaving",
                               "--model", model("m", "")}),
                   "empty");
}

TEST_F(BenchFailures, RejectsPreparedDataWithoutMetadata) {
  std::vector<std::string> arguments{"--source",    bench_.pictures(), "--backend",
                                     "misbehaving", "--model",         model("m", "")};
  auto setup = arguments;
  setup.emplace_back("--skip-inference");
  ASSERT_EQ(bench_.run(setup).exit_code, 0);
  ASSERT_TRUE(fs::remove(bench_.path() / "prepared/metadata.json"));
  arguments.emplace_back("--skip-setup");
  const CommandResult result = bench_.run(arguments);
  expect_wrong_use(result, "its metadata.json cannot be read: No such file or directory");
  EXPECT_THAT(result.err, HasSubstr("run again without --skip-setup"));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("the run continues")));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("different sources")));
}

TEST_F(BenchFailures, RejectsAMissingCamera) {
  expect_wrong_use(
      bench_.run({"--source", "camera=97", "--backend", "misbehaving", "--model", model("m", "")}), "camera");
}

TEST_F(BenchFailures, RejectsParallelRunsOnACamera) {
  expect_wrong_use(bench_.run({"--source", "camera=0", "--backend", "misbehaving", "--parallel", "--model",
                               model("a", ""), "--model", model("b", "")}),
                   "--pipeline");
  EXPECT_FALSE(fs::exists(bench_.path() / "outputs") && !fs::is_empty(bench_.path() / "outputs"));
}

TEST_F(BenchFailures, RejectsAnUnwritableOutputFolder) {
  expect_wrong_use(run({"--model", model("m", ""), "--output-dir", "/proc/outputs"}),
                   "choose a writable folder");
}

TEST_F(BenchFailures, RejectsAMissingModel) {
  expect_wrong_use(bench_.run({"--source", bench_.pictures(), "--model", "m=/nowhere/m.onnx"}),
                   "/nowhere/m.onnx");
}

}  // namespace
}  // namespace headroom::test
