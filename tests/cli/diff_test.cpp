// `headroom diff` of recordings and of logs of headroom watch, as a user and as a CI job run it.
#include <fmt/format.h>

#include <cmath>

#include "base/subprocess.h"
#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "cli/documented_keys.h"
#include "support/recording_builder.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Words = std::vector<std::string>;

constexpr std::uint64_t kLibrary = 0x7f0000000000;

class DiffCommand : public testing::Test {
 protected:
  CommandResult run(Words words) {
    words.insert(words.begin(), "diff");
    return run_headroom(words, {.folder = folder_.path()});
  }
  TemporaryFolder folder_;
};

class Diff : public DiffCommand {
 protected:
  Diff() {
    record("a.hrec", 1 << 20);
    record("b.hrec", 3 << 20);
  }
  // Records a workspace of `bytes` in the layer "conv", and a megabyte that stays. Both come from one build
  // of a library, loaded at `at`.
  void record(const std::string& name, std::uint64_t bytes, RecordingOptions options = {},
              std::uint64_t at = kLibrary) {
    fs::create_directories((folder_ / name).parent_path());
    RecordingBuilder builder(folder_ / name, std::move(options));
    builder.module("/absent/libengine.so", std::string(20, '\x11'), at, at + 0x10000, at);
    builder.allocate(0, 5, 0x90000, 1 << 20, {at + 0x2001});
    builder.enter_scope(0, 10, builder.scope("conv"));
    builder.allocate(0, 20, 0x1000, bytes, {at + 0x1001});
    builder.release(0, 30, 0x1000);
    builder.finish();
  }
  Json json(Words words) {
    words.emplace_back("--json");
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json_of(result);
  }
};

TEST_F(Diff, TheVerdictIsTheFirstLine) {
  const CommandResult result = run({"a.hrec", "b.hrec"});
  EXPECT_THAT(result,
              Ends(0,
                   AllOf(StartsWith("B peaks 2.0 MiB higher (+100.0 %); 100 % of it is conv.\n"),
                         HasSubstr("Layers, by"), HasSubstr("Places, by"), HasSubstr("libengine.so+0x1000")),
                   StartsWith("warning: cannot read /absent/libengine.so: No such file")));
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << "once for both recordings";
}

