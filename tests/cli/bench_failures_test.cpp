// Failures in the field: each has one clear message and the right exit code, and everything else is measured.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "base/files.h"
#include "base/text.h"
#include "cli/command.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

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

TEST(BenchFailures, ReportsAModelThatFailsToLoad) {
  const Neighbours run("load fail");
  EXPECT_EQ(get_text(run.bad(), "status"), "failed");
  EXPECT_THAT(get_text(run.bad(), "error"), HasSubstr("it was told to fail"));
}

TEST(BenchFailures, ReportsAModelThatCrashes) {
  const Neighbours run("run crash");
  EXPECT_EQ(get_text(run.bad(), "status"), "crashed");
  EXPECT_THAT(get_text(run.bad(), "error"), HasSubstr("SIGSEGV"));
  EXPECT_EQ(get_text(run.bad(), "died_in"), "model_loaded");
}

TEST(BenchFailures, ReportsAModelThatHangs) {
  const Neighbours run("load hang", {"--timeout", "4s"});
  EXPECT_EQ(get_text(run.bad(), "status"), "timeout");
  EXPECT_THAT(get_text(run.bad(), "error"), HasSubstr("--timeout"));
  EXPECT_EQ(get_text(run.bad(), "died_in"), "runtime_loaded");
}

TEST(BenchFailures, ReportsAModelThatExits) {
  const Neighbours run("run exit 7");
  EXPECT_EQ(get_text(run.bad(), "status"), "crashed");
  EXPECT_THAT(get_text(run.bad(), "error"), HasSubstr("exit code 7"));
}

TEST(BenchFailures, ReportsARefusedAllocationAsOutOfMemory) {
  const Neighbours run("run bad_alloc");
  EXPECT_EQ(get_text(run.bad(), "status"), "oom");
}

