#include "exporters/output_sink.h"

#include <sys/stat.h>
#include <unistd.h>

#include "support/test_support.h"

namespace headroom::exporters {
namespace {

namespace fs = std::filesystem;

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(OutputSink, AppearsWhenComplete) {
  test::TemporaryFolder folder;
  test::write_text(folder / "a", "old");
  auto sink = OutputSink::open(folder / "a");
  ASSERT_TRUE(sink.has_value());
  const std::string much(1 << 20, 'x');
  sink->write(much);
  sink->print("{}\n", 7);
  EXPECT_EQ(test::read_text(folder / "a"), "old");
  ASSERT_TRUE(sink->finish().has_value());
  EXPECT_EQ(test::read_text(folder / "a"), much + "7\n");
  EXPECT_EQ(sink->bytes(), much.size() + 2);
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(OutputSink, LeavesNoFileWithoutFinish) {
  test::TemporaryFolder folder;
  {
    auto sink = OutputSink::open(folder / "a");
    ASSERT_TRUE(sink.has_value());
    sink->write("half");
  }
  EXPECT_EQ(files_in(folder.path()), 0U);
}

TEST(OutputSink, ReportsWriteErrors) {
  test::TemporaryFolder folder;
  const auto missing = OutputSink::open(folder / "no" / "a");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().kind, ErrorKind::failed);
  EXPECT_FALSE(OutputSink::open(folder.path()).has_value()) << "a folder";

  auto full = OutputSink::open("/dev/full");
  ASSERT_TRUE(full.has_value());
  full->write("x");
  EXPECT_FALSE(full->finish().has_value());
}

TEST(OutputSink, KeepsDevicesAndLinks) {
  test::TemporaryFolder folder;
  test::write_text(folder / "target", "old");
  fs::create_symlink("target", folder / "link");
  auto sink = OutputSink::open(folder / "link");
  ASSERT_TRUE(sink.has_value());
  sink->write("new");
  ASSERT_TRUE(sink->finish().has_value());
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(test::read_text(folder / "target"), "new");

  auto null = OutputSink::open("/dev/null");
  ASSERT_TRUE(null.has_value());
  null->write("x");
  EXPECT_TRUE(null->finish().has_value());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace headroom::exporters
