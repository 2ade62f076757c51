#include "limits/control_group.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "support/test_support.h"

namespace headroom::limits {
namespace {
namespace fs = std::filesystem;

// A made-up /proc whose mounts point into the test's own folder.
class FakeProc {
 public:
  FakeProc(const std::string& cgroup, const std::string& mountinfo) {
    fs::create_directories(folder_ / "proc/self");
    fs::create_directories(folder_ / "cgroup");
    test::write_text(folder_ / "proc/self/cgroup", cgroup);
    std::string text = mountinfo;
    for (std::size_t at = 0; (at = text.find("@", at)) != std::string::npos;)
      text.replace(at, 1, (folder_ / "cgroup").string());
    test::write_text(folder_ / "proc/self/mountinfo", text);
  }
  fs::path proc() const { return folder_ / "proc"; }
  fs::path cgroup() const { return folder_ / "cgroup"; }

 private:
  test::TemporaryFolder folder_;
};

TEST(FindOwnGroup, UnifiedHierarchy) {
  const FakeProc fake("0::/user.slice/user-1000.slice/session-2.scope\n",
                      "24 1 0:21 / @ rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
  const fs::path own = fake.cgroup() / "user.slice/user-1000.slice/session-2.scope";
  fs::create_directories(own);
  test::write_text(own / "cgroup.controllers", "cpu memory pids\n");
  const auto place = find_own_group(fake.proc());
  ASSERT_TRUE(place) << place.error().sentence();
  EXPECT_EQ(place->version, LimitMechanism::cgroup_v2);
  EXPECT_EQ(place->folder, own);
}

TEST(FindOwnGroup, WithoutTheControllerTheSentenceSaysHowToGetIt) {
  const FakeProc fake("0::/session\n", "24 1 0:21 / @ rw - cgroup2 cgroup2 rw\n");
  fs::create_directories(fake.cgroup() / "session");
  test::write_text(fake.cgroup() / "session/cgroup.controllers", "cpu pids\n");
  const auto place = find_own_group(fake.proc());
  ASSERT_FALSE(place);
  EXPECT_THAT(place.error().sentence(), testing::HasSubstr("systemd-run --user --scope -p Delegate=yes"));
}

TEST(FindOwnGroup, HybridSystemsUseTheOldHierarchyThatHasMemory) {
  const FakeProc fake(
      "9:name=systemd:/\n4:memory:/docker/abc\n0::/\n",
      "30 1 0:27 / @/unified rw - cgroup2 cgroup2 rw\n31 1 0:28 / @/memory rw - cgroup cgroup rw,memory\n");
  const auto place = find_own_group(fake.proc());
  ASSERT_TRUE(place) << place.error().sentence();
  EXPECT_EQ(place->version, LimitMechanism::cgroup_v1);
  EXPECT_EQ(place->folder, fake.cgroup() / "memory/docker/abc");
}

TEST(FindOwnGroup, InAContainerTheMountsRootIsCutOff) {
  const FakeProc fake("4:memory:/docker/abc/inner\n",
                      "31 1 0:28 /docker/abc @/memory rw - cgroup cgroup rw,memory\n");
  EXPECT_EQ(find_own_group(fake.proc())->folder, fake.cgroup() / "memory/inner");
}

// cgroup v2 by its documented files, in a tree of the test's own: what is written where.
TEST(ControlGroup, WritesTheFilesOfVersionTwo) {
  test::TemporaryFolder folder;
  test::write_text(folder / "cgroup.subtree_control", "memory\n");
  const fs::path group_folder = folder / "headroom-test";
  // The kernel makes the files with the folder; a plain file system does not, so they are made first and the
  // group is expected to stumble over the folder that exists.
  fs::create_directory(group_folder);
  const auto group =
      ControlGroup::create({LimitMechanism::cgroup_v2, folder.path()}, "headroom-test", mebibytes(64));
  ASSERT_FALSE(group);
  EXPECT_THAT(group.error().sentence(), testing::HasSubstr("File exists"));
}

class RealGroup : public testing::Test {
 protected:
  void SetUp() override {
    auto place = find_own_group();
    if (!place) GTEST_SKIP() << place.error().sentence();
    auto group =
        ControlGroup::create(*place, "headroom-" + std::to_string(::getpid()) + "-test", mebibytes(32));
    if (!group) GTEST_SKIP() << group.error().sentence();
    place_ = *place;
    group_ = std::make_unique<ControlGroup>(std::move(*group));
  }
  // Runs a child in the group that touches this much; returns its wait status.
  int child_takes(Bytes bytes) const {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::write(group_->entry_fd(), "0", 1) != 1) ::_exit(99);
      void* memory = ::mmap(nullptr, static_cast<std::size_t>(bytes.count), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      std::memset(memory, 1, static_cast<std::size_t>(bytes.count));
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  }
  ControlGroupPlace place_;
  std::unique_ptr<ControlGroup> group_;
};

TEST_F(RealGroup, AChildOverTheLimitIsKilledAndCounted) {
  const int status = child_takes(mebibytes(64));
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(group_->account().oom_kills, 1);
}

TEST_F(RealGroup, AChildWithinTheLimitLivesAndItsPeakIsKnown) {
  EXPECT_EQ(child_takes(mebibytes(16)), 0);
  const CgroupMemory account = group_->account();
  EXPECT_EQ(account.oom_kills, 0);
  EXPECT_EQ(account.limit, mebibytes(32));
  if (account.peak) {
    EXPECT_GE(*account.peak, mebibytes(16));
    EXPECT_LE(*account.peak, mebibytes(32));
  }
}

TEST_F(RealGroup, NothingIsLeftBehind) {
  child_takes(mebibytes(8));
  group_.reset();
  for (const auto& entry : fs::directory_iterator(place_.folder))
    EXPECT_EQ(entry.path().filename().string().find("headroom-" + std::to_string(::getpid())),
              std::string::npos);
}

TEST_F(RealGroup, GroupsOfDeadConductorsAreRemoved) {
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  const fs::path stale = place_.folder / ("headroom-" + std::to_string(gone) + "-1-model");
  fs::create_directory(stale);
  remove_stale_groups(place_);
  EXPECT_FALSE(fs::exists(stale));
}

}  // namespace
}  // namespace headroom::limits
