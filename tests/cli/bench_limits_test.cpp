// The limit is proved and enforced, and does not affect models that stay within it.

#include "cli/bench_fixture.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;
using BenchLimits = BenchTest;

TEST_F(BenchLimits, ReportsOomForAModelOverAHardLimitOnly) {
  if (!hard_limits_work()) GTEST_SKIP() << "control groups cannot be made here; a hard limit cannot be tried";
  EXPECT_THAT(run({"--max-frames", "5", "--mem-limit", "128MiB", "--model", model("small", ""), "--model",
                   model("large", "load allocate 300"), "--model", model("grows", "run allocate 30"),
                   "--model", model("after", "")}),
              Ends(1));
  const Json report = bench_.report();
  const Json& limit = get_member(report, "limit");
  EXPECT_EQ(get_text(limit, "type"), "hard");
  EXPECT_EQ(get_integer(limit, "bytes"), 128LL << 20);
  EXPECT_GE(get_member(limit, "routes").size(), 4U);
  EXPECT_EQ(status_of("large"), "oom");
  EXPECT_EQ(get_text(entry("large"), "died_in"), "runtime_loaded");
  // The memory of a model that died in the setup phase is in the report, as a violation.
  const Json died_in_setup = get_member(entry("large"), "memory");
  EXPECT_EQ(get_bool(died_in_setup, "within_limit"), false);
  EXPECT_GT(get_integer(died_in_setup, "cgroup_peak_bytes").value_or(0), 120LL << 20);
  EXPECT_EQ(status_of("grows"), "oom");
  for (const char* name : {"small", "after"}) {
    EXPECT_EQ(status_of(name), "ok") << name;
    EXPECT_EQ(get_bool(get_member(entry(name), "memory"), "within_limit"), true) << name;
  }
  EXPECT_THAT(file("report.md"), HasSubstr("Memory Safety Summary"));
}

TEST_F(BenchLimits, CountsAndLogsViolationsOfASoftLimitAndContinues) {
  Words words{"--max-frames", "60",    "--limit-mechanism", "watchdog",
              "--mem-limit",  "64MiB", "--model",           model("large", "load allocate 100\nrun sleep 5")};
  const CommandResult result = run(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const std::string& text : {result.err, file("run.log")}) {
    EXPECT_THAT(text, HasSubstr("error"));
    EXPECT_THAT(text, HasSubstr("large exceeds the limit of 64.0 MiB: "));
    EXPECT_THAT(text, HasSubstr("large: over the limit of 64.0 MiB in "));
  }
  const Json model = entry("large");
  EXPECT_EQ(get_text(get_member(bench_.report(), "limit"), "type"), "soft");
  EXPECT_EQ(get_text(model, "status"), "ok");
  EXPECT_EQ(get_bool(get_member(model, "memory"), "within_limit"), false);
  EXPECT_GT(get_integer(get_member(model, "memory"), "violations").value_or(0), 0);
  words.emplace_back("--strict");
  EXPECT_EQ(run(words).exit_code, 1);
}

// Thread stacks are reserved but not touched. RLIMIT_DATA counts them anyway, and refuses the thread.
TEST_F(BenchLimits, ReportsOomWhenRlimitRefusesMemoryOrAThread) {
#ifdef HEADROOM_SANITIZED
  GTEST_SKIP() << "AddressSanitizer reserves more private memory than RLIMIT_DATA would grant; skipped";
#endif
  EXPECT_THAT(run({"--max-frames", "5", "--limit-mechanism", "rlimit", "--mem-limit", "64MiB", "--model",
                   model("large", "load allocate 300"), "--model", model("many", "load threads 300"),
                   "--model", model("some", "load threads 20\nrun sleep 20")}),
              Ends(1));
  EXPECT_EQ(get_text(get_member(bench_.report(), "limit"), "mechanism"), "rlimit_data");
  EXPECT_EQ(status_of("large"), "oom");
  EXPECT_EQ(status_of("many"), "oom");
  EXPECT_THAT(error_of("many"), HasSubstr("a thread could not be created"));
  // 20 stacks of 8 MiB would not fit. The reserved memory counts against the limit.
  EXPECT_EQ(status_of("some"), "ok") << error_of("some");
  const auto counted = get_integer(get_member(entry("some"), "memory"), "limit_peak_bytes");
  EXPECT_GT(counted.value_or(0), mebibytes(20).count);
  EXPECT_LT(counted.value_or(0), mebibytes(64).count);
}

