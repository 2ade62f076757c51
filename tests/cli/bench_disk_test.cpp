// Full disks: the figures have priority, and no result is lost without a message.
#include <sys/mount.h>

#include <filesystem>

#include "base/files.h"
#include "cli/bench_fixture.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class BenchDisk : public BenchTest {
 protected:
  void TearDown() override { ::umount2(small_.c_str(), MNT_DETACH); }
  // Mounts a small disk in the test's folder. Returns false without the right to do so.
  bool mount(const char* name, const char* size) {
    small_ = bench_.path() / name;
    fs::create_directory(small_);
    return ::mount("tmpfs", small_.c_str(), "tmpfs", 0, size) == 0;
  }
  fs::path small_;
};

constexpr const char* kMayNotMount = "this needs the right to mount a small disk; skipped";

// The disk has space for the figures and little else: report.json is complete, and other files were removed.
TEST_F(BenchDisk, SavesAndPrintsTheFiguresOnASmallDisk) {
  if (!mount("outputs", "size=64k")) GTEST_SKIP() << kMayNotMount;
  const CommandResult result = run({"--max-frames", "20", "--model", model("m", "run sleep 1")});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("No space left on device"), result.err.npos) << result.err;
  EXPECT_EQ(result.err.find("No space left"), result.err.rfind("No space left")) << result.err;
  EXPECT_THAT(result.out, testing::ContainsRegex("m +ok"));
  EXPECT_EQ(get_bool(bench_.report(), "complete"), true);
  EXPECT_EQ(status_of("m"), "ok");
  EXPECT_FALSE(fs::exists(bench_.run_folder() / "report.html"));
}

TEST_F(BenchDisk, RejectsAFullDiskBeforeTheMeasurement) {
  for (const char* folder : {"outputs", "prepared"}) {
    if (!mount(folder, "size=4k")) GTEST_SKIP() << kMayNotMount;
    write_text(small_ / "full", std::string(4096, 'x'));
    const CommandResult result = run({"--model", model("m", "")});
    ::umount2(small_.c_str(), MNT_DETACH);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    const char* fix = small_.filename() == "outputs" ? "another --output-dir" : "another --prepared-dir";
    EXPECT_THAT(result.err, AllOf(HasSubstr("No space left on device"), HasSubstr(fix)));
    EXPECT_THAT(result.err, testing::Not(HasSubstr("the run continues")));
  }
}

// Exceeding a file size limit (ulimit -f) raises a signal that would end Headroom. The HTML page is larger
// than this limit.
TEST_F(BenchDisk, ReportsAFileSizeLimitAndKeepsTheFigures) {
  CommandOptions options;
  options.most_file_bytes = 64 << 10;
  const CommandResult result = run({"--max-frames", "20", "--model", model("m", "")}, options);
  EXPECT_EQ(result.signal, 0);
  EXPECT_THAT(result, Ends(1, testing::_, HasSubstr("File too large")));
  EXPECT_EQ(result.err.find("error:"), result.err.rfind("error:")) << result.err;
  EXPECT_THAT(result.out, testing::ContainsRegex("m +ok"));
  EXPECT_EQ(get_bool(bench_.report(), "complete"), true);
  EXPECT_EQ(status_of("m"), "ok");
  EXPECT_FALSE(fs::exists(bench_.run_folder() / "report.html"));
}

}  // namespace
}  // namespace headroom::test
