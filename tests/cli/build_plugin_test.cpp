// headroom build-plugin: what it refuses, what it says of compilers and headers, and a plug-in that it built.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class BuildPlugin : public testing::Test {
 protected:
  CommandResult build(Words words, std::string compiler = "g++") {
    words.insert(words.begin(), "build-plugin");
    CommandOptions options;
    options.folder = folder_.path();
    options.environment = {
        {"CXX", std::move(compiler)}, {"TENSORRT_INCLUDE_DIR", ""}, {"CUDA_HOME", ""}, {"CUDA_PATH", ""},
        {"AMENT_PREFIX_PATH", ""},    {"ROS_DISTRO", "humble"}};
    return run_headroom(words, options);
  }
  // A compiler of these lines of shell. "$out" is the value of -o.
  std::string compiler(const std::string& lines) {
    const fs::path path = folder_ / "compiler";
    write_text(path,
               "#!/bin/sh\ncase \"$*\" in *-dump*) echo 12.2.0; exit;; esac\n"
               "for word; do [ \"$last\" = -o ] && out=$word; last=$word; done\n" +
                   lines);
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  // Headers of TensorRT with this content, and of CUDA.
  Words with_headers(const std::string& version, const std::string& content = "") {
    write_text(folder_ / "NvInferVersion.h", version);
    write_text(folder_ / "NvInfer.h", content);
    write_text(folder_ / "cuda_runtime_api.h", "");
    return {"tensorrt", "--include-dir", folder_.path().string(), "--output", output()};
  }
  std::string output() const { return (folder_ / "plugins").string(); }
  std::vector<std::string> files_in_output() const {
    std::vector<std::string> files;
    if (fs::exists(output()))
      for (const auto& entry : fs::directory_iterator(output()))
        files.push_back(entry.path().filename().string());
    return files;
  }
  static constexpr const char* kTensorRt86 =
      "#define NV_TENSORRT_MAJOR 8 //!<\n#define NV_TENSORRT_MINOR 6\n";

  TemporaryFolder folder_;
};

TEST_F(BuildPlugin, HelpNamesPluginsFlagsAndExamples) {
  const CommandResult help = build({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* words : {"tensorrt|libtorch|rclcpp", "--output", "--include-dir", "build-plugin libtorch"})
    EXPECT_THAT(help.out, HasSubstr(words));
}

TEST_F(BuildPlugin, WrongUseIsOneSentence) {
  EXPECT_THAT(build({}), IsRefused(HasSubstr("needs the name of one plug-in")));
  EXPECT_THAT(build({"opencv"}), IsRefused(HasSubstr("use tensorrt, libtorch or rclcpp")));
  EXPECT_THAT(build({"tensor-rt"}), IsRefused(HasSubstr("did you mean 'tensorrt'?")));
}

TEST_F(BuildPlugin, NamesMissingHeadersByPackage) {
  if (fs::exists("/usr/include/NvInfer.h") || fs::exists("/usr/local/cuda/include"))
    GTEST_SKIP() << "this machine has TensorRT or CUDA";
  EXPECT_THAT(build({"tensorrt", "--output", output()}),
              IsRefused(AllOf(HasSubstr("NvInfer.h"), HasSubstr("libnvinfer-headers-dev"),
                              HasSubstr("cuda_runtime_api.h"), HasSubstr("cuda-cudart-dev"))));
  EXPECT_FALSE(fs::exists(output()));
}

TEST_F(BuildPlugin, NamesMissingRosPackagesOfTheDistribution) {
  if (fs::exists("/opt/ros")) GTEST_SKIP() << "this machine has ROS";
  EXPECT_THAT(build({"rclcpp", "--output", output()}),
              IsRefused(AllOf(HasSubstr("ros-humble-rclcpp"), HasSubstr("ros-humble-diagnostic-msgs"))));
}

TEST_F(BuildPlugin, RefusesATensorRtThatIsTooOld) {
  EXPECT_THAT(build(with_headers("#define NV_TENSORRT_MAJOR 8\n#define NV_TENSORRT_MINOR 4\n")),
              IsRefused(AllOf(HasSubstr("TensorRT 8.4"), HasSubstr("8.5 or newer"))));
}

TEST_F(BuildPlugin, NamesTheMissingCompiler) {
  EXPECT_THAT(build(with_headers(kTensorRt86), "/none/g++"),
              IsRefused(AllOf(HasSubstr("/none/g++ does not answer"), HasSubstr("sudo apt install g++"))));
}

TEST_F(BuildPlugin, RefusesACompilerThatIsTooOld) {
  write_text(folder_ / "old", "#!/bin/sh\necho 7.5.0\n");
  fs::permissions(folder_ / "old", fs::perms::owner_all);
  EXPECT_THAT(build(with_headers(kTensorRt86), (folder_ / "old").string()),
              IsRefused(AllOf(HasSubstr("7.5.0 is too old"), HasSubstr("g++ 9 or newer"))));
}

TEST_F(BuildPlugin, ShowsTheCompilersFirstErrorAndLeavesNothing) {
  const CommandResult result = build(with_headers(kTensorRt86, "#error these headers are broken\n"));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("cannot build the plug-in tensorrt for TensorRT 8.6"),
                                HasSubstr("error: #error these headers are broken")));
  EXPECT_THAT(files_in_output(), IsEmpty());
}