TEST_F(Diff, ReportsTheSameRecordingOnBothSides) {
  const CommandResult result =
      run({"a.hrec", "./a.hrec", "--fail-above", "1%", "--fail-on", "peak_bytes>+1%,peak_bytes>1GiB"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.err,
      HasSubstr("A and B are the same, so these rules were not checked: peak_bytes>+1%, peak_bytes>+1%"));
  EXPECT_EQ(run({"a.hrec", "./a.hrec", "--fail-on", "peak_bytes>1B"}).exit_code, 1) << "its own value is";
  EXPECT_THAT(result.out, StartsWith("A and B are the same recording: name one from before the change"));
}

TEST_F(Diff, MarkdownHasTheGate) {
  EXPECT_THAT(
      run({"a.hrec", "b.hrec", "--markdown", "--fail-above", "1MiB"}),
      Ends(1, AllOf(StartsWith("**B peaks 2.0 MiB higher (+100.0 %); 100 % of it is conv.**\n\n**Gate**"),
                    AllOf(HasSubstr("| layer, at the peak |"), HasSubstr("| `conv` "),
                          HasSubstr("| place, at the peak "), HasSubstr("`libengine.so+0x1000`"),
                          HasSubstr("A: `a.hrec`  \nB: `b.hrec`\n")))));
  EXPECT_THAT(run({"a.hrec", "b.hrec", "--markdown", "--by", "module"}).out,
              HasSubstr("| module, at the peak |"));
}

TEST_F(Diff, EveryKeyOfJsonIsDocumented) {
  EXPECT_THAT(undocumented_keys(json({"a.hrec", "b.hrec"}), "diff.md"), testing::IsEmpty());
  RecordingOptions child;
  child.command = {"cc1plus", "a.cpp"};
  record("a.hrec.d/7-0.hrec", 1 << 20, child);
  record("b.hrec.d/9-0.hrec", 9 << 20, child);
  EXPECT_THAT(undocumented_keys(json({"a.hrec", "b.hrec", "--all"}), "diff.md"), testing::IsEmpty());
}

TEST_F(Diff, ByTopAndMinSelectRows) {
  for (const std::string by : {"layer", "stack", "module"}) {
    const Json diff = json({"a.hrec", "b.hrec", "--by", by});
    for (const std::string other : {"layer", "stack", "module"})
      EXPECT_EQ(diff.contains(other + "s"), other == by);
    EXPECT_THAT(run({"a.hrec", "b.hrec", "--by", by}).out,
                AllOf(HasSubstr("2.0 MiB"), HasSubstr("own peak")));
  }
  EXPECT_EQ(json({"a.hrec", "b.hrec", "--top", "1"})["stacks"].size(), 1U);
  EXPECT_EQ(json({"a.hrec", "b.hrec"})["stacks"].size(), 2U);
  EXPECT_EQ(json({"a.hrec", "b.hrec", "--min", "1MiB"})["stacks"].size(), 1U);
  EXPECT_EQ(json({"a.hrec", "b.hrec", "--min", "4MiB"})["stacks_left_out"], 2);
  EXPECT_THAT(run({"a.hrec", "b.hrec", "--min", "1GiB"}).out, HasSubstr("none changed by 1.00 GiB or more"));
}

TEST_F(Diff, CsvHasARowPerLayerStackAndModule) {
  const CommandResult result = run({"a.hrec", "b.hrec", "--csv"});
  EXPECT_THAT(result, Ends(0, AllOf(StartsWith("by,name,peak_bytes_before,peak_bytes_after,"),
                                    HasSubstr("\nlayer,conv,1048576,3145728,"))));
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 1 + 2 + 2 + 1);
}

TEST_F(Diff, FailAboveExitsWithOneAndPrints) {
  const std::vector<std::pair<std::string, int>> cases{{"1MiB", 1},   {"2MiB", 0}, {"0B", 1},  {"99%", 1},
                                                       {"99.9 %", 1}, {"100%", 0}, {"1GiB", 0}};
  for (const auto& [limit, expected] : cases) {
    const CommandResult result = run({"a.hrec", "b.hrec", "--fail-above", limit});
    EXPECT_EQ(result.exit_code, expected) << limit;
    EXPECT_THAT(result.out, HasSubstr("B peaks 2.0 MiB higher"));
    if (expected == 1)
      EXPECT_THAT(result.err, AllOf(HasSubstr("peak_bytes went from 2.0 MiB to 4.0 MiB"), HasSubstr(limit)));
    else
      EXPECT_THAT(result.err, Not(HasSubstr("went from")));
  }
  EXPECT_EQ(run({"b.hrec", "a.hrec", "--fail-above", "0B"}).exit_code, 0);
  EXPECT_EQ(run({"a.hrec", "a.hrec", "--fail-above", "0%"}).exit_code, 0);
}

TEST_F(Diff, FailOnAcceptsTheFiguresOfJson) {
  EXPECT_THAT(run({"a.hrec", "b.hrec", "--fail-on", "peak_bytes>+5%,peak_bytes>1GiB"}),
              Ends(1, HasSubstr("B peaks 2.0 MiB higher"),
                   AllOf(HasSubstr("peak_bytes went from"), HasSubstr("'peak_bytes>+5%'"))));
  EXPECT_EQ(run({"b.hrec", "a.hrec", "--fail-on", "peak_bytes>+5%"}).exit_code, 0);
  EXPECT_THAT(run({"a.hrec", "b.hrec", "--fail-on", "run_peak>+5%"}),
              Ends(2, testing::_, HasSubstr("no common figure 'run_peak'")));
}

