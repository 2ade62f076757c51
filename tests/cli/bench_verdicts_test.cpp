// Verdicts of a run on the limit, on a model's end and on its warm-up: correct, timely, and based on one
// figure.

#include "base/units.h"
#include "cli/bench_fixture.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;
using testing::Not;
using BenchVerdicts = BenchTest;

std::int64_t bytes_of(const Json& object, const char* key) { return get_integer(object, key).value_or(0); }

// With RLIMIT_DATA as limit, even if this machine supports a better mechanism.
class BenchVerdictsUnderRlimit : public BenchTest {
 protected:
  void SetUp() override {
#ifdef HEADROOM_SANITIZED
    GTEST_SKIP() << "AddressSanitizer reserves more private memory than RLIMIT_DATA would grant; skipped";
#endif
  }
  CommandResult run(const std::string& limit, Words words) {
    words.insert(words.begin(), {"--limit-mechanism", "rlimit", "--mem-limit", limit});
    return run_without_source(std::move(words));
  }
};

// `needy` needs 200 MiB with default settings and nothing without a memory pattern: the case for --tune. For
// `large`, the search ends soon.
TEST_F(BenchVerdictsUnderRlimit, TuningFindsSettingsThatFitIfAnyDo) {
  EXPECT_THAT(run("128MiB", {"--max-frames", "5", "--tune", "--model", model("needy", "pattern allocate 200"),
                             "--model", model("large", "load allocate 200")}),
              Ends(1));
  const Json needy = entry("needy"), large = entry("large");
  EXPECT_EQ(get_text(needy, "status"), "ok") << get_text(needy, "error");
  EXPECT_EQ(get_bool(get_member(needy, "settings"), "memory_pattern"), false);
  EXPECT_TRUE(needy.contains("smallest_settings"));
  const Json& trials = get_member(needy, "trials");
  ASSERT_GE(trials.size(), 2U);
  EXPECT_EQ(get_text(trials[0], "status"), "oom");
  EXPECT_EQ(get_text(trials[1], "status"), "ok");
  EXPECT_EQ(get_text(large, "status"), "oom");
  EXPECT_GE(get_member(large, "trials").size(), 2U);
  EXPECT_LE(get_member(large, "trials").size(), 6U);
}

// Each model fits alone; the two together do not, even if the machine's metrics are read seldom.
TEST_F(BenchVerdictsUnderRlimit, MeasuresTheJointPeakWithoutAControlGroup) {
  // PSS is read 20 times a second. A model with a shorter life than a busy machine's pauses has no reading.
  const std::string lives = "load allocate 40\nrun sleep 400";
  const CommandResult result =
      run("64MiB", {"--max-frames", "1", "--warmup", "1", "--parallel", "--strict", "--metrics-interval",
                    "1h", "--model", model("a", lives), "--model", model("b", lives)});
  EXPECT_EQ(result.exit_code, 1) << result.out;
  const Json parallel = get_member(bench_.report(), "parallel");
  EXPECT_GE(bytes_of(parallel, "joint_peak_bytes"), mebibytes(80).count);
  EXPECT_GE(bytes_of(parallel, "sum_of_peaks_bytes"), mebibytes(80).count) << "the load is in both";
  EXPECT_EQ(get_text(parallel, "joint_peak_source"), "pss_samples");
  EXPECT_EQ(get_bool(parallel, "joint_peak_is_lower_bound"), true);
  EXPECT_EQ(get_bool(parallel, "within_limit"), false);
  EXPECT_THAT(result.err, HasSubstr("all at once: the models exceeded the limit of 64.0 MiB"));
}

// Shared memory is resident, but RLIMIT_DATA does not count it. The share of the limit uses the same figure.
TEST_F(BenchVerdictsUnderRlimit, JudgesReservedMemory) {
  EXPECT_THAT(
      run("64MiB", {"--max-frames", "20", "--strict", "--model", model("m", "load share 100\nrun sleep 10")}),
      Ends(0));
  const Json report = bench_.report();
  const Json memory = get_member(model_of(report, "m"), "memory");
  EXPECT_GT(bytes_of(memory, "run_peak_bytes"), mebibytes(100).count);
  EXPECT_LT(bytes_of(memory, "limit_peak_bytes"), mebibytes(64).count);
  EXPECT_EQ(get_bool(memory, "within_limit"), true);
  EXPECT_EQ(get_integer(memory, "violations"), 0);
  EXPECT_THAT(read_text(bench_.run_folder() / "report.md"), HasSubstr("RLIMIT_DATA does not count"));
}

TEST_F(BenchVerdicts, ReportsTheLastLogLineAndTheOwnPeakOfAFailure) {
  run_without_source({"--max-frames", "2", "--model", model("killed", "run say\nrun kill"), "--model",
                      model("early", "load say\nload sleep 200\nrun crash"), "--model",
                      model("crashed", "run say\nrun crash"), "--model",
                      model("failed", "load allocate 30\nload fail")});
  EXPECT_THAT(error_of("killed"), Not(HasSubstr("last log line")));
  EXPECT_THAT(error_of("early"), Not(HasSubstr("last log line")));
  EXPECT_THAT(error_of("crashed"), HasSubstr("; last log line: 'it was told to warn'"));
  const Json failed = entry("failed");
  EXPECT_EQ(get_text(failed, "status"), "failed");
  EXPECT_GT(bytes_of(get_member(failed, "memory"), "load_peak_bytes"), mebibytes(30).count);
  EXPECT_EQ(get_member(failed, "warnings").size(), 0U) << to_text(get_member(failed, "warnings"));
}

// The entry of an ONNX model that names its weights file.
TEST_F(BenchVerdicts, RejectsPreparedDataOfOtherWeights) {
  const std::string entry("\x0A\x08location\x12\x05w.bin", 17);
  const std::string model = bench_.model("m", "run sleep 1\n" + entry);
  const auto weights = std::filesystem::path(model).parent_path() / "w.bin";
  write_text(weights, std::string(5000, 'a'));
  Words words{"--max-frames", "2", "--model", "m=" + model};
  EXPECT_EQ(run_without_source(words).exit_code, 0);
  EXPECT_EQ(get_integer(this->entry("m"), "file_size_bytes"),
            static_cast<std::int64_t>(std::filesystem::file_size(model)) + 5000);
  words.emplace_back("--skip-setup");
  EXPECT_EQ(run_without_source(words).exit_code, 0);
  write_text(weights, std::string(5000, 'b'));
  EXPECT_THAT(run_without_source(words), IsRefused(HasSubstr("has changed since")));
}

TEST_F(BenchVerdicts, ReportsWarmUpMemoryOfASetupAlone) {
  const CommandResult result =
      run_without_source({"--skip-inference", "--model", model("m", "load allocate 30\nrun allocate 2")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json model = entry("m");
  const Json memory = get_member(model, "memory");
  EXPECT_GT(bytes_of(memory, "loaded_bytes"), mebibytes(30).count);
  EXPECT_GE(bytes_of(memory, "load_peak_bytes"), bytes_of(memory, "loaded_bytes"));
  EXPECT_GT(bytes_of(memory, "run_peak_bytes"), bytes_of(memory, "loaded_bytes"));
  EXPECT_FALSE(memory.contains("run_mean_bytes"));
  EXPECT_THAT(result.out, HasSubstr("prepared"));
  EXPECT_THAT(result.out, HasSubstr("during the warm-up of the setup phase"));
}

}  // namespace
}  // namespace headroom::test
