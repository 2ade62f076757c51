// headroom bench with TorchScript modules: recognition, measurement, limits, tuning and error messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

class BenchLibTorch : public testing::Test {
 protected:
  void SetUp() override {
#ifndef HEADROOM_TORCHSCRIPT_BUILT
    GTEST_SKIP() << absent_message("LibTorch (libtorch-dev), which the plug-in is built with");
#else
    if (!fs::exists(fs::path(test::built_path("tests/torchscript")) / "made"))
      GTEST_SKIP() << absent_message("PyTorch for python3 (python3-torch), which makes the modules");
#endif
  }
  static std::string module(const std::string& name) {
#ifdef HEADROOM_TORCHSCRIPT_BUILT
    return (fs::path(test::built_path("tests/torchscript")) / (name + ".pt")).string();
#else
    return name;
#endif
  }
  Bench bench_;
};

TEST_F(BenchLibTorch, ReportsTimeAndMemoryByPhaseOfAModuleButNotOfWeights) {
  EXPECT_THAT(bench_.run({"--threads", "1", "--imgsz", "64", "--max-frames", "5", "--model",
                          "net=" + module("script"), "--model", "weights=" + module("weights")}),
              Ends(1));
  EXPECT_THAT(
      get_text(model_of(bench_.report(), "weights"), "error"),
      testing::AllOf(HasSubstr("holds weights or a pickled Python object"), HasSubstr("torch.jit.trace")));
  const Json model = model_of(bench_.report(), "net");
  EXPECT_EQ(get_text(model, "status"), "ok") << get_text(model, "error");
  EXPECT_EQ(get_text(model, "backend"), "libtorch");
  EXPECT_THAT(get_text(model, "backend_version"), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(get_text(model, "input"), "float32[1,3,64,64]");
  EXPECT_EQ(get_text(model, "task"), "generic");
  EXPECT_EQ(get_text(get_member(model, "settings"), "precision"), "fp32");
  EXPECT_EQ(get_integer(model, "frames"), 5);
  const Json memory = get_member(model, "memory");
  // LibTorch's library counts as runtime, not as model.
  EXPECT_GT(get_integer(memory, "runtime_bytes").value_or(0), get_integer(memory, "start_bytes").value_or(0));
  EXPECT_TRUE(get_integer(memory, "run_peak_bytes"));
  EXPECT_TRUE(fs::exists(bench_.run_folder() / "footprints/net.json"));
}

// The output shapes come from the warm-up in the setup phase; prepared data keeps them.
TEST_F(BenchLibTorch, ReusesTheOutputsLearntInTheSetup) {
  std::vector<std::string> words{"--threads",       "1",
                                 "--source",        bench_.pictures(),
                                 "--max-frames",    "2",
                                 "--precision",     "fp32",
                                 "--model",         "net=" + module("ultralytics_config"),
                                 "--skip-inference"};
  ASSERT_EQ(bench_.run(words).exit_code, 0);
  words.back() = "--skip-setup";
  EXPECT_THAT(bench_.run(words), Ends(0));
  const Json report = bench_.report();
  EXPECT_EQ(get_text(model_of(report, "net"), "task"), "classification");
  EXPECT_EQ(get_text(model_of(report, "net"), "status"), "ok") << get_text(model_of(report, "net"), "error");
  // Another precision needs another preparation.
  words[7] = "bf16";
  EXPECT_THAT(bench_.run(words), IsRefused(HasSubstr("was prepared with another --precision")));
}

TEST_F(BenchLibTorch, FindsTheSameObjectsInBothFormats) {
  const auto script = shared_data("models/yolox_nano_640x640.torchscript.pt");
  const auto onnx = shared_data("models/yolox_nano_640x640.onnx");
  const auto photo = shared_data("media/peds_0.jpg");
  if (!script || !onnx || !photo) GTEST_SKIP() << absent_message("yolox_nano_640x640, peds_0.jpg");
  fs::create_directory(bench_.path() / "photos");
  fs::copy_file(*photo, bench_.path() / "photos/peds_0.jpg");
  EXPECT_THAT(bench_.run({"--source", (bench_.path() / "photos").string(), "--threads", "1", "--max-frames",
                          "1", "--warmup", "1", "--model", "torchscript=" + script->string(), "--model",
                          "onnx=" + onnx->string()}),
              Ends(0));
  const Json report = bench_.report();
  std::vector<Json> findings;
  for (const auto& [name, backend] : {std::pair{"torchscript", "libtorch"}, {"onnx", "onnxruntime"}}) {
    const Json model = model_of(report, name);
    ASSERT_EQ(get_text(model, "status"), "ok") << get_text(model, "error");
    EXPECT_EQ(get_text(model, "backend"), backend);
    EXPECT_EQ(get_text(model, "task"), "yolox");
    EXPECT_GT(get_number(get_member(model, "detections_per_frame"), "mean").value_or(0), 2);
    for (const auto& entry : fs::directory_iterator(bench_.run_folder() / "samples"))
      if (entry.path().extension() == ".json" && entry.path().string().find(name) != std::string::npos)
        findings.push_back(get_member((*parse_json(read_text(entry.path())))[0], "findings"));
  }
  ASSERT_EQ(findings.size(), 2U);
  const Json &one = get_member(findings[0], "detections"), &other = get_member(findings[1], "detections");
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(get_integer(one[i], "class_id"), get_integer(other[i], "class_id")) << i;
    EXPECT_NEAR(get_number(one[i], "score").value_or(-1), get_number(other[i], "score").value_or(-2), 1e-3)
        << i;
    for (std::size_t side = 0; side < 4; ++side)
      EXPECT_NEAR(get_member(one[i], "box")[side].get<double>(),
                  get_member(other[i], "box")[side].get<double>(), 0.05)
          << i << " " << side;
  }
  // One table lists both, each with its runtime.
  const std::string page = read_text(bench_.run_folder() / "report.md");
  EXPECT_THAT(page, HasSubstr("libtorch"));
  EXPECT_THAT(page, HasSubstr("onnxruntime"));
}

