// `headroom diff` of logs of headroom watch: figures that differ, trends, gates, and logs that are cut off.
#include <fmt/format.h>

#include <cmath>

#include "base/subprocess.h"
#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "cli/documented_keys.h"

namespace headroom::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Words = std::vector<std::string>;

class DiffLogs : public testing::Test {
 protected:
  CommandResult diff(Words words) {
    words.insert(words.begin(), "diff");
    CommandOptions options;
    options.folder = folder_.path();
    return run_headroom(words, options);
  }
  TemporaryFolder folder_;
};

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
  EXPECT_THAT(diff({"a.jsonl", "b.jsonl"}),
              Ends(0, AllOf(StartsWith("1 of "), HasSubstr("differs"), HasSubstr("60 samples"))));
  const Json document = json_of(diff({"a.jsonl", "b.jsonl", "--json"}));
  EXPECT_EQ(get_text(document["figures"][0], "name"), "ram_free_bytes");
  EXPECT_EQ(get_bool(document["figures"][0], "differs"), true);
  EXPECT_EQ(get_bool(document["figures"][1], "differs"), false);
  EXPECT_THAT(diff({"a.jsonl", "b.jsonl", "--markdown"}).out, StartsWith("**1 of "));
  EXPECT_THAT(diff({"a.jsonl", "a.jsonl"}).out,
              StartsWith("A and B are the same log: name one from before the change"));
  EXPECT_THAT(diff({"a.jsonl", "b.jsonl", "--fail-on", "ram_free>1GiB"}),
              Ends(2, testing::_, HasSubstr("no common figure 'ram_free'; did you mean 'ram_free_bytes'?")));
  EXPECT_THAT(diff({"a.jsonl", "b.jsonl", "--fail-on", "ram_free_bytes>5"}).err,
              HasSubstr("use FIGURE>+5%, or a limit in the figure's unit such as FIGURE>+20MiB; example: "
                        "'ram_free_bytes>+5%'"));
  EXPECT_THAT(diff({"a.jsonl", "b.jsonl", "--fail-above", "5%"}).err,
              HasSubstr("use --fail-on 'ram_used_bytes>+5%'"));
  // The free memory is halved, the processor load unchanged.
  EXPECT_THAT(diff({"a.jsonl", "b.jsonl", "--fail-on", "ram_free_bytes<-5%,cpu_percent>+1%"}),
              Ends(1, StartsWith("1 of "),
                   AllOf(HasSubstr("ram_free_bytes went from"), HasSubstr("'ram_free_bytes<-5%'"),
                         Not(HasSubstr("cpu_percent")))));
  EXPECT_EQ(diff({"a.jsonl", "b.jsonl", "--fail-on", "max:cpu_percent>24"}).exit_code, 0);
  const CommandResult most = diff({"a.jsonl", "b.jsonl", "--json", "--fail-on", "max:cpu_percent>23"});
  EXPECT_EQ(most.exit_code, 1);
  const Json breached = json_of(most);
  EXPECT_THAT(undocumented_keys(breached, "diff.md"), testing::IsEmpty());
  EXPECT_EQ(breached["breaches"].size(), 1);
  for (const Words& words :
       {Words{"a.jsonl", "garbage.jsonl"}, Words{"a.jsonl", "a.jsonl", "--by", "layer"},
        Words{"a.jsonl", "b.jsonl", ":", "a.jsonl"}, Words{"a.jsonl", "b.jsonl", "--fail-on", "p50>+5%"}}) {
    const CommandResult wrong = diff(words);
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
  ASSERT_EQ(diff({"a.jsonl", "a.jsonl", "--fail-on", "cpu_percent>+5%"}).exit_code, 0);
  for (const auto& [log, words] :
       {std::pair{"one.jsonl", "B (one.jsonl) has only 1 sample"},
        std::pair{"cut.jsonl", "B (cut.jsonl) is damaged: 1 of its 60 lines is invalid"},
        std::pair{"garbage.jsonl", "B (garbage.jsonl) is damaged: "}}) {
    EXPECT_THAT(diff({"a.jsonl", log}), Ends(0, StartsWith(words)));
    EXPECT_THAT(diff({"a.jsonl", log, "--fail-on", "cpu_percent>+5%,max:cpu_percent>90"}),
                Ends(2, testing::_, AllOf(HasSubstr("cannot check the gate"), HasSubstr(log))))
        << log;
  }
  EXPECT_THAT(diff({"a.jsonl", "one.jsonl", "--fail-on", "cpu_percent>+5%", "--markdown"}).out,
              HasSubstr("**Gate**\n\n- B"));
  EXPECT_THAT(diff({"one.jsonl", "one.jsonl"}).out, Not(HasSubstr("No change: none")));
  EXPECT_EQ(diff({"a.jsonl", "cut.jsonl", "--fail-on", "cpu_percent>10"}).exit_code, 1);
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
    return diff(std::move(words));
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
  EXPECT_THAT(diff({"a.jsonl", "copy.jsonl", "--fail-on", "ram_used_bytes>+5%,ram_used_bytes>8GiB"}),
              Ends(0, AllOf(StartsWith("A and B are the same log"), Not(HasSubstr("Undecided"))),
                   HasSubstr("these rules were not checked: ram_used_bytes>+5%")));
  EXPECT_EQ(diff({"a.jsonl", "copy.jsonl", "--fail-on", "ram_used_bytes>1GiB"}).exit_code, 1);
  const Json document = json_of(diff({"a.jsonl", "copy.jsonl", "--json"}));
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
  EXPECT_THAT(diff({"a.jsonl", "a.jsonl.gz"}).out, StartsWith("A and B are the same log"));
  const std::string cut = diff({"a.jsonl", "cut.jsonl.gz"}).out;
  EXPECT_THAT(cut, StartsWith("B (cut.jsonl.gz) is cut off after "));
  EXPECT_THAT(cut, Not(HasSubstr("damaged"))) << "reported once";
  EXPECT_EQ(diff({"a.jsonl", "cut.jsonl.gz", "--fail-on", "cpu_percent>+50%"}).exit_code, 2);
}

}  // namespace
}  // namespace headroom::test
