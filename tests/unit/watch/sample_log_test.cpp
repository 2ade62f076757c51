#include <signal.h>
#include <sys/resource.h>
#include <zlib.h>

#include <cmath>

#include "base/json.h"
#include "base/text.h"
#include "report/run/report_json.h"
#include "support/test_support.h"
#include "watch/sample_log.h"

namespace headroom::watch {
namespace {

SystemSample sample_of_everything() {
  SystemSample sample;
  sample.time = {1'500'000'000};
  sample.unix_time = Nanoseconds{1'795'371'097'000'000'000};
  sample.clock_text = "11-22-2026 \"10:00\"\\";
  sample.cpu_percent = 12;
  sample.gpu_percent = 1e300;
  sample.ram_total = gibibytes(8);
  sample.oom_kills = -1;
  sample.cgroup = CgroupMemory{};
  sample.cgroup->limit = mebibytes(64);
  sample.cores = {{true, 0.1, 1.9e9}, {false, std::nullopt, std::nullopt}};
  sample.temperatures_celsius = {
      {"gpu", 45.5}, {"µ-controller", 1.0 / 3}, {"\x1b[31m\xff", 2}, {"gpu", 46.25}, {"none", std::nan("")}};
  sample.power_watts = {{"none", std::nan("")}};
  sample.engines = {{"nvenc", true, std::nullopt, 7.296e8}};
  sample.throttled = false;
  GpuSample gpu;
  gpu.index = 0;
  gpu.name = "GeForce";
  gpu.processes.emplace();
  gpu.processes->push_back({});
  sample.gpus = {gpu};
  ProcessSample process;
  process.pid = 7;
  process.name = "a \"name\"\n";
  process.user = "robot";
  sample.processes = {process, {}};
  sample.kernel_events = {{KernelEventKind::nvmap_error, std::nullopt, "", "said"}};
  sample.unknown_tokens = {"NEW", ""};
  return sample;
}

// The two functions that convert a sample to JSON give the same content in the same order.
TEST(SampleWriter, JsonLineEqualsTheDocument) {
  for (SystemSample sample : {sample_of_everything(), SystemSample{}}) {
    const auto line = parse_json(json_line(sample));
    ASSERT_TRUE(line) << line.error().sentence() << json_line(sample);
    Json document = report::to_json(sample);
    if (sample.unknown_tokens.empty()) document["unknown_tokens"] = Json::array();
    // Invalid UTF-8 is replaced when it is written.
    EXPECT_EQ(nlohmann::json(*line), nlohmann::json(*parse_json(to_line(document))));
    sample.temperatures_celsius.clear();
    document = report::to_json(sample);
    if (sample.unknown_tokens.empty()) document["unknown_tokens"] = Json::array();
    EXPECT_EQ(trim(json_line(sample)), to_line(document));
  }
}

using testing::ElementsAre;
using testing::HasSubstr;

SystemSample sample_at(int second) {
  SystemSample sample;
  sample.time = Nanoseconds{second * 1'000'000'000LL};
  sample.ram_used = mebibytes(second);
  sample.cpu_percent = 12.5;
  return sample;
}

std::string gunzip(const std::filesystem::path& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  char buffer[4096];
  for (int got; (got = gzread(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  gzclose(file);
  return text;
}

class LogFiles : public testing::Test {
 protected:
  // A log with one sample a second.
  void write_log(const std::string& name, Bytes rotate_at, int keep, int samples) {
    auto file = LogFile::create(folder_ / name, rotate_at, keep);
    ASSERT_TRUE(file);
    for (int i = 0; i < samples; ++i) file->write(sample_at(i));
    ASSERT_TRUE(file->finish());
  }
  std::string read(const std::string& name) const { return test::read_text(folder_ / name); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      all.push_back(entry.path().filename().string());
    std::ranges::sort(all);
    return all;
  }
  // The lines have the times of consecutive seconds.
  static void expect_seconds(const std::string& text, std::int64_t first, std::size_t count) {
    const auto lines = split(trim(text), '\n');
    ASSERT_EQ(lines.size(), count);
    for (std::size_t i = 0; i < lines.size(); ++i)
      EXPECT_EQ(get_integer(*parse_json(lines[i]), "time_ns"),
                (first + static_cast<std::int64_t>(i)) * 1'000'000'000);
  }
  test::TemporaryFolder folder_;
};

TEST_F(LogFiles, WritesCsvRows) {
  auto file = LogFile::create(folder_ / "log.csv", {}, 4);
  ASSERT_TRUE(file);
  SystemSample sample = sample_at(1);
  sample.unix_time = Nanoseconds{1'700'000'000'500'000'000};
  sample.temperatures_celsius = {{"a,b", 40.25}};
  file->write(sample);
  SystemSample later = sample_at(2);
  later.cpu_percent.reset();
  later.swap_used = Bytes{1};  // this figure has no column
  file->write(later);
  ASSERT_TRUE(file->finish());
  EXPECT_EQ(read("log.csv"),
            "time_seconds,unix_time_seconds,cpu_percent,ram_used_bytes,\"temperature_celsius.a,b\"\n"
            "1.000000,1700000000.500,12.5,1048576,40.25\n"
            "2.000000,,,2097152,\n");
}

TEST_F(LogFiles, RotatesAtTheSizeAndKeepsTheGivenNumberOfFiles) {
  write_log("log.jsonl", Bytes{500}, 2, 100);
  EXPECT_THAT(names(), ElementsAre("log.1.jsonl", "log.2.jsonl", "log.jsonl"));
  for (const std::string& name : names()) EXPECT_LE(read(name).size(), 650U);
  // The newest lines are in order, and none is missing between the files.
  const std::string all = read("log.2.jsonl") + read("log.1.jsonl") + read("log.jsonl");
  const std::size_t lines = split(trim(all), '\n').size();
  expect_seconds(all, 100 - static_cast<std::int64_t>(lines), lines);
  write_log("log.csv", Bytes{200}, 1, 50);
  EXPECT_TRUE(read("log.1.csv").starts_with("time_seconds,")) << "a rotated CSV repeats its header";
}

TEST_F(LogFiles, KeepZeroLeavesOneFile) {
  test::write_text(folder_ / "log.1.jsonl", "mine");
  write_log("log.jsonl", Bytes{500}, 0, 100);
  EXPECT_THAT(names(), ElementsAre("log.1.jsonl", "log.jsonl"));
  EXPECT_EQ(read("log.1.jsonl"), "mine");
  EXPECT_LE(read("log.jsonl").size(), 650U);
}

// A non-empty folder blocks the name of the rotated file.
TEST_F(LogFiles, ContinuesTheLogIfRotationFails) {
  std::filesystem::create_directories(folder_ / "log.1.csv" / "in the way");
  write_log("log.csv", Bytes{200}, 1, 50);
  const std::string text = read("log.csv");
  EXPECT_EQ(split(trim(text), '\n').size(), 51U) << "a header and all samples";
}

TEST_F(LogFiles, CompressedLogContainsTheWrittenLines) {
  write_log("log.jsonl.gz", {}, 4, 300);
  const std::string text = gunzip(folder_ / "log.jsonl.gz");
  expect_seconds(text, 0, 300);
  EXPECT_LT(std::filesystem::file_size(folder_ / "log.jsonl.gz"), text.size() / 5);
}

TEST_F(LogFiles, DoesNotOverwriteAnExistingFile) {
  test::write_text(folder_ / "log.csv", "mine");
  const auto file = LogFile::create(folder_ / "log.csv", {}, 4);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().sentence(), HasSubstr("exists"));
  EXPECT_EQ(read("log.csv"), "mine");
  EXPECT_EQ(LogFile::create(folder_ / "log.txt", {}, 4).error().kind, ErrorKind::usage);
  EXPECT_FALSE(LogFile::create(folder_ / "no/log.csv", {}, 4));
}

// A watch that was killed leaves its log. The next one starts all the same, and removes nothing with samples.
TEST_F(LogFiles, MovesAnEarlierLogAsideIfItRotates) {
  test::write_text(folder_ / "log.jsonl", "killed\n");
  test::write_text(folder_ / "log.1.jsonl", "older\n");
  auto file = LogFile::create(folder_ / "log.jsonl", Bytes{500}, 2);
  ASSERT_TRUE(file) << file.error().sentence();
  EXPECT_EQ(read("log.1.jsonl"), "killed\n");
  EXPECT_EQ(read("log.2.jsonl"), "older\n");
  file->write(sample_at(0));
  EXPECT_FALSE(LogFile::create(folder_ / "log.jsonl", Bytes{500}, 2)) << "another watch writes to it";
  EXPECT_THAT(names(), ElementsAre("log.1.jsonl", "log.2.jsonl", "log.jsonl"));
  test::write_text(folder_ / "mine.csv", "mine");
  EXPECT_FALSE(LogFile::create(folder_ / "mine.csv", Bytes{500}, 0)) << "no older file may be kept";
}

TEST_F(LogFiles, ReplacesTheEmptyLogOfAKilledWatch) {
  test::write_text(folder_ / "log.jsonl", "");
  EXPECT_TRUE(LogFile::create(folder_ / "log.jsonl", {}, 4));
}

// A kill during a rotation leaves a number without a file. The next rotation fills it and keeps all logs.
TEST_F(LogFiles, RotationFillsAGapBeforeItRemovesTheOldest) {
  test::write_text(folder_ / "log.jsonl", "new\n");
  test::write_text(folder_ / "log.1.jsonl", "second\n");
  test::write_text(folder_ / "log.3.jsonl", "oldest\n");
  ASSERT_TRUE(LogFile::create(folder_ / "log.jsonl", Bytes{500}, 3));
  EXPECT_EQ(read("log.1.jsonl") + read("log.2.jsonl") + read("log.3.jsonl"), "new\nsecond\noldest\n");
}

// A limit on file sizes simulates a full disk: lines stay whole, and pending samples are written once there
// is space.
TEST_F(LogFiles, FullDiskCutsNoLineAndLosesNoSample) {
  auto file = LogFile::create(folder_ / "log.jsonl", {}, 4);
  ASSERT_TRUE(file);
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGXFSZ, &ignore, &before);
  rlimit was{};
  ::getrlimit(RLIMIT_FSIZE, &was);
  rlimit small = was;
  small.rlim_cur = 1000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  for (int i = 0; i < 50; ++i) file->write(sample_at(i));
  const std::string full = read("log.jsonl");
  ::setrlimit(RLIMIT_FSIZE, &was);
  ::sigaction(SIGXFSZ, &before, nullptr);
  EXPECT_LE(full.size(), 1000U);
  EXPECT_TRUE(full.empty() || full.back() == '\n');
  file->write(sample_at(50));
  ASSERT_TRUE(file->finish());
  expect_seconds(read("log.jsonl"), 0, 51);
}

}  // namespace

}  // namespace headroom::watch