TEST(BenchFailures, KeepsTheFiguresOfAKilledWorker) {
  Bench bench;
  bool killed = false;
  CommandOptions options;
  options.while_running = [&](int conductor) {
    // The worker of the inference phase has run some frames: wait until metrics.jsonl names it.
    if (read_text(bench.run_folder() / "metrics.jsonl").find("\"warm\"") == std::string::npos) return true;
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
  const CommandResult result = bench.run(
      {"--source", bench.pictures(), "--backend", "misbehaving", "--metrics-interval", "50ms", "--max-frames",
       "1500", "--warmup", "1", "--model", "slow=" + bench.model("slow", "run sleep 2"), "--model",
       "after=" + bench.model("after", "")},
      options);
  ASSERT_TRUE(killed);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const Json slow = model_of(bench.report(), "slow");
  EXPECT_EQ(get_text(slow, "status"), "crashed");
  EXPECT_THAT(get_text(slow, "error"), HasSubstr("killed from outside"));
  EXPECT_EQ(get_text(model_of(bench.report(), "after"), "status"), "ok");
}

TEST(BenchFailures, MarksTheReportIncompleteAfterCtrlC) {
  Bench bench;
  CommandOptions options;
  options.while_running = [&](int conductor) {
    if (read_text(bench.run_folder() / "metrics.jsonl").find("slow") == std::string::npos) return true;
    ::kill(conductor, SIGINT);
    return false;
  };
  const CommandResult result = bench.run(
      {"--source", bench.pictures(), "--backend", "misbehaving", "--metrics-interval", "50ms", "--max-frames",
       "5000", "--model", "first=" + bench.model("first", ""), "--model",
       "slow=" + bench.model("slow", "run sleep 2"), "--model", "never=" + bench.model("never", "")},
      options);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  const Json report = bench.report();
  EXPECT_EQ(get_bool(report, "complete"), false);
  EXPECT_EQ(get_text(model_of(report, "first"), "status"), "ok");
  EXPECT_THAT(get_text(model_of(report, "slow"), "error"), HasSubstr("ended while it was being measured"));
  EXPECT_EQ(get_text(model_of(report, "never"), "status"), "skipped");
  EXPECT_THAT(get_text(model_of(report, "never"), "error"), HasSubstr("ended before it was measured"));
  EXPECT_THAT(read_text(bench.run_folder() / "report.md"), HasSubstr("ncomplete"));
}

TEST(BenchFailures, KeepsTheTrialsOfAnInterruptedSetup) {
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

TEST(BenchFailures, LeavesAReportWhenTheConductorIsKilled) {
  Bench bench;
  CommandOptions options;
  options.while_running = [&](int conductor) {
    if (read_text(bench.run_folder() / "metrics.jsonl").find("slow") == std::string::npos) return true;
    ::kill(conductor, SIGKILL);
    return false;
  };
  const std::string slow = bench.model("slow", "run sleep 2");
  const CommandResult result = bench.run(
      {"--source", bench.pictures(), "--backend", "misbehaving", "--metrics-interval", "50ms", "--max-frames",
       "5000", "--model", "first=" + bench.model("first", ""), "--model", "slow=" + slow},
      options);
  EXPECT_EQ(result.signal, SIGKILL);
  const Json report = bench.report();
  EXPECT_EQ(get_bool(report, "complete"), false);
  EXPECT_EQ(get_text(model_of(report, "first"), "status"), "ok");
}

TEST(BenchFailures, LeavesAPartialReportWhenKilledInItsOnlyModel) {
  Bench bench;
  CommandOptions options;
  options.while_running = [&](int conductor) {
    if (read_text(bench.run_folder() / "metrics.jsonl").find("slow") == std::string::npos) return true;
    ::kill(conductor, SIGKILL);
    return false;
  };
  const CommandResult result =
      bench.run({"--source", bench.pictures(), "--backend", "misbehaving", "--metrics-interval", "50ms",
                 "--max-frames", "5000", "--model", "slow=" + bench.model("slow", "run sleep 2")},
                options);
  EXPECT_EQ(result.signal, SIGKILL);
  const Json report = bench.report();
  EXPECT_EQ(get_bool(report, "complete"), false);
  EXPECT_EQ(get_text(model_of(report, "slow"), "status"), "failed");
  EXPECT_THAT(get_text(model_of(report, "slow"), "error"), HasSubstr("ended while it was being measured"));
  EXPECT_THAT(read_text(bench.run_folder() / "report.md"), HasSubstr("slow"));
}

// Like a TensorRT plug-in on a machine without TensorRT.
TEST(BenchFailures, TriesTheNextBackendIfOneCannotBeLoaded) {
  const auto model = dependency_file("models/face_detection_front_128x128_barracuda.onnx");
  if (!model) GTEST_SKIP() << absent_message("the face model");
  Bench bench;
  const fs::path plugins = bench.path() / "plugins";
  fs::create_directories(plugins);
  write_text(plugins / "libheadroom_backend_tensorrt.so", "not a library");
  fs::copy_file(*model, bench.path() / "m.onnx");
  write_text(bench.path() / "m.engine", "an engine of it");
  const auto run_on = [&](const std::string& device) {
    CommandOptions options;
    options.folder = bench.path();
    options.environment = {{"HEADROOM_BACKEND_PATH", plugins.string()},
                           {"LD_LIBRARY_PATH", test::built_path("tests/fake_cuda")}};
    return run_headroom({"bench", "--output-dir", "outputs", "--prepared-dir", "prepared", "--source",
                         bench.pictures(), "--max-frames", "2", "--model", "m=m.onnx", "--device", device},
                        options);
  };
  const CommandResult on_cpu = run_on("cpu");
  EXPECT_EQ(on_cpu.exit_code, 0) << on_cpu.err;
  EXPECT_THAT(on_cpu.err, Not(HasSubstr("tensorrt"))) << "it runs on GPUs alone";
  EXPECT_EQ(get_text(model_of(bench.report(), "m"), "backend"), "onnxruntime");
#ifndef HEADROOM_SANITIZED  // a sanitizer's runtime must be loaded before any preloaded library
  // The next backend cannot use this device either: its library has no CUDA provider.
  const CommandResult on_gpu = run_on("cuda:0");
  EXPECT_EQ(on_gpu.exit_code, 1);
  EXPECT_THAT(on_gpu.err, HasSubstr("tensorrt cannot be used"));
  const Json used = model_of(bench.report(), "m");
  EXPECT_EQ(get_text(used, "backend"), "onnxruntime");
  EXPECT_THAT(get_text(used, "error"), HasSubstr("CUDA provider"));
  EXPECT_THAT(to_text(get_member(used, "warnings")), HasSubstr("tensorrt cannot be used"));
#endif
}

TEST(BenchFailures, NamesACorruptModelAndAnUnknownOperator) {
  const auto good = dependency_file("models/face_detection_back_256x256_barracuda.onnx");
  if (!good) GTEST_SKIP() << absent_message("the face model");
  Bench bench;
  const std::string corrupt = (bench.path() / "corrupt.onnx").string();
  write_text(corrupt, read_text(*good).substr(0, 200'000));
  std::vector<std::string> arguments{
      "--source", bench.pictures(),     "--max-frames", "3",
      "--model",  "corrupt=" + corrupt, "--model",      "good=" + good->string()};
  const auto unknown = shared_data("models_bad/pytorch_superresolution_prepost.onnx");
  if (unknown) arguments.insert(arguments.end(), {"--model", "unknown=" + unknown->string()});
  const CommandResult result = bench.run(arguments);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(get_text(model_of(bench.report(), "corrupt"), "status"), "failed");
  EXPECT_EQ(get_text(model_of(bench.report(), "good"), "status"), "ok");
  if (unknown) {
    EXPECT_EQ(get_text(model_of(bench.report(), "unknown"), "status"), "failed");
  }
}

TEST(BenchFailures, SkipsAndCountsATruncatedImage) {
  const auto picture = opencv_example("data/messi5.jpg");
  if (!picture) GTEST_SKIP() << absent_message("messi5.jpg of opencv-doc");
  Bench bench;
  write_text(bench.path() / "pictures/cut.jpg", read_text(*picture).substr(0, 30'000));
  const CommandResult result = bench.run({"--source", bench.pictures(), "--backend", "misbehaving",
                                          "--max-frames", "3", "--model", "m=" + bench.model("m", "")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("cut.jpg"));
  const Json skipped = get_member(get_member(bench.report(), "source"), "skipped");
  ASSERT_EQ(skipped.size(), 1U);
  EXPECT_EQ(get_text(skipped[0], "name"), "cut.jpg");
}

// The header shows that the image would need 283 MiB, so nothing is decoded.
TEST(BenchFailures, SkipsAndCountsAnImageLargerThanTheWorkspace) {
  Bench bench;
  const std::string size("\x00\x00\x2A\xF8\x00\x00\x23\x28", 8);  // 11000, 9000
  write_text(bench.path() / "pictures/big.png", std::string("\x89PNG\r\n\x1a\n\0\0\0\x0DIHDR", 16) + size +
                                                    std::string("\x08\x02\0\0\0CRC!\0\0\0\0IENDCRC!", 21));
  const std::vector<std::string> arguments{"--source",     bench.pictures(),
                                           "--backend",    "misbehaving",
                                           "--model",      "m=" + bench.model("m", ""),
                                           "--max-frames", "3"};
  const CommandResult result = bench.run(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(get_text(model_of(bench.report(), "m"), "status"), "ok");
  const Json skipped = get_member(get_member(bench.report(), "source"), "skipped");
  ASSERT_EQ(skipped.size(), 1U);
  EXPECT_EQ(get_text(skipped[0], "name"), "big.png");
  EXPECT_THAT(
      get_text(skipped[0], "reason"),
      testing::AllOf(HasSubstr("11000 x 9000 pixels of 24 bits needs 283.2 MiB"), HasSubstr("--workspace")));
  EXPECT_THAT(read_text(bench.run_folder() / "report.md"), HasSubstr("big.png"));
}

TEST(BenchFailures, WarnsIfASampleCannotBeWritten) {
  const auto model = dependency_file("models/face_detection_back_256x256_barracuda.onnx");
  if (!model) GTEST_SKIP() << absent_message("the face model");
  Bench bench;
  CommandOptions options;
  options.while_running = [&](int) {
    if (bench.run_folder().empty()) return true;
    std::error_code code;
    fs::create_directories(bench.run_folder() / "samples/face_1.jpg", code);  // a folder at the image's path
    return bool(code);
  };
  const CommandResult result =
      bench.run({"--source", bench.pictures(), "--model", "face=" + model->string()}, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 of 1 annotated samples could not be made"));
  const Json face = model_of(bench.report(), "face");
  EXPECT_THAT(to_text(get_member(face, "warnings")), HasSubstr("face_1.jpg"));
  EXPECT_TRUE(get_member(face, "annotated_images").empty());
}

// Size and modification time are unchanged, so the scan stays valid, and the run finds the damage.
TEST(BenchFailures, CountsAnImageDamagedAfterTheScan) {
  const auto model = dependency_file("models/face_detection_back_256x256_barracuda.onnx");
  if (!model) GTEST_SKIP() << absent_message("the face model");
  Bench bench;
  const fs::path pictures = bench.pictures();
  const fs::path picture = fs::directory_iterator(pictures)->path();
  const fs::path victim = pictures / ("zz" + picture.extension().string());
  fs::copy_file(picture, victim);
  const std::vector<std::string> arguments{"--source", pictures.string(), "--model", "m=" + model->string()};
  auto setup = arguments;
  setup.emplace_back("--skip-inference");
  ASSERT_EQ(bench.run(setup).exit_code, 0);
  const auto time = fs::last_write_time(victim);
  write_text(victim, std::string(fs::file_size(victim), 'x'));
  fs::last_write_time(victim, time);
  auto inference = arguments;
  inference.emplace_back("--skip-setup");
  const CommandResult result = bench.run(inference);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json measured = model_of(bench.report(), "m");
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

TEST(BenchFailures, RejectsAnEmptyFolder) {
  Bench bench;
  fs::create_directory(bench.path() / "empty");
  expect_wrong_use(bench.run({"--source", (bench.path() / "empty").string(), "--backend", "misbehaving",
                              "--model", "m=" + bench.model("m", "")}),
                   "empty");
}

TEST(BenchFailures, RejectsPreparedDataWithoutMetadata) {
  Bench bench;
  std::vector<std::string> arguments{"--source",    bench.pictures(), "--backend",
                                     "misbehaving", "--model",        "m=" + bench.model("m", "")};
  auto setup = arguments;
  setup.emplace_back("--skip-inference");
  ASSERT_EQ(bench.run(setup).exit_code, 0);
  ASSERT_TRUE(fs::remove(bench.path() / "prepared/metadata.json"));
  arguments.emplace_back("--skip-setup");
  const CommandResult result = bench.run(arguments);
  expect_wrong_use(result, "its metadata.json cannot be read: No such file or directory");
  EXPECT_THAT(result.err, HasSubstr("run again without --skip-setup"));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("the run continues")));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("different sources")));
}

TEST(BenchFailures, RejectsAMissingCamera) {
  Bench bench;
  expect_wrong_use(bench.run({"--source", "camera=97", "--backend", "misbehaving", "--model",
                              "m=" + bench.model("m", "")}),
                   "camera");
}

TEST(BenchFailures, RejectsParallelRunsOnACamera) {
  Bench bench;
  expect_wrong_use(bench.run({"--source", "camera=0", "--backend", "misbehaving", "--parallel", "--model",
                              "a=" + bench.model("a", ""), "--model", "b=" + bench.model("b", "")}),
                   "--pipeline");
  EXPECT_FALSE(fs::exists(bench.path() / "outputs") && !fs::is_empty(bench.path() / "outputs"));
}

TEST(BenchFailures, RejectsAnUnwritableOutputFolder) {
  Bench bench;
  expect_wrong_use(bench.run({"--source", bench.pictures(), "--backend", "misbehaving", "--model",
                              "m=" + bench.model("m", ""), "--output-dir", "/proc/outputs"}),
                   "choose a writable folder");
}

TEST(BenchFailures, RejectsAMissingModel) {
  Bench bench;
  expect_wrong_use(bench.run({"--source", bench.pictures(), "--model", "m=/nowhere/m.onnx"}),
                   "/nowhere/m.onnx");
}

}  // namespace
}  // namespace headroom::test
