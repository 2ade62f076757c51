// Hangs, real and apparent: --timeout ends a hang, the error names it and its phase, and everything else
// continues.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/files.h"
#include "cli/bench_fixture.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;
using BenchHangs = BenchTest;

// Long enough for a healthy model under a sanitizer on a machine that is busy with other tests: with 1 s, a
// normal start counted as a hang there.
constexpr char kPatience[] = "4s";

TEST_F(BenchHangs, AllowsASlowWarmUpAndAWaitAtTheGate) {
  // Ten warm-up runs of 800 ms take twice the timeout in total, and the quick model waits for them at the
  // gate.
  EXPECT_THAT(run({"--timeout", kPatience, "--max-frames", "3", "--parallel", "--model", model("quick", ""),
                   "--model", model("slow", "run sleep 800")}),
              Ends(0));
  const Json report = bench_.report();
  for (const Json& model : get_member(get_member(report, "parallel"), "together"))
    EXPECT_EQ(get_text(model, "status"), "ok") << get_text(model, "error");
}

TEST_F(BenchHangs, NamesTheFileThatHangsTheScan) {
  const fs::path pipe = bench_.path() / "pipe.png";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const UniqueFd writer(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));  // writes nothing, so reading never ends
  EXPECT_THAT(bench_.run({"--source", "image_dir=" + pipe.string(), "--backend", "misbehaving", "--timeout",
                          kPatience, "--model", model("m", "")}),
              Ends(1, testing::_, HasSubstr("no response for 4.000 s while reading pipe.png")));
}

TEST_F(BenchHangs, ReportsAFifoAndKeepsTheFiguresOfAWorkerThatHangsAtExit) {
  const fs::path fifo = bench_.path() / "models/fifo.misbehave";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(run({"--max-frames", "3", "--timeout", kPatience, "--model", "bad=" + fifo.string(), "--model",
                   model("m", "exit hang")}),
              Ends(1));
  EXPECT_THAT(error_of("bad"), HasSubstr("is a FIFO, not a file"));
  const Json model = entry("m");
  EXPECT_EQ(get_text(model, "status"), "ok");
  EXPECT_EQ(get_integer(get_member(model, "latency_ns"), "n"), 3);
  EXPECT_THAT(to_text(get_member(model, "warnings")), HasSubstr("did not exit after the run"));
}

// A lease makes another process's open() wait, like a mount whose server is gone. Prepared data is checked
// before use, in a child process.
TEST_F(BenchHangs, TimesOutOnAModelFileThatCannotBeOpened) {
  const std::string held = bench_.model("held", "");
  Words words{"--timeout", kPatience,       "--model",         "bad=" + held,
              "--model",   model("ok", ""), "--skip-inference"};
  ASSERT_EQ(run(words).exit_code, 0);
  const UniqueFd file(::open(held.c_str(), O_RDWR | O_CLOEXEC));
  const auto before = ::signal(SIGIO, SIG_IGN);  // the signal to the lease's holder
  for (const bool is_prepared : {true, false}) {
    if (::fcntl(file.get(), F_SETLEASE, F_WRLCK) != 0)
      GTEST_SKIP() << "this file system has no leases; skipped";
    words.pop_back();
    if (is_prepared) words.emplace_back("--skip-setup");
    const CommandResult result = run(words);
    ::fcntl(file.get(), F_SETLEASE, F_UNLCK);
    EXPECT_EQ(result.exit_code, is_prepared ? 2 : 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(is_prepared ? "no response" : "did not respond"));
  }
  EXPECT_EQ(status_of("bad"), "timeout");
  EXPECT_EQ(status_of("ok"), "ok");
  EXPECT_EQ(get_text(entry("bad"), "died_in"), "runtime_loaded");  // it hung while loading the model
  ::signal(SIGIO, before);
}

TEST_F(BenchHangs, ReportsAModelThatHangsInTheInferencePhaseOnly) {
  const std::string turns = bench_.model("turns", "");
  CommandOptions options;
  options.while_running = [&](int) {
    const std::string series = file("metrics.jsonl");
    if (series.find("\"phase\":\"inference\"") == std::string::npos) return true;
    write_text(turns, "load hang");  // both models were tried, and the first is being measured
    return false;
  };
  EXPECT_THAT(run({"--metrics-interval", "50ms", "--max-frames", "300", "--timeout", kPatience, "--model",
                   model("first", "run sleep 2"), "--model", "turns=" + turns},
                  options),
              Ends(1));
  const Json hung = entry("turns");
  EXPECT_EQ(get_text(hung, "status"), "timeout");
  EXPECT_EQ(get_text(hung, "died_in"), "runtime_loaded");
  EXPECT_EQ(status_of("first"), "ok");
}

}  // namespace
}  // namespace headroom::test
