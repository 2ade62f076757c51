// `headroom run` as a user runs it; GPUs are the fake driver of tests/support.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class Run : public testing::Test {
 protected:
  // Runs in the test's folder, with the fake driver unless the environment is another.
  CommandOptions in_folder(std::vector<std::pair<std::string, std::string>> environment = {
                               {"LD_LIBRARY_PATH", test::built_path("tests/fake_cuda")}}) {
    CommandOptions options;
    options.folder = folder_.path();
    options.environment = std::move(environment);
    return options;
  }
  CommandResult run(Words words) {
    words.insert(words.begin(), "run");
    return run_headroom(words, in_folder());
  }
  // The program allocates memory by `route` until a request fails, and checks that it never got more than
  // `limit`.
  CommandResult run_traced_program(Words flags, const std::string& route, const std::string& limit) {
    flags.insert(flags.end(), {"--", test::built_path("tests/traced_cuda"), "proc", route, limit, "7340032"});
    return run(flags);
  }
  TemporaryFolder folder_;
};

TEST_F(Run, KeepsExitCodeAndOutputOfTheCommand) {
  const CommandResult result = run(
      {"--limit", "1GiB", "--limit-mechanism", "rlimit", "--", "sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_THAT(result.err, HasSubstr("err\n"));
  EXPECT_THAT(result.err, HasSubstr("headroom run: peak "));
  EXPECT_THAT(result.err, HasSubstr(" of 1.00 GiB (soft: RLIMIT_DATA), resident in the largest process; the "
                                    "limit counts reserved memory"));
}

// A variable exists for each spelling of a flag.
TEST_F(Run, TheCommandLineOverridesTheEnvironment) {
  using Variables = std::vector<std::pair<std::string, std::string>>;
  const Variables mechanism{{"HEADROOM_LIMIT_MECHANISM", "rlimit"}};
  const struct {
    Variables environment;
    Words flags;
    const char* said;
  } cases[] = {{{{"HEADROOM_LIMIT", "1GiB"}}, {}, " of 1.00 GiB (soft: RLIMIT_DATA)"},
               {{{"HEADROOM_LIMIT", "1GiB"}}, {"--limit", "512MiB"}, " of 512.0 MiB"},
               {{{"HEADROOM_MEM_LIMIT", "1GiB"}}, {}, " of 1.00 GiB (soft: RLIMIT_DATA)"},
               {{{"HEADROOM_MEM_LIMIT", "1GiB"}, {"HEADROOM_LIMIT", "512MiB"}}, {}, " of 512.0 MiB"},
               {{},
                {"--limit", "1GiB", "--limit-mechanism", "none"},
                "(unavailable: no limit; memory is only measured)"},
               {{},
                {"--limit", "1GiB", "--limit-mechanism", "watchdog"},
                "(soft: a watchdog, which measures memory but stops nothing)"}};
  for (const auto& each : cases) {
    Variables environment = each.environment;
    environment.insert(environment.end(), mechanism.begin(), mechanism.end());
    Words words{"run"};
    words.insert(words.end(), each.flags.begin(), each.flags.end());
    words.insert(words.end(), {"--", "true"});
    EXPECT_THAT(run_headroom(words, in_folder(environment)).err, HasSubstr(each.said));
  }
}

TEST_F(Run, ASignalSetsTheShellsExitCode) {
  const CommandResult result =
      run({"--limit", "1GiB", "--limit-mechanism", "rlimit", "--", "sh", "-c", "kill -TERM $$"});
  EXPECT_EQ(result.exit_code, 128 + 15);
  EXPECT_THAT(result.err, HasSubstr("the command ended with SIGTERM"));
}

// On an integrated GPU the kernel may not charge CUDA memory to the control group.
TEST_F(Run, CallsALimitSoftWhereAGpuIsIntegrated) {
  if (!hard_limits_work()) GTEST_SKIP() << "control groups cannot be made here; a hard limit cannot be tried";
  CommandOptions options =
      in_folder({{"LD_LIBRARY_PATH", test::built_path("tests/fake_cuda")}, {"FAKE_CUDA_INTEGRATED", "1"}});
  EXPECT_THAT(run_headroom({"run", "--limit", "64MiB", "--", "true"}, options).err,
              HasSubstr("(soft (CUDA memory is not proved to be charged on this device): control group"));
}

TEST_F(Run, KillsAndCountsProcessesBeyondAHardLimit) {
  if (!hard_limits_work()) GTEST_SKIP() << "control groups cannot be made here; a hard limit cannot be tried";
  const CommandResult result =
      run({"--limit", "64MiB", "--", "sh", "-c", "head -c 200m /dev/zero | tail -c 150m | wc -c; exit $?"});
  EXPECT_THAT(result.err, HasSubstr("(hard: control group"));
  EXPECT_THAT(result.err, HasSubstr("killed at it"));
}

TEST_F(Run, WrongUseStartsNoCommand) {
  const std::vector<std::pair<Words, const char*>> wrong = {
      {{}, "headroom run needs a command"},
      {{"--", "echo", "ran"}, "headroom run needs a limit"},
      {{"echo", "--limit", "1GiB"}, "unexpected argument 'echo' before --"},
      {{"--limit", "7", "--", "echo", "ran"}, "--limit"},
      {{"--limit", "1MiB", "--", "echo", "ran"}, "8.0 MiB"},
      {{"--gpu-limit", "many", "--", "echo", "ran"}, "invalid GPU limit many"},
      {{"--gpu-limit", "0=1GiB,0=2GiB", "--", "echo", "ran"}, "names device 0 twice"},
      {{"--share", "a/b", "--gpu-limit", "1GiB", "--", "echo", "ran"}, "is not a valid account name"},
      {{"--share", "nobody-has-it", "--", "echo", "ran"}, "has no limit to share"},
      {{"--limit", "1GiB", "--", "no-such-program"}, "no-such-program"},
      {{"--gpu-limit", "99999999999GiB", "--", "echo", "ran"}, "is too large"},
      {{"--limit-mechanism", "cgroup", "--gpu-limit", "1GiB", "--", "echo", "ran"},
       "--limit-mechanism has no effect without --limit"},
  };
  for (const auto& [words, sentence] : wrong) {
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(sentence));
  }
  CommandOptions options;
  options.environment = {{"HEADROOM_GPU_LIMIT", "4"}};
  EXPECT_THAT(run_headroom({"run", "--", "echo", "ran"}, options).err,
              HasSubstr("HEADROOM_GPU_LIMIT: invalid GPU limit 4"));
}

#ifndef HEADROOM_SANITIZED  // a sanitizer's runtime must be loaded before any preloaded library

TEST_F(Run, AGpuLimitCountsItsRefusals) {
  const CommandResult result = run_traced_program({"--gpu-limit", "50MiB"}, "plain", "52428800");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("GPU 0 peak 49.0 MiB of 50.0 MiB, "));
  EXPECT_THAT(result.err,
              HasSubstr(" refused (hard: the GPU ledger, which refuses requests over the limit)"));
  EXPECT_TRUE(fs::is_empty(folder_.path())) << "it writes no recording";
}

