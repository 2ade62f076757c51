#include "base/unfinished.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/scoped_environment.h"
#include "support/test_support.h"

namespace headroom {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Runs `work` in a child process, which is killed when it is done.
void in_a_killed_process(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(UnfinishedFile, TakesTheNameWhenItIsFinished) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "a.txt", "old");
  {
    const auto dropped = UnfinishedFile::create(folder / "a.txt");
    ASSERT_TRUE(dropped);
    ASSERT_TRUE(write_all(dropped->fd(), "half"));
    EXPECT_EQ(test::read_text(folder / "a.txt"), "old");
  }
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.txt"));
  auto file = UnfinishedFile::create(folder / "a.txt");
  ASSERT_TRUE(file && write_all(file->fd(), "new") && file->finish());
  EXPECT_EQ(test::read_text(folder / "a.txt"), "new");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.txt"));
}

TEST(UnfinishedFile, RemovesWhatAKilledWriterOfTheSameFileLeft) {
  const test::TemporaryFolder folder;
  in_a_killed_process([&] {
    const auto mine = UnfinishedFile::create(folder / "a.txt");
    const auto other = UnfinishedFile::create(folder / "b.txt");
    ::kill(::getpid(), SIGKILL);
  });
  test::write_text(folder / "a.txt.tmp-17", "of an earlier version");
  test::write_text(folder / "a.txt.tmp-notes", "the user's own file");
  ASSERT_EQ(names_in(folder.path()).size(), 4U);
  ASSERT_TRUE(write_file_atomically(folder / "a.txt", "new"));
  const auto left = names_in(folder.path());
  EXPECT_THAT(left, ElementsAre("a.txt", "a.txt.tmp-notes", testing::StartsWith("b.txt.tmp-")));
}

TEST(UnfinishedFile, LeavesTheFileOfAnotherWriterThatLives) {
  const test::TemporaryFolder folder;
  auto first = UnfinishedFile::create(folder / "a.txt");
  ASSERT_TRUE(first && write_all(first->fd(), "first"));
  ASSERT_TRUE(write_file_atomically(folder / "a.txt", "second"));
  ASSERT_TRUE(first->finish());
  EXPECT_EQ(test::read_text(folder / "a.txt"), "first");
}

TEST(ScratchFolder, RemovesThoseOfKilledProcessesOnly) {
  const test::TemporaryFolder folder;
  const test::ScopedEnvironment temporary("TMPDIR", folder.path().string());
  in_a_killed_process([] {
    const auto scratch = ScratchFolder::create("alert");
    if (scratch) test::write_text(scratch->path() / "secret", "x");
    const auto other = ScratchFolder::create("try");
    ::kill(::getpid(), SIGKILL);
  });
  ASSERT_EQ(names_in(folder.path()).size(), 2U);
  {
    const auto first = ScratchFolder::create("alert"), second = ScratchFolder::create("alert");
    ASSERT_TRUE(first && second);
    EXPECT_TRUE(fs::is_directory(first->path()));
    EXPECT_EQ(fs::status(first->path()).permissions(), fs::perms::owner_all);
    EXPECT_EQ(names_in(folder.path()).size(), 3U);
  }
  EXPECT_THAT(names_in(folder.path()), ElementsAre(testing::StartsWith("headroom-try.")));
}

}  // namespace
}  // namespace headroom
