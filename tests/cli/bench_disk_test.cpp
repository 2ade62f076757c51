// Full disks: the figures have priority, and no result is lost without a message.
#include <sys/mount.h>

#include <filesystem>

#include "base/files.h"
#include "cli/bench_fixture.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;
using BenchDisk = BenchTest;

TEST_F(BenchDisk, PrintsTheFiguresWhenTheDiskIsFull) {
  const fs::path small = bench_.path() / "small-disk";
  fs::create_directory(small);
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "this needs the right to mount a small disk; skipped";
  const CommandResult result =
      run({"--max-frames", "20", "--output-dir", small.string(), "--model", model("m", "run sleep 1")});
  const bool has_report = fs::exists(small / "report.html");
  ::umount2(small.c_str(), MNT_DETACH);
  EXPECT_FALSE(has_report);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("No space left on device"));
  EXPECT_THAT(result.out, HasSubstr("m"));
}

// Not even the run's copy of the source's description fits. The prepared data has it, too.
TEST_F(BenchDisk, PrintsTheFiguresWhenNotOneByteFits) {
  const fs::path small = bench_.path() / "small-disk";
  fs::create_directory(small);
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "this needs the right to mount a small disk; skipped";
  write_text(small / "full", std::string(65536, 'x'));
  const CommandResult result =
      run({"--max-frames", "20", "--output-dir", small.string(), "--model", model("measured", "")});
  ::umount2(small.c_str(), MNT_DETACH);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("choose another --output-dir"));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("--prepared-dir")));
  EXPECT_THAT(result.out, HasSubstr("measured  ok"));
}

// The disk has space for the figures and little else: report.json is complete, and other files were removed.
TEST_F(BenchDisk, SavesTheReportFirstOnASmallDisk) {
  const fs::path small = bench_.path() / "outputs";
  fs::create_directory(small);
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=48k") != 0)
    GTEST_SKIP() << "this needs the right to mount a small disk; skipped";
  const CommandResult result = run({"--max-frames", "20", "--model", model("m", "")});
  const Json report = bench_.report();
  ::umount2(small.c_str(), MNT_DETACH);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(get_bool(report, "complete"), true);
  EXPECT_EQ(get_text(model_of(report, "m"), "status"), "ok");
  EXPECT_EQ(result.err.find("No space left"), result.err.rfind("No space left")) << result.err;
}

// A run on a disk of two or three pages: its result, and whether report.json existed.
struct TinyDisk {
  Bench bench;
  bool is_mounted = false;
  CommandResult result;
  Json report;

  TinyDisk(const char* size, int models) {
    const fs::path small = bench.path() / "outputs";
    fs::create_directory(small);
    is_mounted = ::mount("tmpfs", small.c_str(), "tmpfs", 0, size) == 0;
    if (!is_mounted) return;
    std::vector<std::string> arguments{"--backend", "misbehaving", "--max-frames", "20"};
    for (int i = 0; i < models; ++i) {
      const std::string name = "m" + std::to_string(i);
      arguments.insert(arguments.end(), {"--model", name + "=" + bench.model(name, "")});
    }
    result = bench.run(arguments);
    report = bench.report();
    ::umount2(small.c_str(), MNT_DETACH);
  }
};

// Two reports do not fit: the last one overwrites the first one in place.
TEST_F(BenchDisk, OverwritesTheFirstReportInPlace) {
  const TinyDisk disk("size=12k", 1);
  if (!disk.is_mounted) GTEST_SKIP() << "this needs the right to mount a small disk; skipped";
  EXPECT_EQ(disk.result.exit_code, 1) << disk.result.err;
  EXPECT_THAT(disk.result.err, HasSubstr("No space left on device"));
  EXPECT_EQ(get_bool(disk.report, "complete"), true);
  EXPECT_EQ(get_text(model_of(disk.report, "m0"), "status"), "ok");
}

TEST_F(BenchDisk, RemovesTheOutdatedReportIfTheLastDoesNotFit) {
  const TinyDisk disk("size=8k", 8);
  if (!disk.is_mounted) GTEST_SKIP() << "this needs the right to mount a small disk; skipped";
  EXPECT_EQ(disk.result.exit_code, 1) << disk.result.err;
  EXPECT_THAT(disk.result.err, HasSubstr("No space left on device"));
  EXPECT_THAT(disk.result.err, HasSubstr("error: no report.json in"));
  EXPECT_TRUE(disk.report.is_null());
  EXPECT_THAT(disk.result.out, HasSubstr("m7"));
}

// Exceeding a file size limit (ulimit -f) raises a signal that would end Headroom. The HTML page is larger
// than this limit.
TEST_F(BenchDisk, ReportsAFileSizeLimitAndKeepsTheFigures) {
  CommandOptions options;
  options.most_file_bytes = 64 << 10;
  const CommandResult result = run({"--max-frames", "20", "--model", model("m", "")}, options);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("File too large"));
  EXPECT_EQ(result.err.find("error:"), result.err.rfind("error:")) << result.err;
  EXPECT_THAT(result.out, testing::ContainsRegex("m +ok"));
  EXPECT_EQ(get_bool(bench_.report(), "complete"), true);
  EXPECT_EQ(status_of("m"), "ok");
  EXPECT_FALSE(fs::exists(bench_.run_folder() / "report.html"));
}

TEST_F(BenchDisk, ReportsAFullDiskForThePreparedData) {
  const fs::path small = bench_.path() / "prepared";
  fs::create_directory(small);
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=4k") != 0)
    GTEST_SKIP() << "this needs the right to mount a small disk; skipped";
  write_text(small / "full", std::string(4096, 'x'));
  const CommandResult result = run({"--model", model("m", "")});
  ::umount2(small.c_str(), MNT_DETACH);
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace headroom::test
