#include "watch/text_input.h"

#include "support/test_support.h"
#include "watch/live_input.h"
#include "watch/sample_writer.h"

namespace headroom::watch {
namespace {
using testing::ElementsAre;

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

TEST(TextInput, ReadsACsvWithoutHeaderByGivenColumns) {
  const auto samples = samples_of("nvidia-smi", "2026/08/10 00:00:00.000, 5\n2026/08/10 00:00:02.000, 6\n",
                                  {"timestamp", "memory.used"});
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[1].time, Nanoseconds{2'000'000'000});
  ASSERT_EQ(samples[1].gpus.size(), 1U);
  EXPECT_EQ(samples[1].gpus[0].memory_used, mebibytes(6));
}

TEST(TextInput, ReadsHeadroomLogsBackUnchanged) {
  SystemSample sample;
  sample.time = Nanoseconds{1234};
  sample.unix_time = Nanoseconds{99};
  sample.ram_used = mebibytes(5);
  sample.cores = {{true, 5.5, 1e9}, {false, {}, {}}};
  sample.engines = {{"VIC", false, {}, {}}};
  sample.cgroup.emplace().current = Bytes{77};
  sample.kernel_events = {{KernelEventKind::oom_kill, 12, "app", "Killed process 12 (app)"}};
  sample.processes.push_back({});
  sample.processes.back().pid = 12;
  sample.processes.back().gpu = mebibytes(3);
  sample.power_mode = "MAXN";
  sample.unknown_tokens = {"what"};
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
  add_followed_sums(sample);
  EXPECT_THAT(sample.other,
              ElementsAre(Reading{"followed_processes", 2}, Reading{"followed_rss_bytes", 5 << 20},
                          Reading{"followed_gpu_bytes", 7 << 20}));
}

}  // namespace
}  // namespace headroom::watch