// Forty samples of 64 KiB each and large blocks: the estimates of the peaks are off by some 800 KiB.
TEST_F(Diff, FailAboveIgnoresSamplingNoise) {
  const auto record_samples = [&](const std::string& name, std::uint64_t large_bytes) {
    RecordingBuilder builder(folder_ / name, {.full = false, .sample_period_bytes = 64 << 10});
    builder.allocate(0, 5, 0x90000, large_bytes);
    for (std::uint64_t i = 0; i < 40; ++i) builder.sample(0, 10 + i, 0x1000 + 128 * i, 100);
    builder.counters(0, 60, 0, 50'000, 5'000'000, 0);
    builder.finish();
  };
  record_samples("s.hrec", 1 << 20);
  record_samples("noise.hrec", (1 << 20) + (200 << 10));
  record_samples("grown.hrec", 9 << 20);
  EXPECT_THAT(run({"s.hrec", "noise.hrec", "--fail-above", "1%"}),
              Ends(0, HasSubstr("B peaks about as high as A"),
                   HasSubstr("which exceeds 'peak_bytes>+1%'; not failed, because the interval of the ")));
  EXPECT_THAT(run({"s.hrec", "grown.hrec", "--fail-above", "1%"}),
              Ends(1, testing::_, AllOf(HasSubstr("peak_bytes went from"), HasSubstr("'peak_bytes>+1%'"))));
  EXPECT_EQ(run({"s.hrec", "grown.hrec", "--fail-above", "12MiB"}).exit_code, 0);
}

TEST_F(Diff, AnIncompleteRecordingIsReportedAndFailsTheGate) {
  RecordingOptions killed;
  killed.closed = false;
  record("killed.hrec", 1 << 20, killed);
  EXPECT_THAT(run({"a.hrec", "killed.hrec"}).out, HasSubstr("! B was killed or is still running"));
  EXPECT_FALSE(json({"a.hrec", "killed.hrec"})["after"]["complete"]);
  // The recorded memory of a killed process is a lower bound. It can fail a gate, but never pass one.
  EXPECT_THAT(run({"a.hrec", "killed.hrec"}).out, StartsWith("B (killed.hrec) is incomplete"));
  for (const Words& limit : {Words{"--fail-above", "1B"}, Words{"--fail-on", "peak_bytes>+5%"}})
    for (const Words& sides : {Words{"a.hrec", "killed.hrec"}, Words{"killed.hrec", "a.hrec"}}) {
      Words words = sides;
      words.insert(words.end(), limit.begin(), limit.end());
      EXPECT_THAT(
          run(words),
          Ends(2, HasSubstr("(killed.hrec) is incomplete"),
               AllOf(HasSubstr("cannot check the gate"),
                     HasSubstr("(killed.hrec) is incomplete: the process did not close its recording"))));
    }
  killed.pid = 7;
  record("killed_late.hrec", 3 << 20, killed);
  const CommandResult breach = run({"a.hrec", "killed_late.hrec", "--fail-on", "peak_bytes>+5%", "--json"});
  EXPECT_EQ(breach.exit_code, 1);
  const Json document = json_of(breach);
  EXPECT_EQ(get_text(document, "kind"), "recordings");
  EXPECT_EQ(document["breaches"].size(), 1U);

  const std::string whole = read_text(folder_ / "b.hrec");
  constexpr std::size_t kSegment = 64 << 10, kKept = 100;
  write_text(folder_ / "cut.hrec", whole.substr(0, whole.size() - kSegment + kKept));
  EXPECT_THAT(run({"a.hrec", "cut.hrec"}), Ends(0, HasSubstr("Missing data")));
}

TEST_F(Diff, PairsOtherProcessesByCommand) {
  RecordingOptions child;
  child.command = {"/usr/bin/cc1plus", "-O0", "a.cpp"};
  record("a.hrec.d/7-0.hrec", 1 << 20, child);
  child.command = {"cc1plus", "a.cpp"};  // another command of the same program
  record("b.hrec.d/9-0.hrec", 9 << 20, child);
  const CommandResult result = run({"a.hrec", "b.hrec"});
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("cc1plus a.cpp"),
                    HasSubstr("headroom diff a.hrec.d/7-0.hrec b.hrec.d/9-0.hrec"), HasSubstr("--all")));
  const Json diff = json({"a.hrec", "b.hrec", "--all"});
  EXPECT_EQ(diff["other_processes"][0]["change"]["peak_bytes"], 8 << 20);
  EXPECT_EQ(diff["tree"]["sum_of_peaks_after_bytes"], (4 + 10) << 20);
  // With all processes the trees grew by ten megabytes, the first process by two.
  EXPECT_EQ(run({"a.hrec", "b.hrec", "--fail-above", "5MiB", "--all"}).exit_code, 1);
  EXPECT_EQ(run({"a.hrec", "b.hrec", "--fail-above", "11MiB", "--all"}).exit_code, 0);
  // The command's own process passes the gate; its children would not.
  EXPECT_THAT(json({"a.hrec", "b.hrec"})["verdict"].dump(),
              AllOf(HasSubstr("Another process changed more: cc1plus a.cpp"), HasSubstr("2.0 MiB to")));
  for (const Words& rule : {Words{"--fail-above", "5MiB"}, Words{"--fail-on", "peak_bytes>+5MiB"}}) {
    EXPECT_THAT(
        run({"a.hrec", "b.hrec", rule[0], rule[1]}),
        Ends(2, HasSubstr("B peaks"),
             AllOf(HasSubstr("only the command's main process"), HasSubstr("cc1plus"), HasSubstr("--all"))))
        << rule[0];
  }
  EXPECT_EQ(run({"a.hrec", "b.hrec", "--fail-on", "peak_bytes>+10MiB"}).exit_code, 0);
  EXPECT_THAT(run({"a.hrec", "b.hrec", "--fail-on", "peak_bytes>+5MiB", "--all"}),
              Ends(1, testing::_, HasSubstr("peak_bytes went from 4.0 MiB to 14.0 MiB")));
  EXPECT_THAT(run({"a.hrec", "b.hrec", "--fail-on", "peak>+5"}), Ends(2, HasSubstr("B peaks")));
}

