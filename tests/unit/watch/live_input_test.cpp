#include <fcntl.h>
#include <unistd.h>

#include "base/subprocess.h"
#include "support/test_support.h"
#include "watch/live_input.h"
#include "watch/sample_log.h"
#include "watch/text_input.h"

namespace headroom::watch {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<SystemSample> samples_of(const std::string& kind, const std::string& text,
                                     const std::vector<std::string>& columns = {}) {
  test::TemporaryFolder folder;
  test::write_text(folder / "text", text);
  std::vector<SystemSample> samples;
  const auto read = read_text_input(
      {kind, folder / "text", columns}, Nanoseconds{500'000'000},
      [&](SystemSample& sample) { samples.push_back(sample); }, [] { return false; }, -1);
  EXPECT_TRUE(read);
  return samples;
}

TEST(TextInput, ParsesTimesOfDay) {
  EXPECT_EQ(second_of_day("04-11-2025 10:36:27"), 10 * 3600 + 36 * 60 + 27);
  EXPECT_EQ(second_of_day("2026/08/10 00:00:01.250"), 1.25);
  for (const char* text : {"", "10:36:27", "x 10:36", "x 25:00:00", "x 10:61:00", "x 10:00:nan", "x 1:2:3:4"})
    EXPECT_FALSE(second_of_day(text)) << text;
}

TEST(TextInput, SpacesLinesWithoutTimeByTheInterval) {
  const auto samples = samples_of("tegrastats", "RAM 1/2MB\nRAM 1/2MB\n\nRAM 1/2MB");
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[2].time, Nanoseconds{1'000'000'000});
}

TEST(TextInput, ReadsHeadroomLogsBackUnchanged) {
  SystemSample sample;
  sample.time = Nanoseconds{1234};
  sample.unix_time = Nanoseconds{99};
  sample.ram_used = mebibytes(5);
  sample.ram_total = mebibytes(50);
  sample.open_files = 1234;
  sample.cores = {{true, 5.5, 1e9}, {false, {}, {}}};
  sample.engines = {{"VIC", false, {}, {}}};
  sample.cgroup.emplace().current = Bytes{77};
  sample.kernel_events = {{KernelEventKind::oom_kill, 12, "app", "Killed process 12 (app)"}};
  sample.processes.push_back({});
  sample.processes.back().pid = 12;
  sample.processes.back().gpu = mebibytes(3);
  sample.processes.back().descriptors = 8;
  sample.power_mode = "MAXN";
  sample.unknown_tokens = {"what"};
  EXPECT_THAT(json_line(sample), HasSubstr(R"(,"ram_used_percent":10.00})"));
  const auto samples = samples_of("headroom", json_line(sample) + "{\"time_ns\": 5, \"ram_us\n");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0], sample);
  EXPECT_THAT(samples[1].unknown_tokens, ElementsAre("{\"time_ns\": 5, \"ram_us"));
}

TEST(LiveInput, SumsOfFollowedProcessesSkipAbsentValues) {
  SystemSample sample;
  sample.processes.resize(2);
  sample.processes[0].rss = mebibytes(2);
  sample.processes[1].rss = mebibytes(3);
  sample.processes[1].gpu = mebibytes(7);
  sample.processes[0].descriptors = 12;
  sample.ram_total = mebibytes(50);
  add_followed_sums(sample);
  EXPECT_THAT(sample.other,
              ElementsAre(Reading{"followed_processes", 2}, Reading{"followed_rss_bytes", 5 << 20},
                          Reading{"followed_rss_percent", 10}, Reading{"followed_gpu_bytes", 7 << 20},
                          Reading{"followed_descriptors", 12}));
  EXPECT_THAT(line_for_person(sample), HasSubstr("followed 5.0 MiB (10 %)  12 descriptors"));
}

using testing::Not;

Nanoseconds seconds(double count) { return {static_cast<std::int64_t>(count * 1e9)}; }

TEST(ClockWatch, DistinguishesClockJumpAndSuspension) {
  ClockWatch clock;
  EXPECT_EQ(clock.check(seconds(1), seconds(1001), seconds(50)), "") << "the suspension was before the watch";
  EXPECT_EQ(clock.check(seconds(2), seconds(1002.2), seconds(50)), "") << "an NTP correction";
  const std::string jumped = clock.check(seconds(3), seconds(4603.2), seconds(50));
  EXPECT_THAT(jumped, HasSubstr("the wall clock jumped by +3600.0 s"));
  EXPECT_THAT(jumped, Not(HasSubstr("suspended")));
  const std::string back = clock.check(seconds(4), seconds(1004.2), seconds(50));
  EXPECT_THAT(back, HasSubstr("jumped by -3600.0 s"));
  const std::string slept = clock.check(seconds(5), seconds(4605.2), seconds(3650));
  EXPECT_THAT(slept, HasSubstr("the machine was suspended for 3600.0 s"));
  EXPECT_THAT(slept, Not(HasSubstr("jumped")));
  const std::string both = clock.check(seconds(6), seconds(4706.2), seconds(3660));
  EXPECT_THAT(both, HasSubstr("suspended for 10.0 s"));
  EXPECT_THAT(both, HasSubstr("jumped by +90.0 s"));
  EXPECT_EQ(clock.check(seconds(7), seconds(4707.2), seconds(3660)), "");
}

using testing::ElementsAre;

std::vector<std::string> lines_of(const std::string& text) {
  test::TemporaryFolder folder;
  test::write_text(folder / "text", text);
  const UniqueFd fd(::open((folder / "text").c_str(), O_RDONLY));
  std::vector<std::string> lines;
  LinePump pump(fd.get());
  for (;;) {
    const auto more = pump.read_some([&](std::string_view line) { lines.emplace_back(line); });
    if (!more || !*more) return lines;
  }
}

TEST(LinePump, ReadsLinesOfAllLengths) {
  EXPECT_THAT(lines_of("a\n\nb\nlast"), ElementsAre("a", "", "b", "last"));
  EXPECT_THAT(lines_of(""), ElementsAre());
  EXPECT_THAT(lines_of("\n"), ElementsAre(""));
  // Lines that lie across two reads.
  std::string text;
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < 3000; ++i) {
    expected.push_back(std::string((i * 7919) % 1500, static_cast<char>('a' + i % 26)));
    text += expected.back() + "\n";
  }
  EXPECT_EQ(lines_of(text), expected);
}

TEST(LinePump, SplitsALineThatIsTooLong) {
  const std::size_t most = LinePump::kLongestLine;
  const auto lines = lines_of(std::string(10 * most + 5, 'x') + "\nnext\n");
  ASSERT_EQ(lines.size(), 12U);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(lines[i].size(), most);
  EXPECT_EQ(lines[10].size(), 5U);
  EXPECT_EQ(lines[11], "next");
}

}  // namespace

}  // namespace headroom::watch
