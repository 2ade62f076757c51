// Failures in the field: each has one clear message and the right exit code, and everything else is measured.
#include <signal.h>

#include "cli/bench_fixture.h"
#include "cli/process_tree.h"

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
    result = bench.run(joined({arguments, more}), std::move(options));
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
    const auto children = descendants_of(conductor);
    const Child* worker = find_child(children, "_worker");
    killed = worker != nullptr && ::kill(worker->pid, SIGKILL) == 0;
    return !killed;
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

TEST_F(BenchFailures, LeavesAnIncompleteReportAfterASignal) {
  for (const int signal : {SIGINT, SIGKILL}) {
    const CommandResult result =
        run({"--metrics-interval", "50ms", "--max-frames", "5000", "--model", model("first", ""), "--model",
             model("slow", "run sleep 2"), "--model", model("never", "")},
            signal_when("metrics.jsonl", "slow", signal));
    if (signal == SIGINT) {
      EXPECT_EQ(result.exit_code, 130) << result.err;
    } else {
      EXPECT_EQ(result.signal, SIGKILL);
    }
    EXPECT_EQ(get_bool(bench_.report(), "complete"), false);
    EXPECT_EQ(status_of("first"), "ok");
    EXPECT_THAT(error_of("slow"), HasSubstr("ended while it was being measured"));
    EXPECT_EQ(status_of("never"), "skipped");
    EXPECT_THAT(error_of("never"), HasSubstr("ended before it was measured"));
    EXPECT_THAT(file("report.md"), HasSubstr("ncomplete"));
    fs::remove_all(bench_.path() / "outputs");
  }
}

TEST_F(BenchFailures, KeepsTheTrialsOfAnInterruptedSetup) {
  for (const int signal : {SIGINT, SIGKILL}) {
    run({"--tune", "--model", model("broken", "load fail"), "--model", model("slow", "run sleep 20")},
        signal_when("report.json", "\"p50_ns\"", signal));
    EXPECT_EQ(get_bool(bench_.report(), "complete"), false);
    EXPECT_EQ(status_of("broken"), "failed");
    const Json slow = entry("slow");
    EXPECT_EQ(get_text(slow, "status"), "skipped");
    ASSERT_FALSE(get_member(slow, "trials").empty());
    EXPECT_TRUE(get_integer(get_member(slow, "trials")[0], "p50_ns"));
    fs::remove_all(bench_.path() / "outputs");
  }
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
  EXPECT_THAT(on_gpu, Ends(1, testing::_, HasSubstr("tensorrt cannot be used")));
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
  EXPECT_THAT(bench_.run(arguments), Ends(1));
  EXPECT_EQ(status_of("corrupt"), "failed");
  EXPECT_EQ(status_of("good"), "ok");
  if (unknown) {
    EXPECT_EQ(status_of("unknown"), "failed");
  }
}

// The header of the large image shows that it would need 283 MiB, so it is not decoded.
TEST_F(BenchFailures, SkipsAndCountsATruncatedAndALargeImage) {
  const auto picture = opencv_example("data/messi5.jpg");
  if (!picture) GTEST_SKIP() << absent_message("messi5.jpg of opencv-doc");
  write_text(bench_.path() / "pictures/cut.jpg", read_text(*picture).substr(0, 30'000));
  const std::string size("\x00\x00\x2A\xF8\x00\x00\x23\x28", 8);  // 11000, 9000
  write_text(bench_.path() / "pictures/big.png", std::string("\x89PNG\r\n\x1a\n\0\0\0\x0DIHDR", 16) + size +
                                                     std::string("\x08\x02\0\0\0CRC!\0\0\0\0IENDCRC!", 21));
  const CommandResult result = run({"--max-frames", "3", "--model", model("m", "")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(status_of("m"), "ok");
  const Json skipped = get_member(get_member(bench_.report(), "source"), "skipped");
  ASSERT_EQ(skipped.size(), 2U);
  EXPECT_EQ(get_text(skipped[0], "name"), "big.png");
  EXPECT_THAT(
      get_text(skipped[0], "reason"),
      testing::AllOf(HasSubstr("11000 x 9000 pixels of 24 bits needs 283.2 MiB"), HasSubstr("--workspace")));
  EXPECT_EQ(get_text(skipped[1], "name"), "cut.jpg");
  for (const std::string& text : {result.err, file("report.md")})
    EXPECT_THAT(text, testing::AllOf(HasSubstr("big.png"), HasSubstr("cut.jpg")));
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
  EXPECT_THAT(bench_.run({"--source", bench_.pictures(), "--model", "face=" + model->string()}, options),
              Ends(0, HasSubstr("1 of 1 annotated samples could not be made")));
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
  std::vector<std::string> arguments{"--source", pictures.string(), "--model", "m=" + model->string(),
                                     "--skip-inference"};
  ASSERT_EQ(bench_.run(arguments).exit_code, 0);
  const auto time = fs::last_write_time(victim);
  write_text(victim, std::string(fs::file_size(victim), 'x'));
  fs::last_write_time(victim, time);
  arguments.back() = "--skip-setup";
  EXPECT_THAT(bench_.run(arguments), Ends(0));
  const Json measured = entry("m");
  EXPECT_EQ(get_text(measured, "status"), "ok");
  EXPECT_EQ(get_integer(measured, "frames"), 1);
  EXPECT_EQ(get_integer(measured, "skipped_frames"), 1);
  EXPECT_THAT(to_text(get_member(measured, "warnings")), HasSubstr(victim.filename().string()));
}

// Wrong use ends with exit code 2 and one sentence before anything runs.
void expect_wrong_use(const CommandResult& result, const std::string& part) {
  EXPECT_THAT(result, Ends(2, testing::IsEmpty(), HasSubstr(part)));
}

TEST_F(BenchFailures, RejectsWrongUseInOneSentence) {
  const std::string a = model("a", ""), b = model("b", ""), source = bench_.pictures();
  fs::create_directory(bench_.path() / "empty");
  const std::pair<Words, const char*> rows[] = {
      {{"--source", (bench_.path() / "empty").string(), "--model", a}, "empty"},
      {{"--source", "camera=97", "--model", a}, "camera"},
      {{"--source", "camera=0", "--parallel", "--model", a, "--model", b}, "--pipeline"},
      {{"--source", source, "--model", a, "--output-dir", "/proc/outputs"}, "choose a writable folder"},
      {{"--source", source, "--model", "m=/nowhere/m.onnx"}, "/nowhere/m.onnx"}};
  for (const auto& [words, part] : rows) expect_wrong_use(run_without_source(words), part);
  EXPECT_EQ(bench_.run_folder(), "") << "no folder is left";
}

TEST_F(BenchFailures, RejectsPreparedDataWithoutMetadata) {
  ASSERT_EQ(run({"--model", model("m", ""), "--skip-inference"}).exit_code, 0);
  ASSERT_TRUE(fs::remove(bench_.path() / "prepared/metadata.json"));
  const CommandResult result = run({"--model", model("m", ""), "--skip-setup"});
  expect_wrong_use(result, "its metadata.json cannot be read: No such file or directory");
  EXPECT_THAT(result.err, HasSubstr("run again without --skip-setup"));
}

}  // namespace
}  // namespace headroom::test
