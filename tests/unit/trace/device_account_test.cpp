// The account that the processes of a command share.
#include "trace/device_account.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "support/test_support.h"

namespace headroom::trace {
namespace {

namespace fs = std::filesystem;

// Like a verb that needs its limit before it traces.
TEST(DeviceAccount, OpeningAnAccountTwiceReturnsTheSame) {
  const test::TemporaryFolder folder;
  ledger::Limits limits;
  limits.bytes[0] = 1000;
  auto first = DeviceAccount::open(limits, "", folder.path());
  ASSERT_TRUE(first);
  const fs::path file = first->file();
  {
    auto second = DeviceAccount::open(limits, "", folder.path());
    ASSERT_TRUE(second);
    EXPECT_EQ(second->file(), file);
    EXPECT_EQ(second->limits().bytes[0], 1000u);
  }
  EXPECT_TRUE(fs::exists(file));
  ledger::Account account;
  ASSERT_TRUE(account.open_shared(file.c_str()));
  EXPECT_EQ(account.members(), 1u);
}

TEST(DeviceAccount, RemovesAccountsOfKilledCommands) {
  const test::TemporaryFolder folder;
  ledger::Limits limits;
  limits.bytes[0] = 1000;
  const std::string ours = "headroom-" + std::to_string(::geteuid());
  const fs::path abandoned = folder / (ours + "-4194999-17"), used = folder / (ours + "-4194999-18"),
                 awaited = folder / (ours + "-4194999-19"), other = folder / (ours + "-4194999-20");
  for (const fs::path& file : {abandoned, used, awaited})
    ASSERT_TRUE(ledger::Account::create_shared(file.c_str(), limits));
  test::write_text(other, "not an account");
  // Of processes that were killed before they finished the file.
  const fs::path empty = folder / (ours + "-4194999-21.17.new"), zeros = folder / (ours + "-share-a.18.new");
  test::write_text(empty, "");
  test::write_text(zeros, std::string(4096, '\0'));
  ledger::Account member;
  ASSERT_TRUE(member.open_shared(used.c_str()) && member.charge(0, 10));
  // A program that is still running and could join the account.
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string options = "HEADROOM_TRACE_OPTIONS=ledger=1,device=1000,account=" + awaited.string();
    char* const environment[] = {const_cast<char*>(options.c_str()), nullptr};
    ::execle("/bin/sleep", "sleep", "60", nullptr, environment);
    ::_exit(1);
  }
  const std::string environ_of_child = "/proc/" + std::to_string(child) + "/environ";
  for (int i = 0; i < 1000 && test::read_text(environ_of_child).find(awaited.string()) == std::string::npos;
       ++i)
    ::usleep(5000);
  ASSERT_TRUE(DeviceAccount::open(limits, "", folder.path()));
  for (const fs::path& file : {abandoned, empty, zeros}) EXPECT_FALSE(fs::exists(file)) << file;
  for (const fs::path& file : {used, awaited, other}) EXPECT_TRUE(fs::exists(file)) << file;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(DeviceAccount::open(limits, "", folder.path()));
  EXPECT_FALSE(fs::exists(awaited));
}

}  // namespace
}  // namespace headroom::trace