TEST_F(BenchLimits, ClampsTheGigabyteAliasWithAWarning) {
  EXPECT_THAT(run({"--max-frames", "2", "--gpu_mem_limit_gb", "12", "--model", model("m", "")}),
              Ends(0, testing::_, HasSubstr("8")));
  EXPECT_EQ(get_integer(get_member(bench_.report(), "limit"), "bytes"), 8LL << 30);
  EXPECT_THAT(to_text(get_member(bench_.report(), "warnings")), HasSubstr("8"));
  EXPECT_THAT(file("run.log"), HasSubstr("so 8 GiB is used"));
}

TEST_F(BenchLimits, EnforcesOneCommonLimitInParallelRuns) {
  if (!hard_limits_work()) GTEST_SKIP() << "control groups cannot be made here; a hard limit cannot be tried";
    // Each model fits alone; the three do not fit together.
#if defined(HEADROOM_SANITIZED)  // a sanitizer adds about 100 MiB to each process
  constexpr const char *kLimit = "400MiB", *kScript = "load allocate 200\nrun sleep 5";
#else
  constexpr const char *kLimit = "150MiB", *kScript = "load allocate 80\nrun sleep 5";
#endif
  EXPECT_THAT(run({"--max-frames", "100", "--mem-limit", kLimit, "--parallel", "--model", model("a", kScript),
                   "--model", model("b", kScript), "--model", model("c", kScript)}),
              Ends(1));
  const Json report = bench_.report();
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(status_of(name), "ok") << name;
  int killed = 0;
  for (const Json& model : get_member(get_member(report, "parallel"), "together"))
    killed += get_text(model, "status") == "oom" ? 1 : 0;
  EXPECT_GE(killed, 1);
  EXPECT_LE(killed, 2);
  EXPECT_EQ(get_bool(get_member(report, "parallel"), "within_limit"), false);
}

TEST_F(BenchLimits, DistinguishesAGrowingModelFromItsVictim) {
#ifdef HEADROOM_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory changes which process is the largest";
#endif
  if (!hard_limits_work()) GTEST_SKIP() << "control groups cannot be made here; a hard limit cannot be tried";
  // At the common limit, the kernel kills the largest process, `big`. Then `grows` reaches the limit alone.
  EXPECT_THAT(run_without_source({"--max-frames", "60", "--mem-limit", "180MiB", "--parallel", "--model",
                                  model("grows", "run allocate 5\nrun sleep 5"), "--model",
                                  model("big", "load allocate 100\nrun sleep 5")}),
              Ends(1));
  const Json report = bench_.report();
  EXPECT_EQ(status_of("grows"), "oom");
  EXPECT_EQ(status_of("big"), "ok");
  const Json& together = get_member(get_member(report, "parallel"), "together");
  ASSERT_EQ(together.size(), 2U);
  for (const Json& model : together)
    EXPECT_THAT(get_text(model, "error"), HasSubstr("all models share that limit: grows exceeded it alone"));
  EXPECT_EQ(get_bool(get_member(together[1], "memory"), "within_limit"), std::nullopt);
}

TEST_F(BenchLimits, CountsAPipelineOverTheLimitAsAViolation) {
#ifdef HEADROOM_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory would exceed the limit";
#endif
  const std::string commands = "load allocate 60\nrun sleep 10";
  const CommandResult result = run_without_source(
      {"--max-frames", "20", "--mem-limit", "100MiB", "--limit-mechanism", "watchdog", "--pipeline",
       "--strict", "--model", model("a", commands), "--model", model("b", commands)});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const Json report = bench_.report();
  EXPECT_EQ(status_of("a"), "ok");
  EXPECT_EQ(get_bool(get_member(get_member(report, "pipeline"), "memory"), "within_limit"), false);
  EXPECT_THAT(result.out, HasSubstr("pipeline: over the limit"));
}

}  // namespace
}  // namespace headroom::test
