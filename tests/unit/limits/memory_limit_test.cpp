#include "limits/memory_limit.h"

#include "base/subprocess.h"
#include "limits_test_support.h"
#include "sources/process_table.h"

namespace headroom::limits {
namespace {

std::unique_ptr<MemoryLimit> make(std::optional<Bytes> bytes, std::string_view forced) {
  std::string note;
  auto limit = make_memory_limit("a model/with odd\nname", bytes, forced, note);
  return limit ? std::move(*limit) : nullptr;
}

TEST(MakeMemoryLimit, RejectsATooSmallLimitAndAnUnknownMechanism) {
  std::string note;
  const auto small = make_memory_limit("m", mebibytes(1), "auto", note);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().sentence(),
            "the memory limit of 1.0 MiB is too small: no Headroom process can start with it; use at least "
            "8.0 MiB");
  const auto unknown = make_memory_limit("m", mebibytes(64), "hope", note);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::usage);
}

TEST(MakeMemoryLimit, UsesForcedMechanisms) {
  EXPECT_EQ(make(mebibytes(64), "rlimit")->mechanism(), LimitMechanism::rlimit_data);
  EXPECT_EQ(make(mebibytes(64), "none")->mechanism(), LimitMechanism::none);
  std::string note;
  const auto watchdog = make_memory_limit("m", gibibytes(1'000'000), "watchdog", note);
  ASSERT_TRUE(watchdog);
  EXPECT_EQ((*watchdog)->mechanism(), LimitMechanism::watchdog);
  EXPECT_THAT(note, testing::HasSubstr("is more than this machine's memory of"));
  const auto account = make_memory_limit("m", std::nullopt, "auto", note);
  ASSERT_TRUE(account);
  EXPECT_EQ((*account)->bytes(), Bytes{});
  EXPECT_EQ((*account)->account().limit, std::nullopt);
  EXPECT_EQ(note, "");
}

TEST(DataLimit, RefusesPrivateMemoryButNotSharedMemory) {
  if (kEmulated || kSanitized) GTEST_SKIP() << kNoRealLimits;
  const auto limit = make(mebibytes(64), "rlimit");
  EXPECT_EQ(run_child(limit->entry(), [] { return allocate(mebibytes(32)) ? 0 : 1; }), 0);
  EXPECT_NE(run_child(limit->entry(), [] { return allocate(mebibytes(96)) ? 0 : 1; }), 0);
  EXPECT_EQ(run_child(limit->entry(), [] { return allocate(mebibytes(96), MAP_SHARED) ? 0 : 1; }), 0);
}

class GroupLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kEmulated || kSanitized) GTEST_SKIP() << kNoRealLimits;
    std::string note;
    auto limit = make_memory_limit("test", mebibytes(48), "cgroup", note);
    if (!limit) GTEST_SKIP() << limit.error().sentence();
    limit_ = std::move(*limit);
  }
  std::unique_ptr<MemoryLimit> limit_;
};

TEST_F(GroupLimitTest, SharesOneLimitBetweenChildren) {
  auto ready = Pipe::create();
  auto hold = Pipe::create();
  ASSERT_TRUE(ready && hold);
  // Each child stays below the limit; the second allocates more than the first leaves.
  const auto work = [&] {
    hold->write_end.reset();
    if (!allocate(mebibytes(32))) return 1;
    if (::write(ready->write_end.get(), "y", 1) != 1) return 2;
    char byte = 0;
    return ::read(hold->read_end.get(), &byte, 1) == 0 ? 0 : 3;
  };
  const pid_t first = start_child(limit_->entry(), work);
  char byte = 0;
  ASSERT_EQ(::read(ready->read_end.get(), &byte, 1), 1);
  EXPECT_GE(limit_->account().current.value(), mebibytes(32));
  const pid_t second = start_child(limit_->entry(), work);
  ready->write_end.reset();
  // The kernel may kill either child; the survivor answers or has answered.
  EXPECT_LE(::read(ready->read_end.get(), &byte, 1), 1);
  hold->write_end.reset();
  const int statuses[] = {wait_status(first), wait_status(second)};
  // On a busy machine, the kernel may kill the other one, too, before the first has freed its memory.
  const int victims = killed(statuses[0]) + killed(statuses[1]);
  EXPECT_GE(victims, 1);
  EXPECT_EQ(limit_->account().oom_kills, victims);
}

TEST_F(GroupLimitTest, AgreesWithTheProcesssOwnPeak) {
  auto figures = Pipe::create();
  ASSERT_TRUE(figures);
  const auto work = [&] {
    using namespace sources;
    // The memory inherited from the parent is charged to the parent.
    const ProcessMemory at_start = read_process_memory(::getpid(), ProcessDetail::status);
    if (!allocate(mebibytes(24))) return 1;
    const ProcessMemory at_end = read_process_memory(::getpid(), ProcessDetail::status);
    const Bytes growth = at_end.rss_peak.value_or(Bytes{}) - at_start.rss.value_or(Bytes{});
    return ::write(figures->write_end.get(), &growth, sizeof growth) > 0 ? 0 : 2;
  };
  ASSERT_EQ(run_child(limit_->entry(), work), 0);
  Bytes growth;
  ASSERT_EQ(::read(figures->read_end.get(), &growth, sizeof growth), static_cast<ssize_t>(sizeof growth));
  EXPECT_GE(growth, mebibytes(24));
  const auto group_peak = limit_->account().peak;
  if (!group_peak) GTEST_SKIP() << "this kernel keeps no peak for a group";
  // The group is also charged for page tables, for copies of the parent's pages, and for pages that the
  // kernel charges in advance, in a batch per core.
  EXPECT_LE(std::abs((*group_peak - growth).count), mebibytes(4).count);
}

}  // namespace
}  // namespace headroom::limits
