// Accounts within others, and processes that number the devices differently.
#include <sys/wait.h>
#include <unistd.h>

#include "ledger/account.h"
#include "unit/ledger/shared_account.h"

namespace headroom::ledger {
namespace {

struct AccountWithinAnother : testing::Test {
  AccountWithinAnother() { inner.nest_in(outer); }
  PrivateAccount outer{limit_of(1000)}, inner{limit_of(600)};
};

TEST_F(AccountWithinAnother, ChargesBothOrNone) {
  EXPECT_EQ(inner.limit(0), 600u);
  ASSERT_TRUE(outer.charge(0, 500));  // by another account
  EXPECT_FALSE(inner.charge(0, 501)) << "does not fit into the outer account";
  EXPECT_EQ(inner.charged(0), 0u);
  EXPECT_EQ(inner.peak(0), 0u);
  EXPECT_EQ(outer.peak(0), 500u);
  EXPECT_FALSE(inner.would_fit(0, 501));
  EXPECT_TRUE(inner.charge(0, 400));
  EXPECT_EQ(outer.charged(0), 900u);
  EXPECT_EQ(inner.tightest_limit(0).left(), 100u);
  EXPECT_EQ(inner.tightest_limit(0).limit, 1000u);
  inner.discharge(0, 400);
  EXPECT_EQ(outer.charged(0), 500u);
  outer.discharge(0, 500);
  EXPECT_FALSE(inner.charge(0, 601));
  EXPECT_TRUE(inner.charge(0, 600));
  EXPECT_EQ(inner.tightest_limit(0).limit, 600u);
}

TEST_F(AccountWithinAnother, ListsChargesOfTheTightestAccount) {
  ASSERT_TRUE(inner.charge(0, 200));
  Account::ProcessCharge holders[2];
  ASSERT_EQ(inner.largest_charges(0, holders), 1u);
  EXPECT_EQ(holders[0].pid, ::getpid());
  EXPECT_TRUE(holders[0].is_visible);
  EXPECT_EQ(holders[0].bytes, 200u);
  ASSERT_TRUE(outer.charge(0, 700));
  ASSERT_EQ(inner.largest_charges(0, holders), 1u);
  EXPECT_EQ(holders[0].bytes, 900u) << "100 are left in the outer account, 400 in the inner";
  EXPECT_EQ(inner.largest_charges(1, holders), 0u) << "nothing is charged on this device";
  EXPECT_EQ(inner.largest_charges(kMaxDevices, holders), 0u);
}

TEST_F(AccountWithinAnother, CountsARefusalInTheAccountThatRefuses) {
  inner.note_refusal(0, 700, 700);
  EXPECT_EQ(inner.refused(0), 1u);
  EXPECT_EQ(outer.refused(0), 0u);
  inner.note_refusal(0, 1100, 1100);
  EXPECT_EQ(inner.refused(0), 2u);
  EXPECT_EQ(outer.refused(0), 1u);
}

// Accounts lock in the order of their files, whichever is the outer one. Accounts of one file are nested
// once.
TEST_F(AccountWithinAnother, OppositeNestingDoesNotDeadlock) {
  test::TemporaryFolder folder;
  const std::string a = (folder / "a").string(), b = (folder / "b").string();
  ASSERT_TRUE(Account::create_shared(a.c_str(), limit_of(1000)));
  ASSERT_TRUE(Account::create_shared(b.c_str(), limit_of(1000)));
  const auto work = [&](const std::string& inner_file, const std::string& outer_file) {
    Account first, second, again;
    if (!first.open_shared(inner_file.c_str()) || !second.open_shared(outer_file.c_str()) ||
        !again.open_shared(inner_file.c_str()))
      return 1;
    first.nest_in(second);
    first.nest_in(again);
    for (int round = 0; round < 20'000; ++round)
      if (first.charge(0, 400)) first.discharge(0, 400);
    return first.charged(0) <= 400 ? 0 : 1;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work(b, a));
  EXPECT_EQ(work(a, b), 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Two processes number the devices differently (CUDA_VISIBLE_DEVICES).
TEST(AccountOfDevices, MatchesDevicesByUuid) {
  test::TemporaryFolder folder;
  const std::string file = (folder / "a").string();
  Limits limits = limit_of(1000);
  limits.bytes[1] = 2000;
  ASSERT_TRUE(Account::create_shared(file.c_str(), limits));
  const std::uint8_t first[16] = {1}, second[16] = {2}, third[16] = {3};
  OpenAccount maker(file), other(file);
  maker.identify(0, first);
  maker.identify(1, second);
  other.identify(0, second);
  other.identify(1, first);
  other.identify(2, third);
  EXPECT_EQ(other.limit(0), 2000u);
  EXPECT_EQ(other.limit(1), 1000u);
  EXPECT_EQ(other.limit(2), kNoLimit);
  ASSERT_TRUE(other.charge(0, 1500));
  EXPECT_FALSE(other.charge(1, 1001));
  EXPECT_EQ(maker.charged(1), 1500u);
  EXPECT_EQ(maker.charged(0), 0u);
  EXPECT_EQ(other.charged_to_this_process(0), 1500u);
  EXPECT_EQ(maker.peak(1), 1500u);
  other.discharge(0, 500);
  EXPECT_EQ(maker.charged(1), 1000u);
  other.note_refusal(1, 5000, 5000);
  EXPECT_EQ(maker.refused(0), 1u);
}

// No process has set UUIDs yet: the first one keeps its number, the other device gets the next free number.
TEST(AccountOfDevices, SeparatesDevicesWithEqualNumbers) {
  test::TemporaryFolder folder;
  const std::string file = (folder / "a").string();
  Limits limits;
  for (std::uint64_t& limit : limits.bytes) limit = 1000;
  ASSERT_TRUE(Account::create_shared(file.c_str(), limits));
  const std::uint8_t first[16] = {1}, second[16] = {2};
  OpenAccount one(file), two(file), three(file);
  one.identify(0, first);
  two.identify(0, second);
  three.identify(1, second);
  EXPECT_TRUE(one.charge(0, 1000));
  EXPECT_EQ(three.charged(1), 0u) << "it is a different device";
  EXPECT_TRUE(two.charge(0, 600));
  EXPECT_EQ(three.charged(1), 600u);
  EXPECT_FALSE(three.would_fit(1, 401));
  EXPECT_TRUE(three.would_fit(1, 400));
}

}  // namespace
}  // namespace headroom::ledger