// A limit for a device number that does not exist would have no effect.
TEST_F(Run, RejectsALimitOfAMissingDevice) {
  for (const char* limit : {"3=1GiB", "0=1GiB,7=1GiB"}) {
    const CommandResult result = run({"--gpu-limit", limit, "--", "echo", "ran"});
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, AllOf(HasSubstr("which does not exist: the driver reports 2 devices"),
                                  HasSubstr("give a limit for devices 0 to 1")));
  }
}

TEST_F(Run, ReportsAnUnusedLimit) {
  const CommandResult result = run_traced_program({"--gpu-limit", "1=50MiB"}, "plain", "52428800");
  EXPECT_THAT(result.err, HasSubstr("headroom run: no GPU with a limit was used; GPU 0 peak "));
  EXPECT_THAT(result.err, HasSubstr(", without a limit (hard: "));
  const CommandResult none = run({"--gpu-limit", "1GiB", "--", "true"});
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_THAT(none.err, HasSubstr("headroom run: no GPU was used (hard: "));
}

// Without a driver nothing enforces the limit, so the command must not start by default.
TEST_F(Run, RefusesAGpuLimitWithoutADriver) {
  const Words command{"--gpu-limit", "1GiB", "--", "echo", "ran"};
  for (const char* verb : {"run", "trace"}) {
    const CommandResult result = run_headroom(joined({{verb}, command}), in_folder({}));
    if (result.err.find("CUDA driver not found") == std::string::npos)
      GTEST_SKIP() << "a CUDA driver is present";
    EXPECT_THAT(result, Ends(2, "",
                             AllOf(HasSubstr("cannot enforce the GPU memory limit: CUDA driver not found"),
                                   HasSubstr("install or load NVIDIA's driver, or remove --gpu-limit"),
                                   HasSubstr("add --allow-no-gpu"))));
    EXPECT_THAT(result.err, Not(HasSubstr("--device cpu")));
    EXPECT_THAT(run_headroom(joined({{verb, "--allow-no-gpu"}, command}), in_folder({})),
                Ends(0, "ran\n", HasSubstr("CUDA driver not found")));
  }
  EXPECT_THAT(run({"--allow-no-gpu", "--limit", "1GiB", "--", "echo", "ran"}),
              Ends(2, "", HasSubstr("--allow-no-gpu has no effect without --gpu-limit")));
}

