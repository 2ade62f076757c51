// `headroom diff` of logs of headroom watch: figures that differ, trends, gates, and logs that are cut off.
#include <fmt/format.h>

#include <cmath>

#include "base/subprocess.h"
#include "cli/command.h"
#include "cli/documented_keys.h"

namespace headroom::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Words = std::vector<std::string>;

// Two logs of one machine. In the second, the free memory is halved.
TEST(DiffLogs, ReportsWhichFiguresDiffer) {
  TemporaryFolder folder;
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
  write_text(folder.path() / "a.jsonl", before);
  write_text(folder.path() / "b.jsonl", after);
  write_text(folder.path() / "garbage.jsonl", "{\"time_ns\": \"soon\"}\n");
  CommandOptions options;
  options.folder = folder.path();
  const CommandResult screen = run_headroom({"diff", "a.jsonl", "b.jsonl"}, options);
  EXPECT_EQ(screen.exit_code, 0) << screen.err;
  EXPECT_THAT(screen.out, AllOf(StartsWith("1 of "), HasSubstr("differs"), HasSubstr("60 samples")));
  const CommandResult json = run_headroom({"diff", "a.jsonl", "b.jsonl", "--json"}, options);
  const auto document = parse_json(json.out);
  ASSERT_TRUE(document.has_value()) << json.out;
  EXPECT_EQ(get_text((*document)["figures"][0], "name"), "ram_free_bytes");
  EXPECT_EQ(get_bool((*document)["figures"][0], "differs"), true);
  EXPECT_EQ(get_bool((*document)["figures"][1], "differs"), false);
  EXPECT_THAT(run_headroom({"diff", "a.jsonl", "b.jsonl", "--markdown"}, options).out, StartsWith("**1 of "));
  EXPECT_THAT(run_headroom({"diff", "a.jsonl", "a.jsonl"}, options).out,
              StartsWith("A and B are the same log: name one from before the change"));
  const CommandResult misspelt =
      run_headroom({"diff", "a.jsonl", "b.jsonl", "--fail-on", "ram_free>1GiB"}, options);
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_THAT(misspelt.err, HasSubstr("no common figure 'ram_free'; did you mean 'ram_free_bytes'?"));
  EXPECT_THAT(run_headroom({"diff", "a.jsonl", "b.jsonl", "--fail-on", "ram_free_bytes>5"}, options).err,
              HasSubstr("use FIGURE>+5%, or a limit in the figure's unit such as FIGURE>+20MiB; example: "
                        "'ram_free_bytes>+5%'"));
  EXPECT_THAT(run_headroom({"diff", "a.jsonl", "b.jsonl", "--fail-above", "5%"}, options).err,
              HasSubstr("use --fail-on 'ram_used_bytes>+5%'"));
  // The free memory is halved, the processor load unchanged.
  const CommandResult gate = run_headroom(
      {"diff", "a.jsonl", "b.jsonl", "--fail-on", "ram_free_bytes<-5%,cpu_percent>+1%"}, options);
  EXPECT_EQ(gate.exit_code, 1);
  EXPECT_THAT(gate.err, AllOf(HasSubstr("ram_free_bytes went from"), HasSubstr("'ram_free_bytes<-5%'"),
                              Not(HasSubstr("cpu_percent"))));
  EXPECT_THAT(gate.out, StartsWith("1 of "));
  EXPECT_EQ(
      run_headroom({"diff", "a.jsonl", "b.jsonl", "--fail-on", "max:cpu_percent>24"}, options).exit_code, 0);
  const CommandResult most =
      run_headroom({"diff", "a.jsonl", "b.jsonl", "--json", "--fail-on", "max:cpu_percent>23"}, options);
  EXPECT_EQ(most.exit_code, 1);
  const auto breached = parse_json(most.out);
  ASSERT_TRUE(breached.has_value()) << most.out;
  EXPECT_THAT(undocumented_keys(*breached, "diff.md"), testing::IsEmpty());
  EXPECT_EQ((*breached)["breaches"].size(), 1);
  for (const Words& words :
       {Words{"diff", "a.jsonl", "garbage.jsonl"}, Words{"diff", "a.jsonl", "a.jsonl", "--by", "layer"},
        Words{"diff", "a.jsonl", "b.jsonl", ":", "a.jsonl"},
        Words{"diff", "a.jsonl", "b.jsonl", "--fail-on", "p50>+5%"}}) {
    const CommandResult wrong = run_headroom(words, options);
    EXPECT_EQ(wrong.exit_code, 2) << wrong.out;
    EXPECT_EQ(std::count(wrong.err.begin(), wrong.err.end(), '\n'), 1) << wrong.err;
  }
}

