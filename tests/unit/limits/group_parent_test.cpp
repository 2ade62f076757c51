#include "limits/control_group.h"

#include "base/text.h"
#include "limits_test_support.h"

namespace headroom::limits {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

// A fake /proc with cgroup mounts in the test's folder; "@" in the mounts stands for that folder.
class Tree {
 public:
  Tree(const std::string& groups, std::string mounts) {
    file("proc/self/cgroup", groups);
    for (std::size_t at = 0; (at = mounts.find('@', at)) != std::string::npos;)
      mounts.replace(at, 1, cgroup().string());
    file("proc/self/mountinfo", mounts);
  }
  void file(const fs::path& path, const std::string& text) {
    fs::create_directories((folder_.path() / path).parent_path());
    test::write_text(folder_.path() / path, text);
  }
  void group(const fs::path& path) { fs::create_directories(cgroup() / path); }
  // A v2 group with the files that matter.
  void group_v2(const fs::path& path, const std::string& enabled, const std::string& processes = "") {
    file("cgroup" / path / "cgroup.controllers", "cpu memory pids\n");
    file("cgroup" / path / "cgroup.subtree_control", enabled);
    file("cgroup" / path / "cgroup.procs", processes);
  }
  fs::path proc() const { return folder_.path() / "proc"; }
  fs::path cgroup() const { return folder_.path() / "cgroup"; }

 private:
  test::TemporaryFolder folder_;
};

constexpr const char* kUnifiedMount = "24 1 0:21 / @ rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(FindOwnGroup, FindsAGroupOfTheUnifiedHierarchy) {
  Tree tree("0::/user.slice/user-1000.slice/session-2.scope\n", kUnifiedMount);
  tree.group_v2("user.slice/user-1000.slice/session-2.scope", "");
  const auto own = find_own_group(tree.proc());
  ASSERT_TRUE(own) << own.error().sentence();
  EXPECT_EQ(own->version, LimitMechanism::cgroup_v2);
  EXPECT_EQ(own->folder, tree.cgroup() / "user.slice/user-1000.slice/session-2.scope");
  EXPECT_EQ(own->top, tree.cgroup());
}

TEST(FindOwnGroup, ExplainsHowToGetTheMemoryController) {
  Tree tree("0::/session\n", kUnifiedMount);
  tree.file("cgroup/session/cgroup.controllers", "cpu pids\n");
  const auto own = find_own_group(tree.proc());
  ASSERT_FALSE(own);
  EXPECT_THAT(own.error().sentence(), HasSubstr("systemd-run --user --scope -p Delegate=yes headroom"));
}

TEST(FindOwnGroup, UsesTheV1HierarchyWithMemory) {
  Tree hybrid("9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n",
              "30 1 0:27 / @/unified rw - cgroup2 cgroup2 rw\n31 1 0:28 / @/memory rw - cgroup cgroup "
              "rw,cpu,memory\n");
  hybrid.group("unified");
  hybrid.group("memory/docker/abc");
  auto own = find_own_group(hybrid.proc());
  ASSERT_TRUE(own) << own.error().sentence();
  EXPECT_EQ(own->version, LimitMechanism::cgroup_v1);
  EXPECT_EQ(own->folder, hybrid.cgroup() / "memory/docker/abc");
  // In a container, the mount starts below the hierarchy's root.
  Tree container("4:memory:/docker/abc/inner\n",
                 "31 1 0:28 /docker/abc @/memory rw shared:9 - cgroup cgroup rw,memory\n");
  container.group("memory/inner");
  own = find_own_group(container.proc());
  ASSERT_TRUE(own) << own.error().sentence();
  EXPECT_EQ(own->folder, container.cgroup() / "memory/inner");
}

TEST(FindOwnGroup, DoesNotGuessAnInvisibleGroup) {
  Tree another("4:memory:/docker/abcdef\n", "31 1 0:28 /docker/abc @ rw - cgroup cgroup rw,memory\n");
  another.group("");
  EXPECT_FALSE(find_own_group(another.proc()));
  Tree outside("0::/../session\n", kUnifiedMount);
  outside.group_v2("", "memory\n");
  EXPECT_FALSE(find_own_group(outside.proc()));
}

TEST(FindOwnGroup, ReportsMissingControlGroups) {
  test::TemporaryFolder empty;
  const auto own = find_own_group(empty.path());
  ASSERT_FALSE(own);
  EXPECT_EQ(own.error().sentence(), "no control groups found: the kernel does not list any");
}

// A fake kernel with the cgroup v2 rules that matter here: a group with processes cannot enable a controller
// for its children, and a process is in one group.
class FakeKernel {
 public:
  explicit FakeKernel(fs::path top) : top_(std::move(top)) {}

  GroupParent::Write writer() {
    return [this](const fs::path& path, std::string_view value) { return write(path, std::string(value)); };
  }

 private:
  Status write(const fs::path& path, const std::string& value) {
    const fs::path folder = path.parent_path();
    if (path.filename() == "cgroup.subtree_control") {
      if (value == "+memory" && folder != top_ && !trim(test::read_text(folder / "cgroup.procs")).empty())
        return failure("cannot write", "Device or resource busy");
      test::write_text(path, value == "+memory" ? "memory\n" : "\n");
      return {};
    }
    for (const auto& entry : fs::recursive_directory_iterator(top_)) {
      if (entry.path().filename() != "cgroup.procs") continue;
      std::string rest;
      const std::string before = test::read_text(entry.path());
      for (const std::string_view pid : split_words(before))
        if (pid != value) rest += std::string(pid) + "\n";
      test::write_text(entry.path(), rest);
    }
    const std::string there = fs::exists(path) ? test::read_text(path) : "";
    test::write_text(path, there + value + "\n");
    return {};
  }
  fs::path top_;
};