TEST_F(Diff, WrongUseIsOneSentenceAndExitCodeTwo) {
  write_text(folder_ / "text", "not a recording");
  const std::vector<std::pair<Words, std::string>> cases{
      {{}, "needs two inputs: 0 given"},
      {{"a.hrec"}, "needs two inputs: 1 given"},
      {{"a.hrec", "b.hrec", "a.hrec"}, "needs two inputs: 3 given"},
      {{"a.hrec", "missing.hrec"}, "missing.hrec"},
      {{"text", "b.hrec"}, "text"},
      {{"a.hrec", "."}, "."},
      {{"a.hrec", "b.hrec", "--by", "thread"}, "thread"},
      {{"a.hrec", "b.hrec", "--top", "0"}, "--top"},
      {{"a.hrec", "b.hrec", "--min", "12"}, "--min"},
      {{"a.hrec", "b.hrec", "--json", "--csv"}, "cannot be combined"},
      {{"a.hrec", "b.hrec", "--fail-above", "much"}, "invalid --fail-above much; use a size such as 10MiB"},
      {{"a.hrec", "b.hrec", "--fail-above", "5"}, "invalid --fail-above 5"},
      {{"a.hrec", "b.hrec", "--fail-above", "-5%"}, "invalid --fail-above -5%"},
      {{"a.hrec", "b.hrec", "--fail-above", "nan%"}, "invalid --fail-above nan%"},
      {{"a.hrec", "b.hrec", "--color", "red"}, "red"},
      {{"a.hrec", "b.hrec", "--tpo", "1"}, "--top"},
  };
  for (const auto& [words, expected] : cases) {
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 2) << fmt::format("{}", fmt::join(words, " "));
    EXPECT_THAT(result.err, HasSubstr(expected));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(Diff, PrintsColoursOnlyOnRequest) {
  EXPECT_THAT(run({"a.hrec", "b.hrec", "--color", "always"}).out, StartsWith("\033[31m"));
  EXPECT_THAT(run({"a.hrec", "b.hrec", "--color", "never"}).out, Not(HasSubstr("\033")));
}

// Two runs of a real program, loaded at different addresses: nearly every stack matches.
TEST_F(Diff, TwoRunsOfARealProgramHardlyDiffer) {
  for (const std::string file : {"one.hrec", "two.hrec"}) {
    const CommandResult traced =
        run_headroom({"trace", "--full", "--out", file, "--", "/bin/ls", "-lR", "/usr/include/linux"},
                     {.folder = folder_.path()});
    ASSERT_EQ(traced.exit_code, 0) << traced.err;
  }
  const Json diff = json({"one.hrec", "two.hrec"});
  EXPECT_EQ(diff["change"]["allocations"], 0);
  std::int64_t matched = 0, all = 0;
  for (const Json& row : diff["stacks"]) {
    ++all;
    matched += !row["before"].is_null() && !row["after"].is_null() ? 1 : 0;
  }
  EXPECT_GT(all, 5);
  EXPECT_EQ(matched, all);
}

class DiffLogs : public DiffCommand {};

// Two logs of one machine. In the second, the free memory is halved.
TEST_F(DiffLogs, ReportsWhichFiguresDiffer) {
  std::string before, after;
  for (int i = 0; i < 60; ++i) {
    const auto line = [&](double free) {
      return fmt::format(
          "{{\"time_ns\": {}, \"ram_total_bytes\": 8000000000, \"ram_free_bytes\": {}, "
          "\"cpu_percent\": {}}}\n",
          i * 1'000'000'000LL, static_cast<long long>(free) + i % 7 * 1000, 20 + i % 5);
    };
    before += line(4e9);
    after += line(2e9);
  }
  write_text(folder_ / "a.jsonl", before);
  write_text(folder_ / "b.jsonl", after);
  write_text(folder_ / "garbage.jsonl", "{\"time_ns\": \"soon\"}\n");
  EXPECT_THAT(run({"a.jsonl", "b.jsonl"}),
              Ends(0, AllOf(StartsWith("1 of "), HasSubstr("differs"), HasSubstr("60 samples"))));
  const Json document = json_of(run({"a.jsonl", "b.jsonl", "--json"}));
  EXPECT_EQ(get_text(document["figures"][0], "name"), "ram_free_bytes");
  EXPECT_EQ(get_bool(document["figures"][0], "differs"), true);
  EXPECT_EQ(get_bool(document["figures"][1], "differs"), false);
  EXPECT_THAT(run({"a.jsonl", "b.jsonl", "--markdown"}).out, StartsWith("**1 of "));
  EXPECT_THAT(run({"a.jsonl", "a.jsonl"}).out,
              StartsWith("A and B are the same log: name one from before the change"));
  EXPECT_THAT(run({"a.jsonl", "b.jsonl", "--fail-on", "ram_free>1GiB"}),
              Ends(2, testing::_, HasSubstr("no common figure 'ram_free'; did you mean 'ram_free_bytes'?")));
  EXPECT_THAT(run({"a.jsonl", "b.jsonl", "--fail-on", "ram_free_bytes>5"}).err,
              HasSubstr("use FIGURE>+5%, or a limit in the figure's unit such as FIGURE>+20MiB; example: "
                        "'ram_free_bytes>+5%'"));
  EXPECT_THAT(run({"a.jsonl", "b.jsonl", "--fail-above", "5%"}).err,
              HasSubstr("use --fail-on 'ram_used_bytes>+5%'"));
  // The free memory is halved, the processor load unchanged.
  EXPECT_THAT(run({"a.jsonl", "b.jsonl", "--fail-on", "ram_free_bytes<-5%,cpu_percent>+1%"}),
              Ends(1, StartsWith("1 of "),
                   AllOf(HasSubstr("ram_free_bytes went from"), HasSubstr("'ram_free_bytes<-5%'"),
                         Not(HasSubstr("cpu_percent")))));
  EXPECT_EQ(run({"a.jsonl", "b.jsonl", "--fail-on", "max:cpu_percent>24"}).exit_code, 0);
  const CommandResult most = run({"a.jsonl", "b.jsonl", "--json", "--fail-on", "max:cpu_percent>23"});
  EXPECT_EQ(most.exit_code, 1);
  const Json breached = json_of(most);
  EXPECT_THAT(undocumented_keys(breached, "diff.md"), testing::IsEmpty());
  EXPECT_EQ(breached["breaches"].size(), 1);
  for (const Words& words :
       {Words{"a.jsonl", "garbage.jsonl"}, Words{"a.jsonl", "a.jsonl", "--by", "layer"},
        Words{"a.jsonl", "b.jsonl", ":", "a.jsonl"}, Words{"a.jsonl", "b.jsonl", "--fail-on", "p50>+5%"}}) {
    const CommandResult wrong = run(words);
    EXPECT_EQ(wrong.exit_code, 2) << wrong.out;
    EXPECT_EQ(std::ranges::count(wrong.err, '\n'), 1) << wrong.err;
  }
}

// Missing parts of a log are reported first, and a gate fails on a damaged log.
TEST_F(DiffLogs, ReportsDamagedLogsAndFailsTheGate) {
  std::string whole;
  for (int i = 0; i < 60; ++i)
    whole += fmt::format("{{\"time_ns\": {}, \"ram_free_bytes\": {}, \"cpu_percent\": {}}}\n",
                         i * 1'000'000'000LL, 4'000'000'000LL + i % 7 * 1000, 20 + i % 5);
  const std::size_t first = whole.find('\n') + 1;
  write_text(folder_ / "a.jsonl", whole);
  write_text(folder_ / "one.jsonl", whole.substr(0, first));
  write_text(folder_ / "cut.jsonl", whole.substr(0, whole.size() - 30));
  write_text(folder_ / "garbage.jsonl", whole.substr(0, 20 * first) + "\x01\x02 what\n" + whole);
  ASSERT_EQ(run({"a.jsonl", "a.jsonl", "--fail-on", "cpu_percent>+5%"}).exit_code, 0);
  for (const auto& [log, words] :
       {std::pair{"one.jsonl", "B (one.jsonl) has only 1 sample"},
        std::pair{"cut.jsonl", "B (cut.jsonl) is damaged: 1 of its 60 lines is invalid"},
        std::pair{"garbage.jsonl", "B (garbage.jsonl) is damaged: "}}) {
    EXPECT_THAT(run({"a.jsonl", log}), Ends(0, StartsWith(words)));
    EXPECT_THAT(run({"a.jsonl", log, "--fail-on", "cpu_percent>+5%,max:cpu_percent>90"}),
                Ends(2, testing::_, AllOf(HasSubstr("cannot check the gate"), HasSubstr(log))))
        << log;
  }
  EXPECT_THAT(run({"a.jsonl", "one.jsonl", "--fail-on", "cpu_percent>+5%", "--markdown"}).out,
              HasSubstr("**Gate**\n\n- B"));
  EXPECT_THAT(run({"one.jsonl", "one.jsonl"}).out, Not(HasSubstr("No change: none")));
  EXPECT_EQ(run({"a.jsonl", "cut.jsonl", "--fail-on", "cpu_percent>10"}).exit_code, 1);
}

// A leak and a step. The leak differs by its trend. The step cannot be judged, so a gate on it fails.
TEST_F(DiffLogs, ComparesTrendsAndReportsSlowFigures) {
  const auto log = [&](const char* name, double rise, double step) {
    std::string text;
    for (int i = 0; i < 600; ++i)
      text += fmt::format(
          "{{\"time_ns\": {}, \"ram_used_bytes\": {}}}\n", i * 1'000'000'000LL,
          std::llround((1 << 30) + i * 7919 % 101 * 4096 + rise * i / 600 + (i < 300 ? 0 : step)));
    write_text(folder_ / name, text);
  };
  log("flat.jsonl", 0, 0);
  log("leak.jsonl", 1 << 30, 0);
  log("step.jsonl", 0, 900 << 20);
  log("flat_again.jsonl", 1 << 12, 0);
  const auto diff_with_flat = [&](Words words) {
    words.insert(words.begin(), "flat.jsonl");
    return run(std::move(words));
  };
  EXPECT_THAT(diff_with_flat({"leak.jsonl", "--fail-on", "ram_used_bytes>+5%"}),
              Ends(1, AllOf(StartsWith("1 of 1 figures differ"), HasSubstr("(a trend: it"))));
  EXPECT_THAT(diff_with_flat({"step.jsonl", "--fail-on", "ram_used_bytes>+5%"}),
              Ends(2, StartsWith("Undecided: RAM used moved in one step or drifts"),
                   HasSubstr("longer logs are needed")));
  EXPECT_EQ(diff_with_flat({"step.jsonl", "--fail-on", "max:ram_used_bytes>+5%"}).exit_code, 1);
  EXPECT_EQ(diff_with_flat({"step.jsonl", "--fail-on", "ram_used_bytes>8GiB"}).exit_code, 0);
  for (const auto& [name, outcome] :
       {std::pair{"leak.jsonl", "differs"}, {"step.jsonl", "unknown"}, {"flat_again.jsonl", "same"}}) {
    const Json document = json_of(diff_with_flat({name, "--json"}));
    EXPECT_EQ(get_text(document, "outcome"), outcome);
    EXPECT_THAT(undocumented_keys(document, "diff.md"), testing::IsEmpty());
  }
}

// A log of a rising figure, and its copy: the trends are equal, so no change is reported.
TEST_F(DiffLogs, ALogAndItsCopyAreTheSame) {
  std::string text;
  for (int i = 0; i < 600; ++i)
    text += fmt::format("{{\"time_ns\": {}, \"ram_used_bytes\": {}}}\n", i * 1'000'000'000LL,
                        (1LL << 30) + i * (1LL << 20));
  for (const char* name : {"a.jsonl", "copy.jsonl"}) write_text(folder_ / name, text);
  EXPECT_THAT(run({"a.jsonl", "copy.jsonl", "--fail-on", "ram_used_bytes>+5%,ram_used_bytes>8GiB"}),
              Ends(0, AllOf(StartsWith("A and B are the same log"), Not(HasSubstr("Undecided"))),
                   HasSubstr("these rules were not checked: ram_used_bytes>+5%")));
  EXPECT_EQ(run({"a.jsonl", "copy.jsonl", "--fail-on", "ram_used_bytes>1GiB"}).exit_code, 1);
  const Json document = json_of(run({"a.jsonl", "copy.jsonl", "--json"}));
  EXPECT_EQ(get_text(document, "outcome"), "same");
  EXPECT_FALSE(document["figures"][0].contains("cannot_be_told"));
}

// gzip compresses the log; a third of the file is cut off.
TEST_F(DiffLogs, ReportsACutOffCompressedLog) {
  std::string whole;
  for (int i = 0; i < 2000; ++i)
    whole += fmt::format("{{\"time_ns\": {}, \"cpu_percent\": {}}}\n", i * 1'000'000'000LL, i * 7919 % 101);
  write_text(folder_ / "a.jsonl", whole);
  SpawnOptions gzip;
  gzip.command = {"gzip", "--keep", (folder_ / "a.jsonl").string()};
  auto packed = Subprocess::spawn(gzip);
  if (!packed || !packed->wait().success()) GTEST_SKIP() << "gzip is not installed";
  const std::string bytes = read_text(folder_ / "a.jsonl.gz");
  write_text(folder_ / "cut.jsonl.gz", bytes.substr(0, bytes.size() * 2 / 3));
  EXPECT_THAT(run({"a.jsonl", "a.jsonl.gz"}).out, StartsWith("A and B are the same log"));
  const std::string cut = run({"a.jsonl", "cut.jsonl.gz"}).out;
  EXPECT_THAT(cut, StartsWith("B (cut.jsonl.gz) is cut off after "));
  EXPECT_THAT(cut, Not(HasSubstr("damaged"))) << "reported once";
  EXPECT_EQ(run({"a.jsonl", "cut.jsonl.gz", "--fail-on", "cpu_percent>+50%"}).exit_code, 2);
}

}  // namespace
}  // namespace headroom::test
