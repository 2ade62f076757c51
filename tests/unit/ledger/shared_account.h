// Test fixture: an account that processes share.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

class SharedAccount : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Account::create_shared(path().c_str(), limit_of(1000))); }
  std::string path() const { return (folder_ / "account").string(); }
  // Starts a process that charges, then waits to be killed. Returns when it has charged.
  pid_t child_that_charges(std::uint64_t bytes, bool* granted) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Account account;
      const char answer = account.open_shared(path().c_str()) && account.charge(0, bytes) ? 'y' : 'n';
      if (::write(ready[1], &answer, 1) == 1) ::pause();
      ::_exit(0);
    }
    char answer = 0;
    EXPECT_EQ(::read(ready[0], &answer, 1), 1);
    *granted = answer == 'y';
    ::close(ready[0]);
    ::close(ready[1]);
    return child;
  }
  static void kill_and_wait(pid_t child) {
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
  }
  test::TemporaryFolder folder_;
};

}  // namespace headroom::ledger