TEST_F(BenchLibTorch, ReportsOomForAModuleOverTheLimitAndContinues) {
  for (const bool is_hard : {true, false}) {
#ifdef HEADROOM_SANITIZED
    if (!is_hard) continue;  // AddressSanitizer reserves more private memory than RLIMIT_DATA would grant
#endif
    if (is_hard && !hard_limits_work()) continue;
    EXPECT_THAT(bench_.run({"--threads", "1", "--imgsz", "64", "--max-frames", "3", "--mem-limit",
                            is_hard ? "450MiB" : "400MiB", "--limit-mechanism", is_hard ? "auto" : "rlimit",
                            "--model", "large=" + module("large"), "--model", "net=" + module("script")}),
                Ends(1));
    const Json report = bench_.report();
    const Json large = model_of(report, "large"), net = model_of(report, "net");
    EXPECT_EQ(get_text(get_member(report, "limit"), "type"), is_hard ? "hard" : "soft");
    EXPECT_EQ(get_text(large, "status"), "oom") << get_text(large, "error");
    if (is_hard) {
      EXPECT_EQ(get_bool(get_member(large, "memory"), "within_limit"), false);
      EXPECT_EQ(get_text(net, "status"), "ok") << get_text(net, "error");
    } else {
      EXPECT_THAT(get_text(large, "error"), HasSubstr("268435456 bytes"));
    }
  }
}

TEST_F(BenchLibTorch, TunesOnlySettingsOfTheRuntime) {
  EXPECT_THAT(bench_.run({"--imgsz", "64", "--max-frames", "3", "--warmup", "1", "--tune", "--model",
                          "net=" + module("script")}),
              Ends(0));
  const Json model = model_of(bench_.report(), "net");
  ASSERT_EQ(get_text(model, "status"), "ok") << get_text(model, "error");
  int tried = 0, refused = 0;
  for (const Json& trial : get_member(model, "trials")) {
    const Json settings = get_member(trial, "settings");
    const bool has_means =
        get_bool(settings, "arena") == true && get_bool(settings, "memory_pattern") == true &&
        get_bool(settings, "spinning") == true && get_text(settings, "arena_extend") == "next_power_of_two";
    EXPECT_EQ(get_text(trial, "status"), has_means ? "ok" : "failed") << to_text(trial);
    ++(has_means ? tried : refused);
  }
  EXPECT_GE(tried, 4);
  EXPECT_GE(refused, 3);
}

TEST_F(BenchLibTorch, RunsSeveralRuntimesInParallelAndInOneProcess) {
  const auto onnx = shared_data("models/mnist.onnx");
  std::vector<std::string> arguments{"--threads",    "1",
                                     "--imgsz",      "64",
                                     "--max-frames", "20",
                                     "--parallel",   "--pipeline",
                                     "--task",       "none",
                                     "--model",      "script=" + module("script"),
                                     "--model",      "words=" + module("tokens")};
  if (onnx) arguments.insert(arguments.end(), {"--model", "digits=" + onnx->string()});
  EXPECT_THAT(bench_.run(arguments), Ends(0));
  const Json report = bench_.report();
  for (const Json& model : get_member(get_member(report, "parallel"), "together"))
    EXPECT_EQ(get_text(model, "status"), "ok") << get_text(model, "error");
  EXPECT_EQ(get_text(get_member(report, "pipeline"), "status"), "ok");
}

TEST_F(BenchLibTorch, AppliesPrecisionByRuntime) {
  const auto onnx = shared_data("models/mnist.onnx");
  if (!onnx) GTEST_SKIP() << absent_message("mnist.onnx");
  EXPECT_THAT(
      bench_.run({"--threads", "1", "--imgsz", "64", "--max-frames", "2", "--precision", "bf16", "--task",
                  "none", "--model", "net=" + module("script"), "--model",
                  "plain=" + onnx->string() + ",precision=fp32", "--model", "digits=" + onnx->string()}),
      Ends(1));
  const Json report = bench_.report();
  EXPECT_EQ(get_text(get_member(model_of(report, "net"), "settings"), "precision"), "bf16");
  EXPECT_EQ(get_text(model_of(report, "plain"), "status"), "ok")
      << get_text(model_of(report, "plain"), "error");
  EXPECT_THAT(get_text(model_of(report, "digits"), "error"), HasSubstr("in the types of the model's file"));
}

}  // namespace
}  // namespace headroom::test
