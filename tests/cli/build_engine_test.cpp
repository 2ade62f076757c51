// `headroom build-engine`, and what headroom bench makes of engines. Where the plug-in was built, TensorRT is
// the fake library of tests/support; elsewhere only what needs neither is shown.
#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/command.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

// Lines of the fake library's models.
constexpr const char* kModel = "input x 1 4\noutput y 1 2\nscratch 1048576\nweights 2097152\n";

bool has_plugin() { return fs::exists(built_path("bin/libheadroom_backend_tensorrt.so")); }

class BuildEngine : public testing::Test {
 protected:
  CommandResult build(Words words, std::string libraries = built_path("tests/fake_tensorrt")) {
    words.insert(words.begin(), "build-engine");
    return run(words, std::move(libraries));
  }
  CommandResult run(const Words& words, std::string libraries = built_path("tests/fake_tensorrt")) {
    CommandOptions options;
    options.folder = bench_.path();
    options.environment = {{"HEADROOM_TENSORRT", std::move(libraries)},
                           {"LD_LIBRARY_PATH", built_path("tests/fake_cuda")}};
    return run_headroom(words, options);
  }
  CommandResult measure(const std::string& model, Words more = {}) {
    Words words{"bench",  "--output-dir", "outputs", "--prepared-dir", "prepared",  "--device",
                "cuda:0", "--max-frames", "3",       "--model",        "m=" + model};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  std::string model(const std::string& lines = kModel) {
    write_text(bench_.path() / "m.onnx", lines);
    return "m.onnx";
  }
  Bench bench_;
};

TEST_F(BuildEngine, HelpFitsOneScreenAndNamesEveryFlag) {
  const CommandResult help = build({"-h"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("headroom build-engine MODEL.onnx"));
  EXPECT_LE(split(help.out, '\n').size(), 25U);
  const CommandResult all = build({"--help"});
  for (const char* flag : {"--imgsz", "--fp16", "--bf16", "--int8", "--workspace", "--out", "--force",
                           "--device", "--mem-limit", "--gpu-mem-limit", "--timeout"})
    EXPECT_THAT(all.out, HasSubstr(flag));
}

TEST_F(BuildEngine, WrongUseIsOneSentenceAndExitCodeTwo) {
  const std::string onnx = model();
  write_text(bench_.path() / "m.engine", "");
  const std::vector<std::pair<Words, std::string>> wrong{
      {{}, "needs one model"},
      {{onnx, "n.onnx"}, "needs one model"},
      {{"m.engine"}, "not an ONNX model"},
      {{"none.onnx"}, "none.onnx"},
      {{onnx, "--fp16", "--int8"}, "--fp16 and --int8 cannot be combined"},
      {{onnx, "--imgsz", "7"}, "--imgsz 7 is out of range"},
      {{onnx, "--workspace", "many"}, "--workspace"},
      {{onnx, "--workspace", "12KiB"}, "is out of range"},
      {{onnx, "--device", "cpu"}, "cannot build an engine on 'cpu'"},
      {{onnx, "--gpu-mem-limit", "x"}, "x"},
      {{onnx, "--gpu-mem-limit", "3=4GiB"}, "has no effect: the engine is built on cuda:0"},
      {{onnx, "--out", "."}, "is a folder"},
      {{onnx, "--out", "no/such/folder/m.engine"}, "cannot write into"},
      {{onnx, "--fp61"}, "--fp16"},
  };
  for (const auto& [words, sentence] : wrong) {
    const CommandResult result = build(words);
    EXPECT_EQ(result.exit_code, 2) << shell_command(words) << result.err;
    EXPECT_THAT(result.err, HasSubstr(sentence));
    EXPECT_EQ(split(trim(result.err), '\n').size(), 1U) << result.err;
  }
}

TEST_F(BuildEngine, ReportsMissingTensorRtInOneSentence) {
  const TemporaryFolder empty;
  const CommandResult result = build({model()}, empty.path().string());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr(has_plugin() ? "libnvinfer.so." : "libheadroom_backend_tensorrt.so not found"));
  EXPECT_EQ(split(trim(result.err), '\n').size(), 1U) << result.err;
  EXPECT_FALSE(fs::exists(bench_.path() / "m.engine"));
}

#ifndef HEADROOM_SANITIZED  // a sanitizer's runtime must be loaded before any preloaded library

TEST_F(BuildEngine, SelectsOnnxRuntimesTensorRtProviderByName) {
  const auto face = dependency_file("models/face_detection_front_128x128_barracuda.onnx");
  if (!face) GTEST_SKIP() << absent_message("the face model");
  const CommandResult measured =
      measure(face->string(), {"--backend", "onnxruntime_tensorrt", "--task", "none"});
  EXPECT_EQ(measured.exit_code, 1);
  EXPECT_THAT(measured.err, AllOf(HasSubstr("TensorRT provider"), HasSubstr("HEADROOM_ONNXRUNTIME")));
  EXPECT_EQ(get_text(model_of(bench_.report(), "m"), "backend"), "onnxruntime_tensorrt");
  EXPECT_TRUE(fs::is_directory(bench_.path() / "prepared/engines"))
      << "where the provider's engines are kept";
  const CommandResult on_cpu =
      run({"bench", "--output-dir", "outputs", "--prepared-dir", "prepared", "--task", "none", "--backend",
           "onnxruntime_tensorrt", "--model", "m=" + face->string()});
  EXPECT_THAT(on_cpu.err, HasSubstr("TensorRT runs on GPUs only"));
}

#endif

#ifdef HEADROOM_FAKE_TENSORRT_BUILT

TEST_F(BuildEngine, WritesAnEngineThatBenchRuns) {
  const CommandResult built = build({model(), "--workspace", "64MiB"});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  EXPECT_THAT(built.out,
              AllOf(HasSubstr("m.engine: "), HasSubstr("fp32, for Fake GPU 0 (compute capability 1.1)"),
                    HasSubstr("inputs: x float32[1,4]"), HasSubstr("Next: headroom bench --device cuda:0")));
  const auto record = parse_json(read_text(bench_.path() / "m.engine.json"));
  ASSERT_TRUE(record);
  EXPECT_EQ(get_integer(get_member(*record, "settings"), "workspace_bytes"), 64 << 20);
  const CommandResult again = build({"m.onnx", "--workspace", "64MiB"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("already exists"));
  const CommandResult other = build({"m.onnx", "--imgsz", "320"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("it was built with other settings"));
}

#ifndef HEADROOM_SANITIZED  // a sanitizer's runtime must be loaded before any preloaded library

TEST_F(BuildEngine, MeasuresAnEngineOnTheDevice) {
  ASSERT_EQ(build({model()}).exit_code, 0);
  for (const char* file : {"m.engine", "m.onnx"}) {
    const CommandResult measured = measure(file, {"--capture-graph"});
    ASSERT_EQ(measured.exit_code, 0) << measured.err;
    const Json m = model_of(bench_.report(), "m");
    EXPECT_EQ(get_text(m, "backend"), "tensorrt") << "an ONNX model runs as the engine that was built of it";
    EXPECT_EQ(get_integer(get_member(m, "device_latency_ns"), "p50"), 1'000'000);
    const Json gpu = get_member(m, "gpu_memory").at(0);
    EXPECT_EQ(get_integer(gpu, "loaded_bytes"), 3 * (1 << 20) + 16)
        << "weights, scratch and the input, of the ledger";
    EXPECT_EQ(get_integer(gpu, "residual_bytes"), 0);
  }
}

TEST_F(BuildEngine, GpuLimitAppliesToBuildAndEngine) {
  const CommandResult refused =
      build({model(std::string(kModel) + "trial 33554432\n"), "--gpu-mem-limit", "16MiB"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("out of memory"), HasSubstr("it requested 32.0 MiB"),
                                 HasSubstr("under the limit of 16.0 MiB")));
  EXPECT_FALSE(fs::exists(bench_.path() / "m.engine"));
  ASSERT_EQ(build({model()}).exit_code, 0);
  const CommandResult measured = measure("m.engine", {"--gpu-mem-limit", "2MiB"});
  EXPECT_EQ(measured.exit_code, 1);
  const Json m = model_of(bench_.report(), "m");
  EXPECT_EQ(get_text(m, "status"), "oom") << m.dump();
  EXPECT_THAT(get_text(m, "error"), HasSubstr("under the limit of 2.0 MiB held 2.0 MiB"));
}

TEST_F(BuildEngine, EnginesOfAPipelineShareScratchMemory) {
  ASSERT_EQ(build({model("input x 1 4\noutput y 1 2\nscratch 4194304\n")}).exit_code, 0);
  write_text(bench_.path() / "n.onnx", "input x 1 4\noutput y 1 2\nscratch 16777216\n");
  ASSERT_EQ(build({"n.onnx"}).exit_code, 0);
  const CommandResult measured = measure("m.engine", {"--model", "n=n.engine", "--pipeline"});
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  const Json gpu = get_member(get_member(bench_.report(), "pipeline"), "gpu_memory").at(0);
  EXPECT_LT(get_integer(gpu, "run_peak_bytes").value_or(0), 17 << 20) << "not 20 MiB";
}

TEST_F(BuildEngine, RejectsAForeignEngineWithTheReason) {
  ASSERT_EQ(build({model()}).exit_code, 0);
  const fs::path record = bench_.path() / "m.engine.json";
  std::string text = read_text(record);
  text.replace(text.find("Fake GPU 0"), 10, "Orin");
  write_text(record, text);
  const CommandResult measured = measure("m.engine");
  EXPECT_EQ(measured.exit_code, 1);
  EXPECT_THAT(measured.err, HasSubstr("it was built for Orin, but this machine has Fake GPU 0"));
  EXPECT_THAT(get_text(model_of(bench_.report(), "m"), "error"), HasSubstr("headroom build-engine"));
  const CommandResult built = build({"m.onnx"});
  EXPECT_EQ(built.exit_code, 1);
  EXPECT_THAT(built.err, AllOf(HasSubstr("it was built for Orin"), HasSubstr("--force")));
  EXPECT_EQ(build({"m.onnx", "--force"}).exit_code, 0);
  EXPECT_EQ(measure("m.engine").exit_code, 0);
}

#endif
#else

TEST_F(BuildEngine, WritesAnEngineThatBenchRuns) {
  GTEST_SKIP() << "NvInfer.h was not found when this was built (-DTENSORRT_INCLUDE_DIR=…)";
}

#endif

}  // namespace
}  // namespace headroom::test
