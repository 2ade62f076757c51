// A pool whose program has no memory left.
#include <gtest/gtest.h>

#include <new>
#include <optional>

#include "fake_machine.h"
#include "support/failing_new.h"

namespace headroom::pool {
namespace {

// Waits for what is in use until its deadline, and the `count`-th allocation on the way fails. False: there
// are not that many.
bool waits_in_vain(Pool& pool, int count) {
  const Lease held = pool.acquire("a");
  EXPECT_TRUE(held);
  std::optional<Refusal> refusal;
  headroom::test::fail_allocation(count);
  try {
    refusal = pool.acquire("a", {Nanoseconds{1'000'000}, 0}).refusal();
  } catch (const std::bad_alloc&) {
  }
  const bool has_failed = headroom::test::allocation_has_failed();
  headroom::test::fail_allocation(-1);
  EXPECT_EQ(refusal.has_value(), !has_failed);
  if (refusal) {
    EXPECT_EQ(*refusal, Refusal::deadline);
  }
  return has_failed;
}

// A waiter lives on its thread's stack: if the pool kept its address, the next session would be given to it.
TEST(PoolShortage, AWaiterThatFindsNoMemoryIsForgotten) {
  test::FakeMachine machine;
  Pool pool(machine.options());
  test::add(pool, machine, {"a"});
  int failures = 0;
  while (waits_in_vain(pool, failures)) {
    ++failures;
    ASSERT_TRUE(pool.acquire("a", {Nanoseconds{0}, 0})) << failures;
    ASSERT_LT(failures, 1000);
  }
  EXPECT_GE(failures, 2) << "a place in the line, and the words of the refusal";
  EXPECT_EQ(pool.metrics().loads, 1);
}

}  // namespace
}  // namespace headroom::pool