TEST_F(Run, EnforcesBothLimitsAtOnce) {
  const CommandResult result = run_traced_program(
      {"--limit", "1GiB", "--limit-mechanism", "rlimit", "--gpu-limit", "50MiB"}, "plain", "52428800");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("; GPU 0 peak 49.0 MiB of 50.0 MiB, 2 requests refused (hard"));
}

// Nested limits: the smaller one counts, for each inner verb, and both accounts have the figures.
TEST_F(Run, ANestedVerbCannotRaiseTheLimit) {
  const Words command{"--", test::built_path("tests/traced_cuda"), "proc", "plain", "52428800", "7340032"};
  const std::vector<Words> verbs = {{"trace", "--out", "a.hrec"},
                                    {"trace", "--only", "gpu", "--out", "b.hrec"},
                                    {"trace", "--gpu-mem-limit", "1GiB", "--out", "c.hrec"},
                                    {"run", "--gpu-limit", "1GiB"},
                                    {"run", "--gpu-limit", "0=1GiB"},
                                    {"run", "--limit", "1GiB", "--limit-mechanism", "rlimit"}};
  for (const Words& verb : verbs) {
    Words words{"--gpu-limit", "50MiB", "--", test::built_path("bin/headroom")};
    words.insert(words.end(), verb.begin(), verb.end());
    words.insert(words.end(), command.begin(), command.end());
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 0) << verb[0] << verb[1] << result.out << result.err;
    // The outer limit also counts requests of the inner verb's probe that it refused.
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("GPU 0 peak 49.0 MiB of 50.0 MiB, "), HasSubstr("2 requests refused")));
  }
}

TEST_F(Run, EnforcesASmallerNestedLimit) {
  const Words inside{"--gpu-limit", "1GiB", "--", test::built_path("bin/headroom"), "run", "--gpu-limit"};
  Words words = inside;
  words.insert(words.end(), {"50MiB", "--", test::built_path("tests/traced_cuda"), "proc", "plain",
                             "52428800", "7340032"});
  const CommandResult result = run(words);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("GPU 0 peak 49.0 MiB of 50.0 MiB, 2 requests refused (hard"));
  // The outer account is also charged for the inner limit's probe. But the inner limit refused those
  // requests, so the outer one reports none.
  EXPECT_THAT(result.err, HasSubstr("GPU 0 peak 49.0 MiB of 1.00 GiB;"));
}

// Each way in which a program can reach the driver: with RTLD_NEXT, through a library that binds to the
// driver first (RTLD_DEEPBIND) or loads it locally, in a separate namespace (dlmopen), and in a child with
// an empty environment.
TEST_F(Run, NoRouteToTheDriverBypassesTheLimit) {
  const std::string programs = test::built_path("tests/");
  const std::string wrapper = programs + "libtraced_cuda_wrapper.so";
  const std::string libraries = "LD_LIBRARY_PATH=" + test::built_path("tests/fake_cuda") + ":" + programs;
  const std::vector<Words> commands = {
      {programs + "traced_cuda_lookup", "plain", wrapper},
      {programs + "traced_cuda_next", "next", wrapper},
      {programs + "traced_cuda_pointers", "plain", wrapper},
      {programs + "traced_cuda_lookup", "deep", wrapper},
      {programs + "traced_cuda_lookup", "local", wrapper},
      {programs + "traced_cuda_lookup", "apart", wrapper},
      {programs + "traced_cuda_lookup", "spawn", wrapper},
      {programs + "traced_cuda_lookup", "execle", wrapper},
      {programs + "traced_cuda_lookup", "system", wrapper},
      {programs + "traced_cuda_lookup", "popen", wrapper},
      {"env", "-i", libraries, programs + "traced_cuda_lookup", "plain", wrapper},
      {"env", "LD_PRELOAD=", programs + "traced_cuda_lookup", "plain", wrapper},
      {"env", "-i", libraries, "sh", "-c", programs + "traced_cuda_lookup plain " + wrapper}};
  for (const Words& command : commands) {
    Words words{"--gpu-limit", "50MiB", "--", "env", libraries};
    words.insert(words.end(), command.begin(), command.end());
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 0) << command[0] << command[1] << result.err;
    EXPECT_EQ(result.out, "got 48, then 2\n") << command[0] << " " << command[1];
    EXPECT_THAT(result.err, HasSubstr("GPU 0 peak 48.0 MiB of 50.0 MiB, 1 request refused (hard"))
        << command[1];
    EXPECT_THAT(result.err, Not(HasSubstr("cannot intercept")));
  }
}