class ParentV2 : public testing::Test {
 protected:
  ParentV2() : tree_("0::/user/app/run\n", kUnifiedMount), kernel_(tree_.cgroup()) {}
  Result<GroupParent> prepare() {
    const OwnGroup own{LimitMechanism::cgroup_v2, tree_.cgroup() / "user/app/run", tree_.cgroup()};
    return GroupParent::prepare(own, tree_.proc(), kernel_.writer());
  }
  const std::string own_pid_ = std::to_string(::getpid());
  Tree tree_;
  FakeKernel kernel_;
};

TEST_F(ParentV2, MovesIntoALeafAndBackWhenAloneInItsGroup) {
  // A child of this process is in the group, too, and must move with it.
  tree_.group_v2("user/app/run", "\n", own_pid_ + "\n4242\n");
  tree_.file("proc/4242/stat", "4242 (a (strange) name) S 4241 4242 4242\n");
  tree_.file("proc/4241/stat", "4241 (sh) S " + own_pid_ + " 1 1\n");
  const fs::path folder = tree_.cgroup() / "user/app/run";
  const fs::path leaf = folder / ("headroom-" + own_pid_ + "-conductor");
  {
    const auto parent = prepare();
    ASSERT_TRUE(parent) << parent.error().sentence();
    EXPECT_EQ(parent->folder(), folder);
    EXPECT_EQ(test::read_text(folder / "cgroup.subtree_control"), "memory\n");
    EXPECT_EQ(test::read_text(folder / "cgroup.procs"), "");
    EXPECT_EQ(test::read_text(leaf / "cgroup.procs"), own_pid_ + "\n4242\n");
  }
  EXPECT_EQ(test::read_text(folder / "cgroup.subtree_control"), "\n");
  EXPECT_EQ(test::read_text(folder / "cgroup.procs"), own_pid_ + "\n4242\n");
}

TEST_F(ParentV2, DoesNotLeaveALimitedGroup) {
  tree_.group_v2("user/app/run", "\n", own_pid_ + "\n7\n");
  tree_.file("proc/7/stat", "7 (bash) S 1 7 7\n");
  tree_.file("cgroup/user/app/run/memory.max", "2147483648\n");
  tree_.group_v2("user/app", "memory\n");
  const auto parent = prepare();
  ASSERT_FALSE(parent);
  EXPECT_EQ(parent.error().sentence(),
            "cannot create a memory control group: Headroom's control group has other processes in it; use "
            "systemd-run --user --scope -p Delegate=yes headroom …, or run Headroom as root");
}

TEST_F(ParentV2, UsesTheGroupsAboveWhenItsOwnHasAShell) {
  tree_.group_v2("user/app/run", "\n", own_pid_ + "\n7\n");
  tree_.file("proc/7/stat", "7 (bash) S 1 7 7\n");
  tree_.file("cgroup/user/app/run/memory.max", "max\n");
  tree_.group_v2("user/app", "\n");  // does not enable memory for its children
  tree_.group_v2("user", "memory\n");
  {
    const auto parent = prepare();
    ASSERT_TRUE(parent) << parent.error().sentence();
    EXPECT_EQ(parent->folder(), tree_.cgroup() / "user");
  }
  tree_.group_v2("user/app", "cpu memory\n");
  const auto nearest = prepare();
  ASSERT_TRUE(nearest) << nearest.error().sentence();
  EXPECT_EQ(nearest->folder(), tree_.cgroup() / "user/app");
}

TEST_F(ParentV2, DoesNotMoveFromAGroupWithoutProcesses) {
  tree_.group_v2("user/app/run", "\n");
  const auto parent = prepare();
  ASSERT_TRUE(parent);
  EXPECT_EQ(parent->folder(), tree_.cgroup() / "user/app/run");
  EXPECT_FALSE(fs::exists(parent->folder() / ("headroom-" + own_pid_ + "-conductor")));
}

TEST(StaleGroups, RemovesOnlyGroupsOfDeadConductors) {
  const pid_t gone = run_child({}, [] { return 0; }) == 0 ? start_child({}, [] { return 0; }) : 0;
  ASSERT_GT(gone, 0);
  wait_status(gone);
  test::TemporaryFolder folder;
  const fs::path stale = folder / ("headroom-" + std::to_string(gone) + "-1-model");
  const fs::path ours = folder / ("headroom-" + std::to_string(::getpid()) + "-1-model");
  const std::vector<fs::path> kept{ours, folder / "headroom-x-1", folder / "headroom--1-1", folder / "other"};
  fs::create_directory(stale);
  for (const fs::path& path : kept) fs::create_directory(path);
  remove_stale_groups(folder.path());
  EXPECT_FALSE(fs::exists(stale));
  for (const fs::path& path : kept) EXPECT_TRUE(fs::exists(path)) << path;
}

}  // namespace
}  // namespace headroom::limits
