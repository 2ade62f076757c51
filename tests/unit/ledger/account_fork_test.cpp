// The charge of a dead process: its forked children keep it, because they have the driver's files open. A
// program that replaced it by exec does not.
#include <sys/syscall.h>

#include <functional>

#include "unit/ledger/shared_account.h"

namespace headroom::ledger {
namespace {

// As the driver does: a forked child inherits its parent's descriptors and keeps the parent's memory alive,
// until exec.
class AccountOfAParentThatDied : public AccountOfProcesses {
 protected:
  void SetUp() override {
    AccountOfProcesses::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(account_.open_shared(path().c_str()));
    ASSERT_EQ(::pipe(going_), 0);
  }
  void TearDown() override {
    end_all();
    ::close(going_[0]);
  }
  // Lets all waiting processes end.
  void end_all() {
    ::close(going_[1]);
    going_[1] = -1;
  }
  // Starts a process that charges 700 and forks a child; the child runs `live`, which reports through
  // `ready`. Then the process is killed.
  using Life = std::function<void(Account& account, int ready)>;
  void fork_and_die(const Life& live, const std::function<pid_t()>& fork_child = ::fork) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
      ::close(going_[1]);
      Account account;
      if (!account.open_shared(path().c_str()) || !account.charge(0, 700)) ::_exit(1);
      if (fork_child() == 0) {
        live(account, ready[1]);
        ::_exit(0);
      }
      ::pause();
    }
    char answer = 0;
    EXPECT_EQ(::read(ready[0], &answer, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    kill_and_wait(parent);
  }
  void wait_for_the_end() const {
    char byte = 0;
    [[maybe_unused]] const auto ended = ::read(going_[0], &byte, 1);
  }
  void close_all_but(int ready) const {
    for (int fd = 3; fd < 1024; ++fd)
      if (fd != ready && fd != going_[0]) ::close(fd);
  }
  static void report(int ready) { [[maybe_unused]] const auto written = ::write(ready, "y", 1); }
  // No process can wait for an orphaned child, so this polls until its charge is gone.
  bool becomes_free() {
    for (int i = 0; i < 1000; ++i) {
      if (account_.charge(0, 1000)) return true;
      ::usleep(5000);
    }
    return false;
  }
  Account account_;
  int going_[2] = {-1, -1};
};

TEST_F(AccountOfAParentThatDied, ItsForkedChildKeepsTheCharge) {
  fork_and_die([&](Account& account, int ready) {
    account.reset_after_fork();
    report(ready);
    wait_for_the_end();
  });
  EXPECT_EQ(account_.charged(0), 700u);
  EXPECT_EQ(account_.members(), 1u);
  EXPECT_FALSE(account_.charge(0, 301));
  EXPECT_TRUE(account_.charge(0, 300));
  account_.discharge(0, 300);
  end_all();
  EXPECT_TRUE(becomes_free());
}

// The child is made by the system call, runs none of this library's code, and closes all descriptors. But it
// inherits its parent's mappings of the driver's files and of the account.
TEST_F(AccountOfAParentThatDied, AnyChildKeepsTheCharge) {
  fork_and_die(
      [&](Account&, int ready) {
        close_all_but(ready);
        report(ready);
        wait_for_the_end();
      },
      [] { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)); });
  EXPECT_FALSE(account_.charge(0, 301));
  end_all();
  EXPECT_TRUE(becomes_free());
}

// The child keeps its parent's charge, and its own charge counts in addition.
TEST_F(AccountOfAParentThatDied, ItsChildHasItsOwnChargeInAddition) {
  fork_and_die([&](Account& account, int ready) {
    account.reset_after_fork();
    const pid_t parent = ::getppid();
    if (!account.charge(0, 200)) return;
    close_all_but(ready);
    report(ready);
    while (::getppid() == parent) ::usleep(1000);
    if (account.charge(0, 101) || account.charged(0) != 900 || !account.charge(0, 50)) return;
    wait_for_the_end();
  });
  for (int i = 0; i < 1000 && account_.charged(0) != 950; ++i) ::usleep(5000);
  EXPECT_EQ(account_.charged(0), 950u);
  EXPECT_EQ(account_.members(), 2u);
  end_all();
  EXPECT_TRUE(becomes_free());
}

TEST_F(AccountOfAParentThatDied, AChildThatCallsExecDropsTheCharge) {
  fork_and_die([&](Account& account, int ready) {
    account.reset_after_fork();
    ::dup2(going_[0], 0);
    ::dup2(ready, 1);
    ::execl("/bin/sh", "sh", "-c", "echo y; read line", nullptr);
  });
  EXPECT_TRUE(account_.charge(0, 1000));
}

// The new program has no charge, whether or not it ever allocates.
TEST_F(AccountOfProcesses, ExecDropsTheCharge) {
  bool has_started = false;
  const pid_t child = child_that(
      [&](int ready) {
        Account account;
        if (!account.open_shared(path().c_str()) || !account.charge(0, 700)) return false;
        ::dup2(ready, 1);
        ::execl("/bin/sh", "sh", "-c", "printf y; exec sleep 60", nullptr);
        return false;
      },
      has_started);
  ASSERT_TRUE(has_started);
  OpenAccount account(path());
  EXPECT_EQ(account.charged(0), 0u);
  EXPECT_TRUE(account.charge(0, 1000));
  kill_and_wait(child);
}

// The process's new program joins while a child of the old program keeps its memory. close() stands for exec,
// which closes the descriptor.
TEST_F(AccountOfProcesses, AProgramAfterExecDoesNotClaimASlotThatAChildHolds) {
  OpenAccount predecessor(path());
  ASSERT_TRUE(predecessor.charge(0, 700));
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  predecessor.close();
  OpenAccount successor(path());
  EXPECT_FALSE(successor.charge(0, 301));
  EXPECT_TRUE(successor.charge(0, 300));
  EXPECT_EQ(successor.charged(0), 1000u);
  kill_and_wait(child);
}

// A program that closes unknown descriptors keeps its memory.
TEST_F(AccountOfProcesses, AProcessThatClosesTheDescriptorKeepsItsCharge) {
  bool is_sound = false;
  const pid_t child = child_that(
      [&](int ready) {
        static Account account;
        const bool is_charged = account.open_shared(path().c_str()) && account.charge(0, 700);
        for (int fd = 3; fd < 1024; ++fd)
          if (fd != ready) ::close(fd);
        return is_charged && !account.charge(0, 301) && account.charge(0, 100);
      },
      is_sound);
  EXPECT_TRUE(is_sound);
  OpenAccount account(path());
  EXPECT_FALSE(account.charge(0, 201));
  EXPECT_EQ(account.charged(0), 800u);
  kill_and_wait(child);
  EXPECT_TRUE(account.charge(0, 1000));
}

}  // namespace
}  // namespace headroom::ledger