TEST_F(BuildPlugin, TakesACompilerOfTwoWords) {
  const CommandResult result =
      build(with_headers(kTensorRt86, "#error these headers are broken\n"), "env g++");
  EXPECT_THAT(result.err, HasSubstr("error: #error these headers are broken"));
}

TEST_F(BuildPlugin, AnInterruptLeavesNothing) {
  fs::create_directory(folder_ / "tmp");
  CommandOptions options;
  options.environment = {
      {"TMPDIR", (folder_ / "tmp").string()},
      {"CXX", compiler("touch '" + (folder_ / "started").string() + "'; exec sleep 60\n")}};
  options.while_running = [&](int pid) {
    if (fs::exists(folder_ / "started")) ::kill(pid, SIGINT);
    return true;
  };
  Words words = with_headers(kTensorRt86);
  words.insert(words.begin(), "build-plugin");
  EXPECT_EQ(run_headroom(words, options).exit_code, 130);
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
  EXPECT_THAT(files_in_output(), IsEmpty());
}

// The compiler makes another library than the sources ask for. The child that loads it must not take headroom
// along.
TEST_F(BuildPlugin, ReportsALibraryThatCrashesItsProcess) {
  const std::string cc = compiler(
      "case \"$*\" in *-shared*) echo 'void __attribute__((constructor)) f(void) { __builtin_trap(); }' |"
      " cc -shared -fPIC -x c - -o \"$out\";; *) : > \"$out\";; esac\n");
  const CommandResult result = build(with_headers(kTensorRt86), cc);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("libheadroom_backend_tensorrt.so"), HasSubstr("cannot be used"),
                                HasSubstr("ended with SIG")));
  EXPECT_THAT(files_in_output(), IsEmpty());
}

TEST_F(BuildPlugin, ReportsALibraryWithoutThePluginsFunction) {
  const std::string cc = compiler(
      "case \"$*\" in *-shared*) echo 'int other;' | cc -shared -fPIC -x c - -o \"$out\";; *) : > \"$out\";; "
      "esac\n");
  const CommandResult result = build(with_headers(kTensorRt86), cc);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("it has no function headroom_backend"));
  EXPECT_THAT(files_in_output(), IsEmpty());
}

// Without optimization, to save a minute.
TEST_F(BuildPlugin, BuildsLibTorchsPluginThatBenchUses) {
#ifndef HEADROOM_TORCHSCRIPT_BUILT
  GTEST_SKIP() << absent_message("LibTorch (libtorch-dev)");
#else
  if (kIsSlowBuild) GTEST_SKIP() << "the plug-in would be the same";
  const CommandResult result = build({"libtorch", "--output", output()}, compiler("exec g++ \"$@\" -O0\n"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const fs::path plugin = fs::path(output()) / "libheadroom_backend_libtorch.so";
  EXPECT_THAT(result.out, AllOf(HasSubstr(plugin.string()), HasSubstr("built for LibTorch "),
                                HasSubstr("loaded with version ")));
  EXPECT_THAT(result.out, HasSubstr("libheadroom_memory_tracer.so"));
  EXPECT_THAT(files_in_output(), testing::UnorderedElementsAre("libheadroom_backend_libtorch.so",
                                                               "libheadroom_memory_tracer.so"));

  const fs::path modules = test::built_path("tests/torchscript");
  if (!fs::exists(modules / "made")) GTEST_SKIP() << absent_message("PyTorch for python3 (python3-torch)");
  Bench bench;
  CommandOptions options;
  options.environment = {{"HEADROOM_BACKEND_PATH", output()}};
  EXPECT_THAT(
      bench.run({"--imgsz", "64", "--max-frames", "2", "--model", "net=" + (modules / "script.pt").string()},
                options),
      Ends(0));
  EXPECT_EQ(get_text(model_of(bench.report(), "net"), "backend"), "libtorch");
  EXPECT_EQ(get_text(model_of(bench.report(), "net"), "status"), "ok");
#endif
}

}  // namespace
}  // namespace headroom::test
