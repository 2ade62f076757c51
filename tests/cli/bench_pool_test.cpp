// `headroom bench --pool`: several models in one process whose budget does not fit all of them.

#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Two models of 40 MiB do not fit in a budget of 96 MiB together with the process and the safety margin.
class BenchPool : public testing::Test {
 protected:
  void SetUp() override {
#if defined(HEADROOM_SANITIZED)
    GTEST_SKIP() << "a sanitizer allocates memory, too";
#endif
  }
  CommandResult run(const std::vector<std::string>& models, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"--backend", "misbehaving", "--max-frames", "12", "--pool", "96MiB"};
    for (std::size_t i = 0; i < models.size(); ++i) {
      const std::size_t bar = std::min(models[i].find('|'), models[i].size());
      const std::string name(1, static_cast<char>('a' + i));
      const std::string settings = bar < models[i].size() ? models[i].substr(bar + 1) : "";
      arguments.insert(arguments.end(),
                       {"--model", name + "=" + bench_.model(name, models[i].substr(0, bar)) + settings});
    }
    return bench_.run(joined({arguments, more}));
  }
  Json pool() const { return get_member(bench_.report(), "pool"); }
  Bench bench_;
};

TEST_F(BenchPool, ModelsTakeTurnsInABudgetTooSmallForAll) {
  const CommandResult result =
      run({"load allocate 40\nrun sleep 1", "load allocate 40", "load allocate 40|,every=4"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json seen = pool();
  EXPECT_EQ(get_text(seen, "status"), "ok") << seen.dump(1);
  EXPECT_EQ(get_integer(seen, "budget_bytes"), 96 << 20);
  EXPECT_EQ(get_integer(seen, "frames"), 12);
  EXPECT_EQ(get_integer(seen, "samples_over"), 0);
  EXPECT_GT(get_integer(seen, "samples").value_or(0), 0);
  EXPECT_LE(get_integer(seen, "peak_bytes").value_or(1 << 30), 96 << 20);
  EXPECT_GT(get_integer(seen, "all_at_once_bytes").value_or(0), 120 << 20);
  ASSERT_EQ(seen["models"].size(), 3U);
  std::int64_t unloads = 0;
  for (const Json& model : seen["models"]) {
    const std::int64_t requests = get_text(model, "name") == "c" ? 3 : 12;
    EXPECT_EQ(get_integer(model, "requests"), requests);
    EXPECT_EQ(get_integer(model, "hits").value_or(0) + get_integer(model, "loads").value_or(0), requests);
    unloads += get_integer(model, "unloads").value_or(0);
    EXPECT_EQ(get_integer(model, "evictions"), get_integer(model, "unloads")) << "nothing failed";
    EXPECT_EQ(get_integer(get_member(model, "latency_ns"), "n"), requests);
    EXPECT_GE(get_integer(model, "charge_bytes").value_or(0), 40 << 20);
  }
  EXPECT_GT(unloads, 0);
  EXPECT_THAT(result.out, HasSubstr("Pool of 96.0 MiB for 3 models"));
  EXPECT_THAT(read_text(bench_.run_folder() / "report.md"),
              AllOf(HasSubstr("## Model Pool"), HasSubstr("1 in 4")));
  const std::string events = read_text(bench_.run_folder() / "pool-events.jsonl");
  EXPECT_THAT(events, AllOf(HasSubstr("\"event\":\"loaded\""), HasSubstr("\"event\":\"unloaded\""),
                            HasSubstr("\"event\":\"metrics\"")));
}

TEST_F(BenchPool, ServesSeveralThreads) {
  const CommandResult result =
      run({"load allocate 40\nrun sleep 1", "load allocate 40\nrun sleep 1", "load allocate 8|,every=4"},
          {"--pool-threads", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(get_integer(pool(), "threads"), 3);
  EXPECT_EQ(get_integer(pool(), "frames"), 12);
  EXPECT_EQ(get_integer(pool(), "samples_over"), 0);
  const Json of_models = get_member(pool(), "models");
  for (const Json& model : of_models) {
    const std::int64_t requests = get_text(model, "name") == "c" ? 3 : 12;
    EXPECT_EQ(get_integer(model, "requests"), requests);
    EXPECT_EQ(get_integer(get_member(model, "latency_ns"), "n"), requests);
    EXPECT_EQ(
        get_integer(model, "hits").value_or(0) + get_integer(get_member(model, "wait_ns"), "n").value_or(0),
        requests)
        << "a request may also wait for the memory of a leased model";
  }
  EXPECT_THAT(result.out, HasSubstr("Pool of 96.0 MiB for 3 models and 3 threads"));
  EXPECT_THAT(read_text(bench_.run_folder() / "report.md"), HasSubstr("3 threads"));
}

TEST_F(BenchPool, IsolatedModelFailsWithoutAffectingOthers) {
  // Two runs warm it up, three more succeed, then it crashes.
  EXPECT_THAT(run({"run crash_after 5|,isolated=on", "load allocate 8"}), Ends(1));
  const Json seen = pool();
  EXPECT_EQ(get_text(seen, "status"), "failed") << seen.dump(1);
  EXPECT_THAT(get_text(seen, "error"), AllOf(HasSubstr("3 of 12 requests for a"), HasSubstr("SIGSEGV")));
  ASSERT_EQ(seen["models"].size(), 2U);
  EXPECT_EQ(get_bool(seen["models"][0], "isolated"), true);
  EXPECT_EQ(get_integer(seen["models"][0], "failures"), 3);
  EXPECT_EQ(get_integer(seen["models"][0], "loads"), 3);
  EXPECT_EQ(get_integer(get_member(seen["models"][0], "latency_ns"), "n"), 9);
  EXPECT_EQ(get_integer(get_member(seen["models"][1], "latency_ns"), "n"), 12)
      << "the other model must still be served";
  EXPECT_THAT(read_text(bench_.run_folder() / "report.md"), HasSubstr("a (own process)"));
}

// If a load reset the process's peak, only the last load's peak would remain.
TEST_F(BenchPool, ReportsTheResidentPeakOfTheWholeRun) {
  ASSERT_THAT(run({"load allocate 70|,every=12", "load allocate 30"}), Ends(0));
  ASSERT_EQ(get_integer(pool()["models"][0], "evictions"), 1) << "the second model must replace the first";
  EXPECT_GE(get_integer(get_member(pool(), "memory"), "run_peak_bytes").value_or(0), 70 << 20);
}

TEST_F(BenchPool, ReportsAModelThatCannotFitAndServesTheOthers) {
  EXPECT_THAT(run({"load allocate 200", "load allocate 8"}), Ends(1));
  const Json seen = pool();
  EXPECT_EQ(get_text(seen, "status"), "failed");
  EXPECT_THAT(get_text(seen, "error"), HasSubstr("12 of 12 requests for a failed"));
  EXPECT_EQ(get_integer(seen["models"][0], "refusals"), 12);
  EXPECT_EQ(get_integer(get_member(seen["models"][1], "latency_ns"), "n"), 12);
  EXPECT_EQ(get_integer(seen, "samples_over"), 0);
  EXPECT_EQ(get_text(model_of(bench_.report(), "a"), "status"), "ok") << "it must succeed without the pool";
  EXPECT_THAT(run_headroom({"doctor", bench_.run_folder().string()}), Ends(1, HasSubstr("The pool failed")));
}

TEST_F(BenchPool, FailsOnSamplesOverTheBudget) {
  EXPECT_THAT(run({"load allocate 8", "run allocate_beside 12\nrun sleep 12"}), Ends(1));
  EXPECT_EQ(get_text(pool(), "status"), "failed");
  EXPECT_THAT(get_text(pool(), "error"), HasSubstr("exceeded the budget, peak"));
  EXPECT_GT(get_integer(pool(), "samples_over").value_or(0), 0);
}

// `a` fails alone, so it is not in the pool, where the two others fit.
TEST_F(BenchPool, LoadsEachModelOnceIfAllFitThatRunAlone) {
  EXPECT_THAT(run({"run crash", "load allocate 8", "load allocate 8"}), Ends(1));
  EXPECT_EQ(get_text(model_of(bench_.report(), "b"), "status"), "ok");
  const Json of_models = get_member(pool(), "models");
  ASSERT_EQ(of_models.size(), 2U) << pool().dump(1);
  EXPECT_EQ(get_text(of_models[0], "name"), "b");
  for (const Json& model : of_models) {
    EXPECT_EQ(get_integer(model, "loads"), 1);
    EXPECT_EQ(get_integer(model, "hits"), 11);
  }
}

TEST_F(BenchPool, KeepsItsResultsWhenItsProcessDies) {
  EXPECT_THAT(run({"load allocate 8", "run crash_beside"}), Ends(1));
  const Json seen = pool();
  EXPECT_EQ(get_text(seen, "status"), "crashed") << seen.dump(1);
  EXPECT_EQ(seen["models"].size(), 2U);
  EXPECT_EQ(get_text(model_of(bench_.report(), "b"), "status"), "ok");
}

TEST_F(BenchPool, CountsAFailedRunAndServesTheOthers) {
  const CommandResult result =
      run({"run fail_beside", "load allocate 8"});  // it runs alone in the first frame
  EXPECT_EQ(result.exit_code, 1);
  const Json seen = pool();
  EXPECT_EQ(get_text(seen, "status"), "failed");
  EXPECT_THAT(get_text(seen, "error"), HasSubstr("it was told to fail beside others"));
  EXPECT_EQ(get_integer(get_member(seen["models"][1], "latency_ns"), "n"), 12);
  const Json& failing = seen["models"][0];
  EXPECT_EQ(get_integer(get_member(failing, "latency_ns"), "n"), 1);
  EXPECT_EQ(get_integer(failing, "failures"), 1);
  EXPECT_EQ(get_integer(failing, "refusals"), 10) << "warm-up fails, too, and the next attempt comes later";
}

TEST_F(BenchPool, ReportsWrongUseInOneSentence) {
  EXPECT_THAT(refusal_of(run({"load allocate 1"}, {"--device", "cpu", "--pool", "1KiB"})),
              HasSubstr("--pool"));
  EXPECT_THAT(refusal_of(run({"load allocate 1|,every=0"})), HasSubstr("invalid setting every=0 of model"));
  EXPECT_THAT(refusal_of(run({"load allocate 1|,isolated=1"})),
              HasSubstr("invalid setting isolated=1 of model"));
  EXPECT_THAT(refusal_of(run({"load allocate 1|,isolated=on,device=cuda:0"})),
              HasSubstr("a cannot be isolated"));
  EXPECT_THAT(refusal_of(run({"load allocate 1"}, {"--pool-threads", "0"})), HasSubstr("--pool-threads"));
  EXPECT_THAT(refusal_of(bench_.run({"--backend", "misbehaving", "--model",
                                     "a=" + bench_.model("a", "load allocate 1"), "--pool-threads", "2"})),
              HasSubstr("--pool-threads needs a pool"));
  EXPECT_THAT(refusal_of(run({"load allocate 1", "load allocate 1|,device=cuda:0"})),
              HasSubstr("--pool needs all models on one device"));
}

}  // namespace
}  // namespace headroom::test
