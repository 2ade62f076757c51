// Test fixture: an account that processes share.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "ledger/account.h"
#include "support/test_support.h"

namespace headroom::ledger {

inline Limits limit_of(std::uint64_t bytes, unsigned device = 0) {
  Limits limits;
  limits.bytes[device] = bytes;
  return limits;
}

// qemu-user invents /proc/self/stat, so other processes see a different start time. It has no robust mutexes,
// either.
#ifdef HEADROOM_EMULATED
inline constexpr bool kIsEmulated = true;
#else
inline constexpr bool kIsEmulated = false;
#endif
inline constexpr const char* kWhyNotEmulated =
    "the emulator shows other processes a different start time of this process";

struct PrivateAccount : Account {
  explicit PrivateAccount(const Limits& limits) { EXPECT_TRUE(open_private(limits)); }
};
struct OpenAccount : Account {
  explicit OpenAccount(const std::string& path) { EXPECT_TRUE(open_shared(path.c_str())); }
};

class SharedAccount : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Account::create_shared(path().c_str(), limit_of(1000))); }
  std::string path() const { return (folder_ / "account").string(); }
  // Starts a process that runs `work`, reports whether that succeeded, and waits to be killed. Returns when
  // it has reported. `work` gets the descriptor for the report.
  static pid_t child_that(const std::function<bool(int ready)>& work, bool& succeeded) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      if (::write(ready[1], work(ready[1]) ? "y" : "n", 1) == 1) ::pause();
      ::_exit(0);
    }
    char answer = 0;
    EXPECT_EQ(::read(ready[0], &answer, 1), 1);
    succeeded = answer == 'y';
    ::close(ready[0]);
    ::close(ready[1]);
    return child;
  }
  pid_t child_that_charges(std::uint64_t bytes) {
    Account account;  // closed in the parent
    bool granted = false;
    const pid_t child = child_that(
        [&](int) { return account.open_shared(path().c_str()) && account.charge(0, bytes); }, granted);
    EXPECT_TRUE(granted);
    return child;
  }
  static void kill_and_wait(pid_t child) {
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
  }
  test::TemporaryFolder folder_;
};

class AccountOfProcesses : public SharedAccount {
 protected:
  void SetUp() override {
    if (kIsEmulated) GTEST_SKIP() << kWhyNotEmulated;
    SharedAccount::SetUp();
  }
};

}  // namespace headroom::ledger