// Missing parts of a log are reported first, and a gate fails on a damaged log.
TEST(DiffLogs, ReportsDamagedLogsAndFailsTheGate) {
  TemporaryFolder folder;
  std::string whole;
  for (int i = 0; i < 60; ++i)
    whole += fmt::format("{{\"time_ns\": {}, \"ram_free_bytes\": {}, \"cpu_percent\": {}}}\n",
                         i * 1'000'000'000LL, 4'000'000'000LL + i % 7 * 1000, 20 + i % 5);
  const std::size_t first = whole.find('\n') + 1;
  write_text(folder.path() / "a.jsonl", whole);
  write_text(folder.path() / "one.jsonl", whole.substr(0, first));
  write_text(folder.path() / "cut.jsonl", whole.substr(0, whole.size() - 30));
  write_text(folder.path() / "garbage.jsonl", whole.substr(0, 20 * first) + "\x01\x02 what\n" + whole);
  CommandOptions options;
  options.folder = folder.path();
  const auto diff = [&](Words words) {
    words.insert(words.begin(), "diff");
    return run_headroom(words, options);
  };
  ASSERT_EQ(diff({"a.jsonl", "a.jsonl", "--fail-on", "cpu_percent>+5%"}).exit_code, 0);
  for (const auto& [log, words] :
       {std::pair{"one.jsonl", "B (one.jsonl) has only 1 sample"},
        std::pair{"cut.jsonl", "B (cut.jsonl) is damaged: 1 of its 60 lines is invalid"},
        std::pair{"garbage.jsonl", "B (garbage.jsonl) is damaged: "}}) {
    const CommandResult screen = diff({"a.jsonl", log});
    EXPECT_EQ(screen.exit_code, 0) << screen.err;
    EXPECT_THAT(screen.out, StartsWith(words));
    const CommandResult gate = diff({"a.jsonl", log, "--fail-on", "cpu_percent>+5%,max:cpu_percent>90"});
    EXPECT_EQ(gate.exit_code, 2) << log;
    EXPECT_THAT(gate.err, AllOf(HasSubstr("cannot check the gate"), HasSubstr(log)));
  }
  EXPECT_THAT(diff({"a.jsonl", "one.jsonl", "--fail-on", "cpu_percent>+5%", "--markdown"}).out,
              HasSubstr("**Gate**\n\n- B"));
  EXPECT_THAT(diff({"one.jsonl", "one.jsonl"}).out, Not(HasSubstr("No change: none")));
  EXPECT_EQ(diff({"a.jsonl", "cut.jsonl", "--fail-on", "cpu_percent>10"}).exit_code, 1);
}

// A leak and a step. The leak differs by its trend. The step cannot be judged, so a gate on it fails.
TEST(DiffLogs, ComparesTrendsAndReportsSlowFigures) {
  TemporaryFolder folder;
  const auto log = [&](const char* name, double rise, double step) {
    std::string text;
    for (int i = 0; i < 600; ++i)
      text += fmt::format(
          "{{\"time_ns\": {}, \"ram_used_bytes\": {}}}\n", i * 1'000'000'000LL,
          std::llround((1 << 30) + i * 7919 % 101 * 4096 + rise * i / 600 + (i < 300 ? 0 : step)));
    write_text(folder.path() / name, text);
  };
  log("flat.jsonl", 0, 0);
  log("leak.jsonl", 1 << 30, 0);
  log("step.jsonl", 0, 900 << 20);
  log("flat_again.jsonl", 1 << 12, 0);
  CommandOptions options;
  options.folder = folder.path();
  const auto diff = [&](Words words) {
    words.insert(words.begin(), {"diff", "flat.jsonl"});
    return run_headroom(words, options);
  };
  const CommandResult leak = diff({"leak.jsonl", "--fail-on", "ram_used_bytes>+5%"});
  EXPECT_EQ(leak.exit_code, 1) << leak.err;
  EXPECT_THAT(leak.out, AllOf(StartsWith("1 of 1 figures differ"), HasSubstr("(a trend: it")));
  const CommandResult step = diff({"step.jsonl", "--fail-on", "ram_used_bytes>+5%"});
  EXPECT_EQ(step.exit_code, 2);
  EXPECT_THAT(step.out, StartsWith("Undecided: RAM used moved in one step or drifts"));
  EXPECT_THAT(step.err, HasSubstr("longer logs are needed"));
  EXPECT_EQ(diff({"step.jsonl", "--fail-on", "max:ram_used_bytes>+5%"}).exit_code, 1);
  EXPECT_EQ(diff({"step.jsonl", "--fail-on", "ram_used_bytes>8GiB"}).exit_code, 0);
  for (const auto& [name, outcome] :
       {std::pair{"leak.jsonl", "differs"}, {"step.jsonl", "unknown"}, {"flat_again.jsonl", "same"}}) {
    const auto document = parse_json(diff({name, "--json"}).out);
    ASSERT_TRUE(document.has_value());
    EXPECT_EQ(get_text(*document, "outcome"), outcome);
    EXPECT_THAT(undocumented_keys(*document, "diff.md"), testing::IsEmpty());
  }
}

