// A pool in a program whose allocations fail.
#include <gtest/gtest.h>

#include <new>
#include <optional>

#include "fake_machine.h"
#include "support/failing_new.h"

namespace headroom::pool {
namespace {

// Waits for a leased session until the deadline, while the `count`-th allocation fails. Returns false if
// there are fewer allocations.
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

// A waiter lives on its thread's stack. If the pool kept its address, it would grant the next session to a
// dangling pointer.
TEST(PoolShortage, RemovesAWaiterWhoseAllocationFails) {
  test::FakeMachine machine;
  Pool pool(machine.options());
  test::add(pool, machine, {"a"});
  int failures = 0;
  while (waits_in_vain(pool, failures)) {
    ++failures;
    ASSERT_TRUE(pool.acquire("a", {Nanoseconds{0}, 0})) << failures;
    ASSERT_LT(failures, 1000);
  }
  EXPECT_GE(failures, 2) << "the list of waiters and the refusal's message both allocate";
  EXPECT_EQ(pool.metrics().loads, 1);
}

}  // namespace
}  // namespace headroom::pool
