// Charges for pools, live and destroyed.
#include "unit/ledger/ledger_fixture.h"

namespace headroom::ledger {
namespace {

class LedgerPools : public LedgerFixture {
 protected:
  static constexpr std::uint64_t kPool = 0x99;
  void SetUp() override { limit(100); }
  bool allocate(std::uint64_t address, std::uint64_t bytes, std::uint64_t pool = kPool,
                std::uint64_t context = 0) {
    if (!ledger_.reserve_in_pool(pool, 0, bytes)) return false;
    ledger_.commit(
        {.address = address, .bytes = bytes, .context = context, .owner = pool, .kind = Kind::pool});
    return true;
  }
};

TEST_F(LedgerPools, ChargesExportedPoolMemoryInAddition) {
  ASSERT_TRUE(allocate(0x1000, 30));
  Entry part, again;
  EXPECT_TRUE(ledger_.begin_export(0x1000, part));
  EXPECT_EQ(charged(), 60u);
  EXPECT_TRUE(ledger_.begin_export(0x1000, again));
  EXPECT_EQ(again.address, 0u) << "charged already";
  ledger_.undo_export(again);
  ledger_.undo_export(part);
  EXPECT_EQ(charged(), 30u);
  EXPECT_TRUE(ledger_.begin_export(0x1000, part));
  ledger_.finish_export(part);
  EXPECT_TRUE(release(0x1000));
  ledger_.settle_pool(kPool, 0, false);
  EXPECT_EQ(charged(), 30u) << "nothing reports when the other process releases it";
  ASSERT_TRUE(allocate(0x2000, 40));
  EXPECT_FALSE(ledger_.begin_export(0x2000, part)) << "does not fit";
  EXPECT_EQ(part.charged, 40u);
  EXPECT_EQ(charged(), 70u);
  EXPECT_TRUE(ledger_.begin_export(0x9000, part)) << "unknown memory";
  EXPECT_EQ(part.address, 0u);
}

TEST_F(LedgerPools, ChargesAPoolForTheMemoryThatItKeeps) {
  ASSERT_TRUE(allocate(0x1000, 60));
  ASSERT_TRUE(allocate(0x2000, 40));
  EXPECT_FALSE(allocate(0x3000, 1));
  EXPECT_TRUE(release(0x1000));
  EXPECT_EQ(charged(), 100u) << "the pool may still keep it";
  EXPECT_FALSE(ledger_.reserve(0, Kind::device, 60));
  EXPECT_TRUE(allocate(0x1000, 60)) << "the pool reuses it";
  EXPECT_TRUE(release(0x1000));
  std::size_t place = 0;
  EXPECT_EQ(ledger_.pool_to_settle(0, place), kPool);
  ledger_.settle_pool(kPool, 50, true);
  EXPECT_EQ(charged(), 50u);
  ledger_.settle_pool(kPool, 0, true);
  EXPECT_EQ(charged(), 40u) << "memory in use stays charged";
  ledger_.destroy_pool(kPool);
  EXPECT_EQ(charged(), 40u);
  EXPECT_FALSE(ledger_.pool_to_settle(0, place = 0)) << "the driver has no figure of a destroyed pool";
  wait(0);
  EXPECT_EQ(charged(), 40u) << "it has a live allocation";
  EXPECT_TRUE(release(0x2000));
  EXPECT_EQ(charged(), 40u) << "the free may still be pending";
  const std::uint64_t begun = ledger_.begin_wait(0);
  ASSERT_TRUE(allocate(0x3000, 20)) << "another pool with the same handle";
  ledger_.finish_wait(0, begun);
  EXPECT_EQ(charged(), 50u) << "charged in the step that the first pool grew by";
  EXPECT_FALSE(ledger_.has_pending_frees());
}

// The context that frees counts, not the one that allocated: memory is in use until the freeing stream
// reaches that.
TEST_F(LedgerPools, ADestroyedPoolEndsAfterAWaitForTheFreeingContext) {
  ASSERT_TRUE(allocate(0x1000, 60, kPool, 8));
  ASSERT_TRUE(ledger_.is_pool(kPool));
  ledger_.destroy_pool(kPool);
  EXPECT_FALSE(ledger_.is_pool(kPool));
  const Entry entry = begin_release(0x1000);
  EXPECT_FALSE(ledger_.is_pool(entry.owner)) << "the driver must not be asked about it";
  ledger_.finish_release(entry, true, 7);
  wait(8);
  EXPECT_EQ(charged(), 60u);
  wait(7);
  EXPECT_EQ(charged(), 0u);
}

// The driver has finished a free by pointer, but not a stream-ordered free. Its figure covers only the
// pending memory, which must not be reused.
TEST_F(LedgerPools, SeparatesAFreeInProgressFromPendingFrees) {
  ledger_.assume_pool_step(1);
  ASSERT_TRUE(allocate(0x1000, 40));
  ASSERT_TRUE(allocate(0x2000, 40));
  EXPECT_TRUE(ledger_.settle_pool(kPool, 80, true).fits);
  ASSERT_TRUE(release_stream_ordered(0x2000, 7));
  const Entry by_pointer = begin_release(0x1000);
  EXPECT_TRUE(ledger_.settle_pool(kPool, 40, true).fits);
  ledger_.finish_release(by_pointer);
  EXPECT_EQ(charged(), 40u);
  EXPECT_FALSE(ledger_.try_reserve_in_pool(kPool, 0, 61).is_granted)
      << "the driver may allocate as much again";
  EXPECT_TRUE(ledger_.settle_pool(kPool, 0, true).fits);
  EXPECT_TRUE(ledger_.try_reserve_in_pool(kPool, 0, 100).is_granted);
}

// No wait completes a free in an unknown context, or frees in two contexts. Any wait completes one in a
// context that was destroyed since, because no later wait can be for that.
TEST_F(LedgerPools, ADestroyedPoolWaitsForTheContextsOfItsFrees) {
  struct Case {
    std::vector<std::uint64_t> contexts, destroyed, waits;
    std::uint64_t charged;
  };
  const Case cases[] = {{{7}, {7}, {8}, 0}, {{0}, {}, {7}, 30}, {{7, 8}, {}, {7, 8}, 60}};
  for (const Case& one : cases) {
    ledger_.reset_in_child();
    for (const std::uint64_t context : one.contexts) {
      ASSERT_TRUE(allocate(0x1000 * (1 + context), 30));
      ASSERT_TRUE(release_stream_ordered(0x1000 * (1 + context), context));
    }
    ledger_.destroy_pool(kPool);
    for (const std::uint64_t context : one.destroyed) EXPECT_EQ(drop_from_context(context), 0);
    for (const std::uint64_t context : one.waits) wait(context);
    EXPECT_EQ(charged(), one.charged);
  }
}

// cuMemFree in one thread, cuMemPoolDestroy in another.
TEST_F(LedgerPools, AFreeDuringThePoolsDestructionEndsTheCharge) {
  ASSERT_TRUE(allocate(0x1000, 60));
  const Entry freed = begin_release(0x1000);
  ledger_.destroy_pool(kPool);
  wait(0);
  EXPECT_EQ(charged(), 60u) << "the driver has not freed it yet";
  ledger_.finish_release(freed);
  EXPECT_EQ(charged(), 60u);
  wait(0);
  EXPECT_EQ(charged(), 0u);
}

// Two threads wait. Memory freed after the first wait began is completed by the second.
TEST_F(LedgerPools, AWaitCompletesOnlyEarlierFrees) {
  const auto destroy_pool_of = [&](std::uint64_t pool, std::uint64_t bytes) {
    EXPECT_TRUE(allocate(0x1000 * pool, bytes, pool));
    EXPECT_TRUE(release(0x1000 * pool));
    ledger_.destroy_pool(pool);
  };
  destroy_pool_of(1, 20);
  const std::uint64_t first = ledger_.begin_wait(0);
  destroy_pool_of(2, 30);
  const std::uint64_t second = ledger_.begin_wait(0);
  ledger_.finish_wait(0, first);
  EXPECT_EQ(charged(), 30u);
  ledger_.finish_wait(0, second);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(LedgerPools, AFailedFreeReturnsToItsPool) {
  ledger_.assume_pool_step(1);
  ASSERT_TRUE(allocate(0x1000, 60));
  const Entry freed = begin_release(0x1000);
  EXPECT_FALSE(ledger_.try_reserve_in_pool(kPool, 0, 41).is_granted) << "the driver has not freed it yet";
  ledger_.undo_release(freed);
  EXPECT_TRUE(ledger_.settle_pool(kPool, 0, true).fits);
  EXPECT_EQ(charged(), 60u);
  EXPECT_FALSE(ledger_.try_reserve_in_pool(kPool, 0, 41).is_granted);
  ASSERT_TRUE(release(0x1000));
  EXPECT_TRUE(ledger_.try_reserve_in_pool(kPool, 0, 100).is_granted) << "now it is freed";
}

TEST_F(LedgerPools, ChargesAPoolInTheStepsOfItsGrowth) {
  ASSERT_TRUE(ledger_.reserve_in_pool(kPool, 0, 3));
  EXPECT_EQ(charged(), 3u) << "the driver's step is unknown";
  EXPECT_TRUE(ledger_.settle_pool(kPool, 32, true).fits);
  EXPECT_EQ(charged(), 32u);
  ASSERT_TRUE(ledger_.reserve_in_pool(kPool, 0, 29));
  EXPECT_EQ(charged(), 32u);
  ASSERT_TRUE(ledger_.reserve_in_pool(kPool, 0, 1));
  EXPECT_EQ(charged(), 64u) << "the next step, charged in advance";
  EXPECT_FALSE(ledger_.try_reserve_in_pool(0x98, 0, 33).is_granted) << "two steps";
  EXPECT_EQ(ledger_.figures(0, Kind::pool).refused_count, 0u) << "the caller may free memory and try again";
  EXPECT_FALSE(ledger_.reserve_in_pool(0x98, 0, 33));
  EXPECT_EQ(ledger_.figures(0, Kind::pool).refused_count, 1u);
  EXPECT_EQ(charged(), 64u);
  EXPECT_TRUE(ledger_.reserve_in_pool(0x98, 0, 32));
}

TEST_F(LedgerPools, AFailedRequestKeepsTheChargeForTheDriversFigure) {
  ledger_.assume_pool_step(1);
  ASSERT_TRUE(allocate(0x1000, 60));
  EXPECT_TRUE(ledger_.settle_pool(kPool, 60, true).fits);
  ASSERT_TRUE(release(0x1000));
  ASSERT_TRUE(ledger_.reserve_in_pool(kPool, 0, 80));
  EXPECT_EQ(charged(), 80u);
  ledger_.cancel_in_pool(kPool, 80);
  EXPECT_EQ(charged(), 60u);
}

TEST_F(LedgerPools, ReportsAPoolBeyondTheLimit) {
  ASSERT_TRUE(ledger_.reserve_in_pool(kPool, 0, 90));
  EXPECT_FALSE(ledger_.settle_pool(kPool, 128, true).fits);
  EXPECT_EQ(charged(), 90u);
  EXPECT_FALSE(ledger_.settle_pool(kPool, 128, false).fits);
  EXPECT_EQ(charged(), 128u) << "it is allocated";
  ledger_.destroy_pool(kPool);
  EXPECT_EQ(charged(), 128u) << "until all of it is freed";
}

// Half of each step is in use, so the pool returns none to the device.
TEST_F(LedgerPools, AWaitMakesALivePoolsFreesReusable) {
  ledger_.assume_pool_step(50);
  for (const std::uint64_t address : {1, 2, 3, 4}) ASSERT_TRUE(allocate(0x1000 * address, 25));
  ledger_.settle_pool(kPool, 100, true);
  ASSERT_TRUE(release_stream_ordered(0x1000, 8));
  ASSERT_TRUE(release_stream_ordered(0x3000, 8));
  ledger_.settle_pool(kPool, 100, true);
  EXPECT_FALSE(allocate(0x5000, 25)) << "the free may be pending";
  wait(9);
  EXPECT_FALSE(allocate(0x5000, 25)) << "another context";
  const std::uint64_t begun = ledger_.begin_wait(8);
  ASSERT_TRUE(release_stream_ordered(0x2000, 8));
  ledger_.finish_wait(8, begun);
  EXPECT_TRUE(allocate(0x5000, 50));
  EXPECT_FALSE(allocate(0x6000, 25)) << "freed after the wait began";
  const std::uint64_t failed = ledger_.begin_wait(8);
  ledger_.cancel_wait(failed);
  ledger_.finish_wait(8, failed);
  EXPECT_FALSE(allocate(0x6000, 25)) << "a wait that failed";
  wait(8);
  EXPECT_TRUE(allocate(0x6000, 25));
  EXPECT_EQ(charged(), 100u);
}

// The driver frees the memory in stream order, so the pool still has it.
TEST_F(LedgerPools, DoesNotReuseMemoryOfARefusedRequest) {
  ledger_.assume_pool_step(1);
  ASSERT_TRUE(allocate(0x1000, 60));
  ASSERT_TRUE(ledger_.reserve_in_pool(kPool, 0, 30));
  EXPECT_FALSE(ledger_.settle_pool(kPool, 120, true).fits);
  ledger_.cancel_allocated_in_pool(kPool, 30, 8);
  EXPECT_FALSE(ledger_.settle_pool(kPool, 120, false).fits);
  EXPECT_EQ(charged(), 120u);
  EXPECT_FALSE(allocate(0x2000, 30));
  wait(8);
  EXPECT_FALSE(allocate(0x2000, 30)) << "it is freed, but the pool still exceeds the limit";
  ledger_.settle_pool(kPool, 60, false);
  EXPECT_TRUE(allocate(0x2000, 30));
}

TEST_F(LedgerPools, SeparatesPoolsThatReuseAHandle) {
  ledger_.adopt_pool(kPool, 0);
  ledger_.adopt_pool(kPool, 3);
  unsigned device = 9;
  ASSERT_TRUE(ledger_.device_of_pool(kPool, device));
  EXPECT_EQ(device, 0u) << "a known pool keeps its device";
  ASSERT_TRUE(allocate(0x1000, 60));
  ledger_.adopt_pool(kPool, 3, true);
  ASSERT_TRUE(ledger_.device_of_pool(kPool, device));
  EXPECT_EQ(device, 3u);
  EXPECT_EQ(charged(), 60u);
}

}  // namespace
}  // namespace headroom::ledger