// A log of a rising figure, and its copy: the trends are equal, so no change is reported.
TEST(DiffLogs, ALogAndItsCopyAreTheSame) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 600; ++i)
    text += fmt::format("{{\"time_ns\": {}, \"ram_used_bytes\": {}}}\n", i * 1'000'000'000LL,
                        (1LL << 30) + i * (1LL << 20));
  for (const char* name : {"a.jsonl", "copy.jsonl"}) write_text(folder.path() / name, text);
  CommandOptions options;
  options.folder = folder.path();
  const CommandResult same = run_headroom(
      {"diff", "a.jsonl", "copy.jsonl", "--fail-on", "ram_used_bytes>+5%,ram_used_bytes>8GiB"}, options);
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_THAT(same.out, AllOf(StartsWith("A and B are the same log"), Not(HasSubstr("Undecided"))));
  EXPECT_THAT(same.err, HasSubstr("these rules were not checked: ram_used_bytes>+5%"));
  EXPECT_EQ(
      run_headroom({"diff", "a.jsonl", "copy.jsonl", "--fail-on", "ram_used_bytes>1GiB"}, options).exit_code,
      1);
  const auto document = parse_json(run_headroom({"diff", "a.jsonl", "copy.jsonl", "--json"}, options).out);
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(get_text(*document, "outcome"), "same");
  EXPECT_FALSE((*document)["figures"][0].contains("cannot_be_told"));
}

// gzip compresses the log; a third of the file is cut off.
TEST(DiffLogs, ReportsACutOffCompressedLog) {
  TemporaryFolder folder;
  std::string whole;
  for (int i = 0; i < 2000; ++i)
    whole += fmt::format("{{\"time_ns\": {}, \"cpu_percent\": {}}}\n", i * 1'000'000'000LL, i * 7919 % 101);
  write_text(folder.path() / "a.jsonl", whole);
  SpawnOptions gzip;
  gzip.command = {"gzip", "--keep", (folder.path() / "a.jsonl").string()};
  auto packed = Subprocess::spawn(gzip);
  if (!packed || !packed->wait().success()) GTEST_SKIP() << "gzip is not installed";
  const std::string bytes = read_text(folder.path() / "a.jsonl.gz");
  write_text(folder.path() / "cut.jsonl.gz", bytes.substr(0, bytes.size() * 2 / 3));
  CommandOptions options;
  options.folder = folder.path();
  EXPECT_THAT(run_headroom({"diff", "a.jsonl", "a.jsonl.gz"}, options).out,
              StartsWith("A and B are the same log"));
  const std::string cut = run_headroom({"diff", "a.jsonl", "cut.jsonl.gz"}, options).out;
  EXPECT_THAT(cut, StartsWith("B (cut.jsonl.gz) is cut off after "));
  EXPECT_THAT(cut, Not(HasSubstr("damaged"))) << "reported once";
  EXPECT_EQ(
      run_headroom({"diff", "a.jsonl", "cut.jsonl.gz", "--fail-on", "cpu_percent>+50%"}, options).exit_code,
      2);
}

}  // namespace
}  // namespace headroom::test
