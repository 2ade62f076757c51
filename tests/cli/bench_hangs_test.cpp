// Hangs, real and apparent: --timeout ends a hang, the error names it and its phase, and everything else
// continues.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/files.h"
#include "cli/command.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

// Long enough for a healthy model under a sanitizer on a machine that is busy with other tests: with 1 s, a
// normal start counted as a hang there.
constexpr char kPatience[] = "4s";

TEST(BenchHangs, KeepsTheFiguresOfAWorkerThatHangsAtExit) {
  Bench bench;
  const CommandResult result =
      bench.run({"--source", bench.pictures(), "--backend", "misbehaving", "--timeout", kPatience,
                 "--max-frames", "3", "--model", "m=" + bench.model("m", "exit hang")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json model = model_of(bench.report(), "m");
  EXPECT_EQ(get_text(model, "status"), "ok");
  EXPECT_EQ(get_integer(get_member(model, "latency_ns"), "n"), 3);
  EXPECT_THAT(to_text(get_member(model, "warnings")), HasSubstr("did not exit after the run"));
}

TEST(BenchHangs, AllowsASlowWarmUpAndAWaitAtTheGate) {
  Bench bench;
  // Ten warm-up runs of 800 ms take twice the timeout in total, and the quick model waits for them at the
  // gate.
  const CommandResult result =
      bench.run({"--source", bench.pictures(), "--backend", "misbehaving", "--timeout", kPatience,
                 "--max-frames", "3", "--parallel", "--model", "quick=" + bench.model("quick", ""), "--model",
                 "slow=" + bench.model("slow", "run sleep 800")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json report = bench.report();
  for (const Json& model : get_member(get_member(report, "parallel"), "together"))
    EXPECT_EQ(get_text(model, "status"), "ok") << get_text(model, "error");
}

TEST(BenchHangs, NamesTheFileThatHangsTheScan) {
  Bench bench;
  const fs::path pipe = bench.path() / "pipe.png";  // no process writes to it, so reading never ends
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const CommandResult result =
      bench.run({"--source", "image_dir=" + pipe.string(), "--backend", "misbehaving", "--timeout", kPatience,
                 "--model", "m=" + bench.model("m", "")});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no response for 4.000 s while reading pipe.png"));
}

TEST(BenchHangs, ReportsAModelFileThatIsAFifo) {
  Bench bench;
  const fs::path fifo = bench.path() / "models/fifo.misbehave";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const CommandResult result =
      bench.run({"--source", bench.pictures(), "--backend", "misbehaving", "--max-frames", "5", "--timeout",
                 "5s", "--model", "bad=" + fifo.string(), "--model", "ok=" + bench.model("ok", "")});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(get_text(model_of(bench.report(), "bad"), "error"), HasSubstr("is a FIFO, not a file"));
  EXPECT_EQ(get_text(model_of(bench.report(), "ok"), "status"), "ok");
}

// A lease makes another process's open() wait, like a mount whose server is gone.
TEST(BenchHangs, TimesOutOnAModelFileThatCannotBeOpened) {
  Bench bench;
  const std::string held = bench.model("held", "");
  const UniqueFd file(::open(held.c_str(), O_RDWR | O_CLOEXEC));
  const auto before = ::signal(SIGIO, SIG_IGN);  // the signal to the lease's holder
  if (::fcntl(file.get(), F_SETLEASE, F_WRLCK) != 0)
    GTEST_SKIP() << "this file system has no leases; skipped";
  const CommandResult result =
      bench.run({"--source", bench.pictures(), "--backend", "misbehaving", "--max-frames", "5", "--timeout",
                 kPatience, "--model", "bad=" + held, "--model", "ok=" + bench.model("ok", "")});
  ::fcntl(file.get(), F_SETLEASE, F_UNLCK);
  ::signal(SIGIO, before);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const Json bad = model_of(bench.report(), "bad");
  EXPECT_EQ(get_text(bad, "status"), "timeout");
  EXPECT_THAT(get_text(bad, "error"), HasSubstr("did not respond"));
  EXPECT_EQ(get_text(bad, "died_in"), "runtime_loaded");  // it hung while loading the model
  EXPECT_EQ(get_text(model_of(bench.report(), "ok"), "status"), "ok");
}

// Prepared data is checked before use, in a child process.
TEST(BenchHangs, TimesOutOnAPreparedModelFileThatCannotBeOpened) {
  Bench bench;
  const std::string held = bench.model("held", "");
  const std::vector<std::string> arguments{"--source",    bench.pictures(), "--backend",
                                           "misbehaving", "--max-frames",   "5",
                                           "--timeout",   kPatience,        "--model",
                                           "bad=" + held, "--model",        "ok=" + bench.model("ok", "")};
  auto setup = arguments;
  setup.emplace_back("--skip-inference");
  ASSERT_EQ(bench.run(setup).exit_code, 0);
  const UniqueFd file(::open(held.c_str(), O_RDWR | O_CLOEXEC));
  const auto before = ::signal(SIGIO, SIG_IGN);
  if (::fcntl(file.get(), F_SETLEASE, F_WRLCK) != 0)
    GTEST_SKIP() << "this file system has no leases; skipped";
  auto inference = arguments;
  inference.emplace_back("--skip-setup");
  const CommandResult result = bench.run(inference);
  ::fcntl(file.get(), F_SETLEASE, F_UNLCK);
  ::signal(SIGIO, before);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(get_text(model_of(bench.report(), "bad"), "status"), "timeout");
  EXPECT_THAT(get_text(model_of(bench.report(), "bad"), "error"), HasSubstr("no response"));
  EXPECT_EQ(get_text(model_of(bench.report(), "ok"), "status"), "ok");
}

TEST(BenchHangs, ReportsAModelThatHangsInTheInferencePhaseOnly) {
  Bench bench;
  const std::string turns = bench.model("turns", "");
  CommandOptions options;
  options.while_running = [&](int) {
    const std::string series = read_text(bench.run_folder() / "metrics.jsonl");
    if (series.find("\"phase\":\"inference\"") == std::string::npos) return true;
    write_text(turns, "load hang");  // both models were tried, and the first is being measured
    return false;
  };
  const CommandResult result =
      bench.run({"--source", bench.pictures(), "--backend", "misbehaving", "--metrics-interval", "50ms",
                 "--max-frames", "300", "--timeout", kPatience, "--model",
                 "first=" + bench.model("first", "run sleep 2"), "--model", "turns=" + turns},
                options);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const Json hung = model_of(bench.report(), "turns");
  EXPECT_EQ(get_text(hung, "status"), "timeout");
  EXPECT_EQ(get_text(hung, "died_in"), "runtime_loaded");
  EXPECT_EQ(get_text(model_of(bench.report(), "first"), "status"), "ok");
}

}  // namespace
}  // namespace headroom::test
