#include "base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/test_support.h"

namespace headroom {
namespace {
namespace fs = std::filesystem;

TEST(Files, AtomicWriteLeavesOnlyTheCompleteFile) {
  test::TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "a.txt", "one"));
  ASSERT_TRUE(write_file_atomically(folder / "a.txt", "two"));
  EXPECT_EQ(*read_file(folder / "a.txt"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator{}), 1);
}

TEST(Files, ReportsAnUnwritableFolderInOneSentence) {
  const auto written = write_file_atomically("/proc/nothing/here.txt", "x");
  ASSERT_FALSE(written);
  EXPECT_EQ(
      written.error().sentence(),
      "cannot write /proc/nothing/here.txt: No such file or directory; check that the folder exists and is "
      "writable");
}

TEST(Files, RemovesTheTemporaryFileWhenTheDiskIsFull) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << test::absent_message("/dev/full");
  UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(write_all(full.get(), "x").error().why, "No space left on device");
}

TEST(Files, RejectsFoldersMissingAndTooLargeFiles) {
  test::TemporaryFolder folder;
  EXPECT_EQ(read_file(folder.path()).error().kind, ErrorKind::input);
  EXPECT_EQ(read_file(folder / "absent").error().fix, "check the path");
  test::write_text(folder / "long", std::string(1000, 'x'));
  EXPECT_FALSE(read_file(folder / "long", Bytes{999}));
  EXPECT_TRUE(read_file(folder / "long", Bytes{1000}));
}

TEST(Files, FingerprintChangesWithTheContent) {
  test::TemporaryFolder folder;
  test::write_text(folder / "a", "hello");
  test::write_text(folder / "b", "hellp");
  EXPECT_NE(*file_fingerprint(folder / "a"), *file_fingerprint(folder / "b"));
  EXPECT_EQ(*file_fingerprint(folder / "a"), *file_fingerprint(folder / "a"));
}

TEST(Files, FingerprintRejectsOtherThanRegularFiles) {
  const test::TemporaryFolder folder;
  const fs::path fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_FALSE(file_fingerprint(fifo));  // to open it would block
  EXPECT_EQ(file_fingerprint(fifo).error().what, fifo.string() + " is a FIFO, not a file");
  ASSERT_FALSE(file_fingerprint("/dev/zero"));
  EXPECT_EQ(file_fingerprint("/dev/zero").error().what, "/dev/zero is a device, not a file");
}

}  // namespace
}  // namespace headroom
