#include "bench/conductor/bench_state.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>

#include "report/run/report_json.h"
#include "support/test_support.h"

namespace headroom::bench {
namespace {
namespace fs = std::filesystem;

// A disk of two pages.
class SmallDisk : public testing::Test {
 protected:
  void SetUp() override {
    is_mounted_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=8k") == 0;
    if (!is_mounted_) GTEST_SKIP() << "this needs the right to mount a small disk; skipped";
  }
  void TearDown() override {
    if (is_mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  // A report of `bytes` bytes and some hundred more.
  Status write(std::size_t bytes, bool is_complete) const {
    BenchResult result;
    result.command = std::string(bytes, is_complete ? 'c' : 'i');
    result.complete = is_complete;
    return write_report_json(result, folder_.path());
  }
  Result<BenchResult> read() const { return report::read_report(test::read_text(path())); }
  fs::path path() const { return folder_.path() / "report.json"; }

  test::TemporaryFolder folder_;
  bool is_mounted_ = false;
};

TEST_F(SmallDisk, OverwritesTheEarlierReport) {
  ASSERT_TRUE(write(5000, false));
  ASSERT_TRUE(write(6000, true));  // two reports would need four pages
  const auto report = read();
  ASSERT_TRUE(report) << report.error().sentence();
  EXPECT_TRUE(report->complete);
  EXPECT_EQ(report->command.size(), 6000U);
}

TEST_F(SmallDisk, KeepsAnIncompleteReportOnlyDuringTheRun) {
  ASSERT_TRUE(write(5000, false));
  EXPECT_FALSE(write(9000, false));
  ASSERT_TRUE(read());
  EXPECT_EQ(read()->command.size(), 5000U);
  EXPECT_FALSE(write(9000, true));
  EXPECT_FALSE(fs::exists(path()));
}

}  // namespace
}  // namespace headroom::bench
