// What a run says of a limit, of a model's end and of its warm-up: right, said in time, and of one account.
#include <gtest/gtest.h>

#include "base/units.h"
#include "cli/command.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;
using testing::Not;

std::int64_t bytes_of(const Json& object, const char* key) { return get_integer(object, key).value_or(0); }

// Runs of the misbehaving runtime whose limit is RLIMIT_DATA, whatever this machine could do besides.
class BenchVerdictsUnderRlimit : public testing::Test {
 protected:
  void SetUp() override {
#ifdef HEADROOM_SANITIZED
    GTEST_SKIP() << "AddressSanitizer reserves more private memory than RLIMIT_DATA would grant; skipped";
#endif
  }
  CommandResult run(const std::string& limit, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"--backend", "misbehaving", "--limit-mechanism", "rlimit", "--mem-limit", limit});
    return bench_.run(std::move(arguments));
  }

  Bench bench_;
};

// It needs 200 MiB as it is and none of them without a memory pattern: the model that --tune is for.
TEST_F(BenchVerdictsUnderRlimit, TuningFindsWhatFitsWhereTheStartDoesNot) {
  const CommandResult result = run(
      "128MiB", {"--max-frames", "5", "--tune", "--model", "m=" + bench_.model("m", "pattern allocate 200")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json model = model_of(bench_.report(), "m");
  EXPECT_EQ(get_text(model, "status"), "ok") << get_text(model, "error");
  EXPECT_EQ(get_bool(get_member(model, "settings"), "memory_pattern"), false);
  const Json& trials = get_member(model, "trials");
  ASSERT_GE(trials.size(), 2U);
  EXPECT_EQ(get_text(trials[0], "status"), "oom");
  EXPECT_EQ(get_text(trials[1], "status"), "ok");
}

TEST_F(BenchVerdictsUnderRlimit, TuningAModelThatNothingMakesFitEndsSoon) {
  const CommandResult result =
      run("128MiB", {"--tune", "--model", "m=" + bench_.model("m", "load allocate 200")});
  EXPECT_EQ(result.exit_code, 1);
  const Json model = model_of(bench_.report(), "m");
  EXPECT_EQ(get_text(model, "status"), "oom");
  EXPECT_GE(get_member(model, "trials").size(), 2U);
  EXPECT_LE(get_member(model, "trials").size(), 6U);
}

// Each fits alone; the two together do not, however seldom the machine's metrics are read.
TEST_F(BenchVerdictsUnderRlimit, TheJointPeakWithoutAGroupIsThatOfAllAtOnce) {
  // Shares of pages are read 20 times a second: a model that lives shorter than a busy machine's pauses has
  // none.
  const std::string lives = "load allocate 40\nrun sleep 400";
  const CommandResult result = run(
      "64MiB", {"--max-frames", "1", "--warmup", "1", "--parallel", "--strict", "--metrics-interval", "1h",
                "--model", "a=" + bench_.model("a", lives), "--model", "b=" + bench_.model("b", lives)});
  EXPECT_EQ(result.exit_code, 1) << result.out;
  const Json parallel = get_member(bench_.report(), "parallel");
  EXPECT_GE(bytes_of(parallel, "joint_peak_bytes"), mebibytes(80).count);
  EXPECT_GE(bytes_of(parallel, "sum_of_peaks_bytes"), mebibytes(80).count) << "the load is in both";
  EXPECT_EQ(get_text(parallel, "joint_peak_source"), "pss_samples");
  EXPECT_EQ(get_bool(parallel, "joint_peak_is_lower_bound"), true);
  EXPECT_EQ(get_bool(parallel, "within_limit"), false);
  EXPECT_THAT(result.err, HasSubstr("all at once: the models did not stay inside the limit of 64.0 MiB"));
}

// Shared memory is resident and not in the account of RLIMIT_DATA, which is what the share is of.
TEST_F(BenchVerdictsUnderRlimit, TheVerdictIsOfWhatIsReserved) {
  const CommandResult result = run("64MiB", {"--max-frames", "20", "--strict", "--model",
                                             "m=" + bench_.model("m", "load share 100\nrun sleep 10")});
  EXPECT_EQ(result.exit_code, 0) << result.out;
  const Json report = bench_.report();
  const Json memory = get_member(model_of(report, "m"), "memory");
  EXPECT_GT(bytes_of(memory, "run_peak_bytes"), mebibytes(100).count);
  EXPECT_LT(bytes_of(memory, "limit_peak_bytes"), mebibytes(64).count);
  EXPECT_EQ(get_bool(memory, "within_limit"), true);
  EXPECT_EQ(get_integer(memory, "violations"), 0);
  EXPECT_THAT(read_text(bench_.run_folder() / "report.md"), HasSubstr("RLIMIT_DATA counts neither"));
}

TEST(BenchVerdicts, AnExceededSoftLimitIsAnErrorWhileItRunsAndAtItsEnd) {
  Bench bench;
  const CommandResult result = bench.run(
      {"--backend", "misbehaving", "--max-frames", "30", "--limit-mechanism", "watchdog", "--mem-limit",
       "64MiB", "--model", "large=" + bench.model("large", "load allocate 100\nrun sleep 10")});
  EXPECT_EQ(result.exit_code, 0);
  const std::string log = read_text(bench.run_folder() / "run.log");
  for (const std::string& text : {result.err, log}) {
    EXPECT_THAT(text, HasSubstr("error"));
    EXPECT_THAT(text, HasSubstr("large is over the limit of 64.0 MiB: "));
    EXPECT_THAT(text, HasSubstr("large: over the limit of 64.0 MiB in "));
  }
}

TEST(BenchVerdicts, LastWordsAreTheLastAndPlain) {
  Bench bench;
  bench.run({"--backend", "misbehaving", "--max-frames", "2", "--model",
             "killed=" + bench.model("killed", "run say\nrun kill"), "--model",
             "early=" + bench.model("early", "load say\nload sleep 200\nrun crash"), "--model",
             "crashed=" + bench.model("crashed", "run say\nrun crash")});
  const Json report = bench.report();
  EXPECT_THAT(get_text(model_of(report, "killed"), "error"), Not(HasSubstr("last words")));
  EXPECT_THAT(get_text(model_of(report, "early"), "error"), Not(HasSubstr("last words")));
  EXPECT_THAT(get_text(model_of(report, "crashed"), "error"),
              HasSubstr("; its last words were 'it was told to warn'"));
}

// The entry by which an ONNX model names the file of its weights.
TEST(BenchVerdicts, PreparedDataOfOtherWeightsIsRefused) {
  Bench bench;
  const std::string entry("\x0A\x08location\x12\x05w.bin", 17);
  const std::string model = bench.model("m", "run sleep 1\n" + entry);
  const auto weights = std::filesystem::path(model).parent_path() / "w.bin";
  write_text(weights, std::string(5000, 'a'));
  std::vector<std::string> arguments{"--backend", "misbehaving", "--max-frames",
                                     "2",         "--model",     "m=" + model};
  EXPECT_EQ(bench.run(arguments).exit_code, 0);
  EXPECT_EQ(get_integer(model_of(bench.report(), "m"), "file_size_bytes"),
            static_cast<std::int64_t>(std::filesystem::file_size(model)) + 5000);
  arguments.emplace_back("--skip-setup");
  EXPECT_EQ(bench.run(arguments).exit_code, 0);
  write_text(weights, std::string(5000, 'b'));
  const CommandResult refused = bench.run(arguments);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("has changed since"));
}

TEST(BenchVerdicts, TheSetupAloneShowsTheMemoryOfItsWarmUp) {
  Bench bench;
  const CommandResult result = bench.run({"--backend", "misbehaving", "--skip-inference", "--model",
                                          "m=" + bench.model("m", "load allocate 30\nrun allocate 2")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json model = model_of(bench.report(), "m");
  const Json memory = get_member(model, "memory");
  EXPECT_GT(bytes_of(memory, "loaded_bytes"), mebibytes(30).count);
  EXPECT_GE(bytes_of(memory, "load_peak_bytes"), bytes_of(memory, "loaded_bytes"));
  EXPECT_GT(bytes_of(memory, "run_peak_bytes"), bytes_of(memory, "loaded_bytes"));
  EXPECT_FALSE(memory.contains("run_mean_bytes"));
  EXPECT_THAT(result.out, HasSubstr("prepared"));
  EXPECT_THAT(result.out, HasSubstr("of the warm-up in the setup phase"));
}

TEST(BenchVerdicts, AModelThatFailsInOrderHasReadItsOwnPeak) {
  Bench bench;
  bench.run({"--backend", "misbehaving", "--model", "m=" + bench.model("m", "load allocate 30\nload fail")});
  const Json model = model_of(bench.report(), "m");
  EXPECT_EQ(get_text(model, "status"), "failed");
  EXPECT_GT(bytes_of(get_member(model, "memory"), "load_peak_bytes"), mebibytes(30).count);
  EXPECT_EQ(get_member(model, "warnings").size(), 0U) << to_text(get_member(model, "warnings"));
}

}  // namespace
}  // namespace headroom::test
