#include "limits/control_group.h"

#include <poll.h>

#include "limits_test_support.h"

namespace headroom::limits {
namespace {
namespace fs = std::filesystem;

// cgroup v2 with its documented files. The kernel creates them with the folder; here the test does.
class FilesOfV2 : public testing::Test {
 protected:
  void SetUp() override {
    file("cgroup.procs", "");
    file("memory.max", "max\n");
    file("memory.swap.max", "max\n");
    file("memory.current", "1048576\n");
    file("memory.stat", "anon_thp 5\nanon 700416\nfile 204800\nfile_mapped 4096\n");
    file("memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n");
  }
  void file(const std::string& name, const std::string& text) { test::write_text(folder_ / name, text); }
  std::string text(const std::string& name) { return test::read_text(folder_ / name); }
  test::TemporaryFolder folder_;
};

TEST_F(FilesOfV2, LimitsMemoryAndSwapTogether) {
  const auto group = ControlGroup::adopt(LimitMechanism::cgroup_v2, folder_.path(), mebibytes(64));
  ASSERT_TRUE(group) << group.error().sentence();
  EXPECT_EQ(text("memory.max"), "67108864");
  EXPECT_EQ(text("memory.swap.max").substr(0, 1), "0");
  EXPECT_EQ(group->account().limit, mebibytes(64));
  EXPECT_EQ(::write(group->entry_fd(), "0", 1), 1);
  EXPECT_EQ(text("cgroup.procs"), "0");
  fs::remove(folder_ / "memory.swap.max");  // a kernel without swap accounting
  EXPECT_TRUE(ControlGroup::adopt(LimitMechanism::cgroup_v2, folder_.path(), mebibytes(64)));
}

TEST_F(FilesOfV2, ReadsEachFigureFromItsFile) {
  const auto group = ControlGroup::adopt(LimitMechanism::cgroup_v2, folder_.path(), std::nullopt);
  ASSERT_TRUE(group) << group.error().sentence();
  EXPECT_FALSE(group->account().peak) << "before Linux 5.19";
  file("memory.peak", "2097152\n");
  const CgroupMemory account = group->account();
  EXPECT_EQ(account.current, mebibytes(1));
  EXPECT_EQ(account.peak, mebibytes(2));
  EXPECT_EQ(account.limit, std::nullopt);  // "max"
  EXPECT_EQ(account.anonymous, Bytes{700416});
  EXPECT_EQ(account.file_backed, Bytes{204800});
  EXPECT_EQ(account.oom_kills, 2);
}

// The tests below use the machine's real kernel.
class RealGroup : public testing::Test {
 protected:
  void SetUp() override {
    const auto own = find_own_group();
    if (!own) GTEST_SKIP() << own.error().sentence();
    auto parent = GroupParent::prepare(*own);
    if (!parent) GTEST_SKIP() << parent.error().sentence();
    if (kEmulated || kSanitized) GTEST_SKIP() << kNoRealLimits;
    parent_ = std::make_unique<GroupParent>(std::move(*parent));
    name_ = "headroom-" + std::to_string(::getpid()) + "-test";
    auto group = ControlGroup::create(*parent_, name_, mebibytes(32));
    if (!group) GTEST_SKIP() << group.error().sentence();
    group_ = std::make_unique<ControlGroup>(std::move(*group));
  }
  std::function<int()> entry() const {
    return [this] { return ::write(group_->entry_fd(), "0", 1) == 1 ? 0 : 1; };
  }
  std::unique_ptr<GroupParent> parent_;
  std::string name_;
  std::unique_ptr<ControlGroup> group_;
};

TEST_F(RealGroup, KillsAndCountsAChildOverTheLimitOnly) {
  EXPECT_EQ(run_child(entry(), [] { return allocate(mebibytes(16)) ? 0 : 1; }), 0);
  const CgroupMemory account = group_->account();
  EXPECT_EQ(account.oom_kills, 0);
  EXPECT_EQ(account.limit, mebibytes(32));
  EXPECT_GE(account.peak.value_or(mebibytes(16)), mebibytes(16)) << "absent before Linux 5.19";
  EXPECT_LE(account.peak.value_or(mebibytes(16)), mebibytes(24));
  EXPECT_TRUE(killed(run_child(entry(), [] { return allocate(mebibytes(64)) ? 0 : 1; })));
  EXPECT_EQ(group_->account().oom_kills, 1);
}

TEST_F(RealGroup, RemovesTheGroupAndItsProcesses) {
  const pid_t sleeper = start_child(entry(), [] {
    ::poll(nullptr, 0, -1);
    return 0;
  });
  while (test::read_text(group_->folder() / "cgroup.procs").empty()) ::poll(nullptr, 0, 1);
  const fs::path folder = group_->folder();
  group_.reset();
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_TRUE(killed(wait_status(sleeper)));
}

}  // namespace
}  // namespace headroom::limits