// A background server makes its first call after the command that started it has ended.
TEST_F(Run, ProcessesThatOutliveTheCommandKeepTheLimit) {
  const std::string programs = test::built_path("tests/");
  const std::string later = (folder_ / "later").string();
  const CommandResult result =
      run({"--gpu-limit", "50MiB", "--", "env",
           "LD_LIBRARY_PATH=" + test::built_path("tests/fake_cuda") + ":" + programs, "sh", "-c",
           fmt::format("(sleep 1; {0}traced_cuda_lookup plain {0}libtraced_cuda_wrapper.so >{1}.part 2>&1; "
                       "mv {1}.part {1}) >/dev/null 2>&1 &",
                       programs, later)});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(fs::exists(later));
  for (int i = 0; i < 200 && !fs::exists(later); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(read_text(later), "got 48, then 2\n");
}

TEST_F(Run, ReportsADriverThatCannotBeHooked) {
  const std::string programs = test::built_path("tests/");
  const CommandResult result =
      run({"--gpu-limit", "50MiB", "--", "env", "LD_LIBRARY_PATH=" + test::built_path("tests/fake_cuda"),
           programs + "traced_cuda_lookup", "apart-wrapper", programs + "libtraced_cuda_wrapper.so"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("no GPU was used (soft: "),
                    HasSubstr("; 1 driver loaded with dlmopen, which the limit cannot intercept")));
}

// Each device keeps its limit, whatever number a process uses for it.
TEST_F(Run, EachDeviceKeepsItsLimitUnderAnyNumber) {
  const std::string programs = test::built_path("tests/");
  const std::string plain = programs + "traced_cuda_lookup plain " + programs + "libtraced_cuda_wrapper.so ";
  const auto both = [&](const std::string& limit, const std::string& first, const std::string& second) {
    const std::string line = "CUDA_VISIBLE_DEVICES=" + first + " && CUDA_VISIBLE_DEVICES=" + second;
    return run({"--gpu-limit", limit, "--", "sh", "-c", line}).out;
  };
  EXPECT_EQ(both("0=50MiB,1=90MiB", "0 " + plain, "1 " + plain), "got 48, then 2\ngot 88, then 2\n");
  EXPECT_EQ(both("0=50MiB,1=90MiB", "1,0 " + plain + "1", "1,0 " + plain + "0"),
            "got 48, then 2\ngot 88, then 2\n");
  EXPECT_EQ(both("1=50MiB", "1 " + plain, "0,1 " + plain), "got 48, then 2\ngot 1024, then 0\n");
}

// A forked child keeps the charge of its dead parent, because the driver keeps that memory. After exec, the
// new program has no charge.
TEST_F(Run, ChargesOnlyProcessesThatHoldMemory) {
  for (const char* route : {"heir", "successor"}) {
    const CommandResult result = run_traced_program({"--gpu-limit", "50MiB"}, route, "52428800");
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("sound\n")) << route;
  }
}

TEST_F(Run, ThePeakOfSequentialProgramsIsThatOfOne) {
  const std::string one = test::built_path("tests/traced_cuda") + " proc hold 20971520 5242880 </dev/null";
  const CommandResult result =
      run({"--gpu-limit", "1GiB", "--", "sh", "-c", one + " && " + one + " && " + one});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "20971520\n20971520\n20971520\n");
  EXPECT_THAT(result.err, HasSubstr("GPU 0 peak 20.0 MiB of 1.00 GiB (hard"));
}

#endif

TEST_F(Run, ChargesAGraphToEachDeviceItUses) {
  const CommandResult result = run_traced_program({"--gpu-limit", "0=1GiB,1=1MiB"}, "several", "1073741824");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("GPU 1 peak 0 B of 1.0 MiB, 1 request refused")) << result.err;
}

}  // namespace
}  // namespace headroom::test
