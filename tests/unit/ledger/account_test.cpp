// The account of a GPU memory limit: in one thread, several threads, several processes, and after a process
// died.
#include "ledger/account.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "ledger/account_page.h"
#include "unit/ledger/shared_account.h"

namespace headroom::ledger {
namespace {

TEST(Account, GrantsExactlyTheLimit) {
  PrivateAccount account(limit_of(1000));
  EXPECT_TRUE(account.charge(0, 400));
  EXPECT_FALSE(account.charge(0, 601));
  EXPECT_TRUE(account.charge(0, 600));
  EXPECT_FALSE(account.charge(0, 1));
  EXPECT_TRUE(account.charge(0, 0));
  account.discharge(0, 1);
  EXPECT_TRUE(account.charge(0, 1));
  EXPECT_EQ(account.charged(0), 1000u);
  account.discharge(0, 5000);
  EXPECT_EQ(account.charged(0), 0u) << "at most its charge";
}

TEST(Account, RefusesHugeRequestsWithoutOverflow) {
  for (const Limits& limits : {limit_of(1000), Limits{}}) {
    PrivateAccount account(limits);
    ASSERT_TRUE(account.charge(0, 500));
    for (const std::uint64_t huge : {~std::uint64_t{0}, ~std::uint64_t{0} - 500, std::uint64_t{1} << 63})
      EXPECT_FALSE(account.charge(0, huge)) << huge;
    EXPECT_EQ(account.charged(0), 500u);
    EXPECT_EQ(account.charge(0, std::uint64_t{1} << 50), limits.bytes[0] == kNoLimit);
  }
}

TEST(Account, LimitsEachDeviceSeparately) {
  PrivateAccount account(limit_of(10, 1));
  EXPECT_TRUE(account.charge(0, 1 << 30));
  EXPECT_FALSE(account.charge(1, 11));
  EXPECT_EQ(account.limit(0), kNoLimit);
  EXPECT_EQ(account.limit(1), 10u);
  EXPECT_EQ(account.limit(kMaxDevices), kNoLimit);
}

TEST(Account, GrantsExactlyTheLimitToRacingThreads) {
  constexpr std::uint64_t kLimit = 100'000;
  constexpr int kThreads = 8;
  PrivateAccount account(limit_of(kLimit));
  std::atomic<std::uint64_t> held{0}, most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      // Each thread charges and discharges. Together they must never exceed the limit.
      for (int round = 0; round < 20'000; ++round) {
        const auto bytes = static_cast<std::uint64_t>(1 + (round * 7 + i * 13) % 5000);
        if (!account.charge(0, bytes)) continue;
        const std::uint64_t now = held.fetch_add(bytes) + bytes;
        std::uint64_t seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        held.fetch_sub(bytes);
        account.discharge(0, bytes);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most.load(), kLimit);
  EXPECT_EQ(account.charged(0), 0u);
  // All threads charge single bytes at once: exactly the limit is granted.
  std::atomic<std::uint64_t> granted{0};
  threads.clear();
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      while (account.charge(0, 1)) granted.fetch_add(1);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted.load(), kLimit);
}

// Its PID is not valid here, but its death is noticed through the byte lock.
TEST_F(AccountOfProcesses, KeepsTheChargeOfAProcessInAnotherPidNamespaceUntilItDies) {
  int ready[2], going[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(going), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(going[1]);
    if (::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWPID) != 0) ::_exit(77);
    const pid_t inner = ::fork();  // the first process of the new namespace
    if (inner == 0) {
      Account member;
      char byte = member.open_shared(path().c_str()) && member.charge(0, 700) ? 'y' : 'n';
      if (::write(ready[1], &byte, 1) == 1) ::_exit(::read(going[0], &byte, 1) == 0 ? 0 : 1);
    }
    int status = 1;
    ::waitpid(inner, &status, 0);
    ::_exit(WEXITSTATUS(status));
  }
  ::close(ready[1]);
  char answer = 0;
  OpenAccount account(path());
  if (::read(ready[0], &answer, 1) == 1) {
    EXPECT_EQ(answer, 'y');
    EXPECT_EQ(account.members(), 1u);
    EXPECT_EQ(account.uncheckable_members(), 0u) << "its death can be noticed";
    EXPECT_FALSE(account.charge(0, 301));
  }
  ::close(going[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::close(ready[0]);
  ::close(going[0]);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this system makes no PID namespace";
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(account.charge(0, 1000));
}

TEST_F(SharedAccount, IsCreatedOnceAndRejectsOtherFiles) {
  EXPECT_FALSE(Account::create_shared(path().c_str(), limit_of(5)));
  EXPECT_EQ(errno, EEXIST);
  OpenAccount account(path());
  EXPECT_EQ(account.limit(0), 1000u);
  EXPECT_TRUE(account.is_shared());
  Account other;
  EXPECT_FALSE(other.open_shared((folder_ / "absent").c_str()));
  test::write_text(folder_ / "other", "not an account");
  EXPECT_FALSE(other.open_shared((folder_ / "other").c_str()));
  EXPECT_FALSE(other.is_open());
}

TEST_F(AccountOfProcesses, ClearsTheChargeOfADeadProcess) {
  const pid_t child = child_that_charges(700);
  OpenAccount account(path());
  EXPECT_FALSE(account.charge(0, 301));
  EXPECT_TRUE(account.charge(0, 300));
  EXPECT_EQ(account.charged(0), 1000u);
  EXPECT_EQ(account.members(), 2u);
  kill_and_wait(child);
  // Nothing reported the death; the next request notices it.
  EXPECT_TRUE(account.charge(0, 700));
  EXPECT_FALSE(account.charge(0, 1));
  EXPECT_EQ(account.members(), 1u);
}

// Its memory is freed when it ends, even if its parent never waits for it.
TEST_F(AccountOfProcesses, ClearsTheChargeOfAZombie) {
  const pid_t child = ::fork();
  if (child == 0) {
    Account account;
    ::_exit(account.open_shared(path().c_str()) && account.charge(0, 700) ? 0 : 1);
  }
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(info.si_status, 0);
  OpenAccount account(path());
  EXPECT_TRUE(account.charge(0, 1000));
  ::waitpid(child, nullptr, 0);
}

TEST_F(AccountOfProcesses, GivesAForkedChildItsOwnSlot) {
  OpenAccount account(path());
  ASSERT_TRUE(account.charge(0, 600));
  const pid_t child = ::fork();
  if (child == 0) {
    account.reset_after_fork();
    const bool sound =
        !account.charge(0, 401) && account.charge(0, 400) && account.charged_to_this_process(0) == 400;
    ::_exit(sound ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(account.charged(0), 600u);
}

TEST_F(AccountOfProcesses, SurvivesTheDeathOfALockHolder) {
  // Many members that are killed at random moments while they charge and discharge.
  for (int round = 0; round < 30; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      Account account;
      if (!account.open_shared(path().c_str())) ::_exit(1);
      for (;;) {
        account.charge(0, 500);
        account.discharge(0, 500);
      }
    }
    ::usleep(static_cast<useconds_t>(1000 + round * 137));
    kill_and_wait(child);
  }
  OpenAccount account(path());
  EXPECT_TRUE(account.charge(0, 1000));
  EXPECT_FALSE(account.charge(0, 1));
}

TEST_F(SharedAccount, IgnoresSlotsWithoutAnOwner) {
  OpenAccount account(path());
  ASSERT_TRUE(account.charge(0, 300));
  // The state of a slot if its process is killed while it claims or clears the slot.
  const int fd = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
  void* const memory = ::mmap(nullptr, sizeof(AccountPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  ASSERT_NE(memory, MAP_FAILED);
  auto& page = *static_cast<AccountPage*>(memory);
  ASSERT_EQ(page.slots_used, 1U);
  page.slots_used = 2;
  page.slots[1].charged[0] = 600;
  EXPECT_EQ(account.charged(0), 300U);
  EXPECT_TRUE(account.charge(0, 700));
  EXPECT_FALSE(account.charge(0, 1));
  Account other;
  account.discharge(0, 1000);
  ASSERT_TRUE(other.open_shared(path().c_str()));
  EXPECT_TRUE(other.charge(0, 1000)) << "a newly claimed slot has no charge";
  ::munmap(memory, sizeof(AccountPage));
}

TEST_F(SharedAccount, KeepsPeaksPerProcessAndInTotal) {
  OpenAccount one(path());
  EXPECT_EQ(one.peak(0), 0U);
  EXPECT_TRUE(one.charge(0, 300));
  one.discharge(0, 200);
  EXPECT_TRUE(one.charge(0, 50));
  EXPECT_EQ(one.peak_of_this_process(0), 300U);
  EXPECT_EQ(one.peak(0), 300U);
  one.reset_peak_of_this_process(0);
  EXPECT_EQ(one.peak_of_this_process(0), 150U) << "the current charge";
  EXPECT_EQ(one.peak(0), 300U) << "the total peak is not reset";
  one.reset_peaks();
  EXPECT_EQ(one.peak(0), 150U);
  EXPECT_EQ(one.peak(1), 0U);
  // A refused request does not raise the peak, and all processes see the number of refusals.
  EXPECT_FALSE(one.charge(0, 900));
  one.note_refusal(0, 900, 900);
  OpenAccount other(path());
  EXPECT_EQ(other.peak(0), 150U);
  EXPECT_EQ(other.refused(0), 1U);
  EXPECT_EQ(other.refused_bytes(0), 900U);
  EXPECT_EQ(other.refused(1), 0U);
}

TEST_F(AccountOfProcesses, DoesNotAddUpProcessesThatRanOneAfterAnother) {
  OpenAccount conductor(path());
  ASSERT_TRUE(conductor.charge(0, 0));
  for (int i = 0; i < 3; ++i) kill_and_wait(child_that_charges(300));
  EXPECT_EQ(conductor.peak(0), 300u);
  EXPECT_EQ(conductor.members(), 1u);
  EXPECT_TRUE(conductor.has_kept_limit(0));
}

TEST_F(AccountOfProcesses, ExcludesADeadProcessFromANewPeak) {
  OpenAccount account(path());
  ASSERT_TRUE(account.charge(0, 100));
  const pid_t child = child_that_charges(600);
  EXPECT_EQ(account.peak(0), 700u);
  kill_and_wait(child);
  ::usleep(2000);  // longer than the interval between checks for dead processes
  EXPECT_TRUE(account.charge(0, 200));
  EXPECT_EQ(account.peak(0), 700u) << "900 were never charged at once";
  EXPECT_TRUE(account.charge(0, 500));
  EXPECT_EQ(account.peak(0), 800u);
}

// A forced charge can exceed the limit, and the account reports that.
TEST_F(SharedAccount, ReportsWhetherThePeakStayedWithinTheLimit) {
  Account account;
  EXPECT_TRUE(account.has_kept_limit(0)) << "no limit";
  ASSERT_TRUE(account.open_shared(path().c_str()));
  EXPECT_TRUE(account.charge(0, 1000));
  EXPECT_FALSE(account.charge(0, 1));
  EXPECT_TRUE(account.has_kept_limit(0));
  account.force_charge(0, 1);
  account.discharge(0, 1001);
  EXPECT_FALSE(account.has_kept_limit(0)) << "it was exceeded once";
  account.force_charge(1, 5000);
  EXPECT_TRUE(account.has_kept_limit(1)) << "no limit";
  account.reset_peaks();
  EXPECT_TRUE(account.has_kept_limit(0));
}

TEST_F(SharedAccount, AProcessCanJoinWhileTheLimitIsExceeded) {
  OpenAccount one(path());
  ASSERT_TRUE(one.charge(0, 900));
  one.force_charge(0, 200);
  OpenAccount other(path());
  EXPECT_TRUE(other.ensure_joined());
  EXPECT_FALSE(other.charge(0, 1));
  EXPECT_EQ(one.members(), 2U);
  one.leave();
  EXPECT_TRUE(other.charge(0, 1000)) << "the charge of a process that left is gone";
}

TEST(ProcessIdentity, DetectsAReusedPid) {
  ProcessIdentity self = this_process();
  EXPECT_TRUE(may_be_alive(self));
  ++self.start_ticks;
  EXPECT_FALSE(may_be_alive(self));
  EXPECT_FALSE(may_be_alive({}));
  // A process in another namespace cannot be checked.
  ++self.pid_namespace;
  EXPECT_TRUE(may_be_alive(self));
}

// Only an exiting process may still have the driver's files open; a zombie has closed them.
TEST(ProcessIdentity, ARunningOrZombieProcessIsNotExiting) {
  EXPECT_FALSE(is_exiting(this_process()));
  EXPECT_FALSE(is_exiting({}));
  int lines[2] = {};
  ASSERT_EQ(::pipe(lines), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const ProcessIdentity self = this_process();
    _exit(::write(lines[1], &self, sizeof self) == sizeof self ? 0 : 1);
  }
  ProcessIdentity identity;
  ASSERT_EQ(::read(lines[0], &identity, sizeof identity), static_cast<ssize_t>(sizeof identity));
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_exiting(identity));
  EXPECT_FALSE(may_be_alive(identity));
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(is_exiting(identity));
  ::close(lines[0]);
  ::close(lines[1]);
}

}  // namespace
}  // namespace headroom::ledger
