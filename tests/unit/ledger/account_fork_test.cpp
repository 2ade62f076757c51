// Who holds what a process had that is gone: its children, as they have the driver's files open, and no
// program that took its place.
#include <sys/syscall.h>

#include <functional>

#include "unit/ledger/shared_account.h"

namespace headroom::ledger {
namespace {

// What the driver does with memory: a child of fork has its parent's descriptors, and with them its memory,
// until it becomes another program.
class AccountOfAParentThatDied : public SharedAccount {
 protected:
  void SetUp() override {
    if (kIsEmulated) GTEST_SKIP() << kWhyNotEmulated;
    SharedAccount::SetUp();
    ASSERT_TRUE(account_.open_shared(path().c_str()));
    ASSERT_EQ(::pipe(going_), 0);
  }
  void TearDown() override {
    let_go();
    ::close(going_[0]);
  }
  // All that waits for the end, ends.
  void let_go() {
    ::close(going_[1]);
    going_[1] = -1;
  }
  // A process charges 700, and forks a child that runs `live`, which tells that it is ready by the descriptor
  // and lives as long as it likes. Then the process is killed.
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
  static void tell(int ready) { [[maybe_unused]] const auto told = ::write(ready, "y", 1); }
  // Nobody waits for a child of a dead parent: it is asked for until it is gone.
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

TEST_F(AccountOfAParentThatDied, ItsChildHoldsWhatItHad) {
  fork_and_die([&](Account& account, int ready) {
    account.reset_after_fork();
    tell(ready);
    wait_for_the_end();
  });
  EXPECT_EQ(account_.charged(0), 700u);
  EXPECT_EQ(account_.members(), 1u);
  EXPECT_FALSE(account_.charge(0, 301));
  EXPECT_TRUE(account_.charge(0, 300));
  account_.discharge(0, 300);
  let_go();
  EXPECT_TRUE(becomes_free());
}

// A child that runs none of this library's code: made by the kernel's call, and dead before it could tell.
TEST_F(AccountOfAParentThatDied, ItsChildHoldsItWithoutDoingAnything) {
  fork_and_die(
      [&](Account&, int ready) {
        tell(ready);
        wait_for_the_end();
      },
      [] { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)); });
  EXPECT_FALSE(account_.charge(0, 301));
  let_go();
  EXPECT_TRUE(becomes_free());
}

TEST_F(AccountOfAParentThatDied, ItsChildsChildHoldsIt) {
  fork_and_die([&](Account& account, int ready) {
    account.reset_after_fork();
    if (::fork() != 0) return;
    account.reset_after_fork();
    tell(ready);
    wait_for_the_end();
  });
  EXPECT_FALSE(account_.charge(0, 301));
  let_go();
  EXPECT_TRUE(becomes_free());
}

// A child has what it charges itself beside what it holds of its parent's, and asks for both.
TEST_F(AccountOfAParentThatDied, ItsChildIsAMemberOfItsOwn) {
  fork_and_die([&](Account& account, int ready) {
    account.reset_after_fork();
    const pid_t parent = ::getppid();
    if (!account.charge(0, 200)) return;
    close_all_but(ready);
    tell(ready);
    while (::getppid() == parent) ::usleep(1000);
    if (account.charge(0, 101) || account.charged(0) != 900 || !account.charge(0, 50)) return;
    wait_for_the_end();
  });
  for (int i = 0; i < 1000 && account_.charged(0) != 950; ++i) ::usleep(5000);
  EXPECT_EQ(account_.charged(0), 950u);
  EXPECT_EQ(account_.members(), 2u);
  let_go();
  EXPECT_TRUE(becomes_free());
}

TEST_F(AccountOfAParentThatDied, AChildThatBecomesAnotherProgramHoldsNothing) {
  fork_and_die([&](Account& account, int ready) {
    account.reset_after_fork();
    ::dup2(going_[0], 0);
    ::dup2(ready, 1);
    ::execl("/bin/sh", "sh", "-c", "echo y; read line", nullptr);
  });
  EXPECT_TRUE(account_.charge(0, 1000));
}

// Its mappings are its parent's, too, of the driver's files and of the account.
TEST_F(AccountOfAParentThatDied, AChildThatClosesItsDescriptorsHoldsItStill) {
  fork_and_die([&](Account& account, int ready) {
    account.reset_after_fork();
    close_all_but(ready);
    tell(ready);
    wait_for_the_end();
  });
  EXPECT_FALSE(account_.charge(0, 301));
  let_go();
  EXPECT_TRUE(becomes_free());
}

// The program that the process becomes has nothing, whether it ever asks for memory or not.
TEST_F(SharedAccount, AProcessThatBecomesAnotherProgramHoldsNothing) {
  if (kIsEmulated) GTEST_SKIP() << kWhyNotEmulated;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Account account;
    if (!account.open_shared(path().c_str()) || !account.charge(0, 700)) ::_exit(1);
    ::dup2(ready[1], 1);
    ::execl("/bin/sh", "sh", "-c", "echo y; exec sleep 60", nullptr);
    ::_exit(1);
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  Account account;
  ASSERT_TRUE(account.open_shared(path().c_str()));
  EXPECT_EQ(account.charged(0), 0u);
  EXPECT_TRUE(account.charge(0, 1000));
  kill_and_wait(child);
  ::close(ready[0]);
  ::close(ready[1]);
}

// Another program of the same process joins while a child of the first has its memory: as exec closes the
// descriptor, so does close().
TEST_F(SharedAccount, ASuccessorDoesNotTakeWhatAChildOfItsPredecessorHolds) {
  if (kIsEmulated) GTEST_SKIP() << kWhyNotEmulated;
  Account predecessor, successor;
  ASSERT_TRUE(predecessor.open_shared(path().c_str()));
  ASSERT_TRUE(predecessor.charge(0, 700));
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  predecessor.close();
  ASSERT_TRUE(successor.open_shared(path().c_str()));
  EXPECT_FALSE(successor.charge(0, 301));
  EXPECT_TRUE(successor.charge(0, 300));
  EXPECT_EQ(successor.charged(0), 1000u);
  kill_and_wait(child);
}

// Programs that close what they do not know still have their memory.
TEST_F(SharedAccount, AMemberThatLosesItsDescriptorIsOneStill) {
  if (kIsEmulated) GTEST_SKIP() << kWhyNotEmulated;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Account account;
    bool sound = account.open_shared(path().c_str()) && account.charge(0, 700);
    for (int fd = 3; fd < 1024; ++fd)
      if (fd != ready[1]) ::close(fd);
    sound = sound && !account.charge(0, 301) && account.charge(0, 100);
    if (::write(ready[1], sound ? "y" : "n", 1) == 1) ::pause();
    ::_exit(0);
  }
  char answer = 0;
  EXPECT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  Account account;
  ASSERT_TRUE(account.open_shared(path().c_str()));
  EXPECT_FALSE(account.charge(0, 201));
  EXPECT_EQ(account.charged(0), 800u);
  kill_and_wait(child);
  EXPECT_TRUE(account.charge(0, 1000));
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace headroom::ledger
