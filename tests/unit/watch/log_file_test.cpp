#include "watch/log_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <zlib.h>

#include "base/json.h"
#include "base/text.h"
#include "support/test_support.h"

namespace headroom::watch {
namespace {
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

TEST(LogFile, WritesCsvRows) {
  test::TemporaryFolder folder;
  auto file = LogFile::create(folder / "log.csv", {}, 4);
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
  EXPECT_EQ(test::read_text(folder / "log.csv"),
            "time_seconds,unix_time_seconds,cpu_percent,ram_used_bytes,\"temperature_celsius.a,b\"\n"
            "1.000000,1700000000.500,12.5,1048576,40.25\n"
            "2.000000,,,2097152,\n");
}

TEST(LogFile, RotatesAtTheSizeAndKeepsTheGivenNumberOfFiles) {
  test::TemporaryFolder folder;
  auto file = LogFile::create(folder / "log.jsonl", Bytes{500}, 2);
  ASSERT_TRUE(file);
  for (int i = 0; i < 100; ++i) file->write(sample_at(i));
  ASSERT_TRUE(file->finish());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
    EXPECT_LE(std::filesystem::file_size(entry.path()), 650U);
  }
  std::sort(names.begin(), names.end());
  EXPECT_THAT(names, ElementsAre("log.1.jsonl", "log.2.jsonl", "log.jsonl"));
  // The newest lines are in order, and none is missing between the files.
  const std::string all = test::read_text(folder / "log.2.jsonl") + test::read_text(folder / "log.1.jsonl") +
                          test::read_text(folder / "log.jsonl");
  const auto lines = split(trim(all), '\n');
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(get_integer(*parse_json(lines[i]), "time_ns"),
              static_cast<std::int64_t>(100 - lines.size() + i) * 1'000'000'000);
}

TEST(LogFile, RotatedCsvRepeatsItsHeader) {
  test::TemporaryFolder folder;
  auto file = LogFile::create(folder / "log.csv", Bytes{200}, 1);
  ASSERT_TRUE(file);
  for (int i = 0; i < 50; ++i) file->write(sample_at(i));
  ASSERT_TRUE(file->finish());
  EXPECT_TRUE(test::read_text(folder / "log.1.csv").starts_with("time_seconds,"));
}

TEST(LogFile, KeepZeroLeavesOneFile) {
  test::TemporaryFolder folder;
  test::write_text(folder / "log.1.jsonl", "mine");
  auto file = LogFile::create(folder / "log.jsonl", Bytes{500}, 0);
  ASSERT_TRUE(file);
  for (int i = 0; i < 100; ++i) file->write(sample_at(i));
  ASSERT_TRUE(file->finish());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_THAT(names, ElementsAre("log.1.jsonl", "log.jsonl"));
  EXPECT_EQ(test::read_text(folder / "log.1.jsonl"), "mine");
  EXPECT_LE(std::filesystem::file_size(folder / "log.jsonl"), 650U);
}

// A non-empty folder blocks the name of the rotated file.
TEST(LogFile, ContinuesTheLogIfRotationFails) {
  test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "log.1.csv" / "in the way");
  auto file = LogFile::create(folder / "log.csv", Bytes{200}, 1);
  ASSERT_TRUE(file);
  for (int i = 0; i < 50; ++i) file->write(sample_at(i));
  ASSERT_TRUE(file->finish());
  const std::string text = test::read_text(folder / "log.csv");
  EXPECT_EQ(split(trim(text), '\n').size(), 51U) << "a header and all samples";
}

TEST(LogFile, CompressedLogContainsTheWrittenLines) {
  test::TemporaryFolder folder;
  auto file = LogFile::create(folder / "log.jsonl.gz", {}, 4);
  ASSERT_TRUE(file);
  for (int i = 0; i < 300; ++i) file->write(sample_at(i));
  ASSERT_TRUE(file->finish());
  const std::string text = gunzip(folder / "log.jsonl.gz");
  EXPECT_EQ(split(trim(text), '\n').size(), 300U);
  EXPECT_LT(std::filesystem::file_size(folder / "log.jsonl.gz"), text.size() / 5);
}

TEST(LogFile, DoesNotOverwriteAnExistingFile) {
  test::TemporaryFolder folder;
  test::write_text(folder / "log.csv", "mine");
  const auto file = LogFile::create(folder / "log.csv", {}, 4);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().sentence(), HasSubstr("exists"));
  EXPECT_EQ(test::read_text(folder / "log.csv"), "mine");
  EXPECT_EQ(LogFile::create(folder / "log.txt", {}, 4).error().kind, ErrorKind::usage);
  EXPECT_FALSE(LogFile::create(folder / "no/log.csv", {}, 4));
}

// A limit on file sizes simulates a full disk: lines stay whole, and pending samples are written once there
// is space.
TEST(LogFile, FullDiskCutsNoLineAndLosesNoSample) {
  test::TemporaryFolder folder;
  auto file = LogFile::create(folder / "log.jsonl", {}, 4);
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
  const std::string full = test::read_text(folder / "log.jsonl");
  ::setrlimit(RLIMIT_FSIZE, &was);
  ::sigaction(SIGXFSZ, &before, nullptr);
  EXPECT_LE(full.size(), 1000U);
  EXPECT_TRUE(full.empty() || full.back() == '\n');
  file->write(sample_at(50));
  ASSERT_TRUE(file->finish());
  const std::string text = test::read_text(folder / "log.jsonl");
  const auto lines = split(trim(text), '\n');
  ASSERT_EQ(lines.size(), 51U);
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(get_integer(*parse_json(lines[i]), "time_ns"), static_cast<std::int64_t>(i) * 1'000'000'000);
}

}  // namespace
}  // namespace headroom::watch
