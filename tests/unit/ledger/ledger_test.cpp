// Charges and figures of allocations, by kind of memory.
#include <thread>

#include "unit/ledger/ledger_fixture.h"

namespace headroom::ledger {
namespace {

class LedgerTest : public LedgerFixture {
 protected:
  bool allocate(std::uint64_t address, std::uint64_t bytes, Kind kind = Kind::device,
                std::uint64_t context = 7) {
    if (!ledger_.reserve(0, kind, bytes)) return false;
    ledger_.commit({.address = address, .bytes = bytes, .context = context, .kind = kind});
    return true;
  }
};

TEST_F(LedgerTest, CountsLiveBytesAndPeak) {
  limit(kNoLimit);
  ASSERT_TRUE(allocate(0x1000, 100));
  ASSERT_TRUE(allocate(0x2000, 50));
  EXPECT_TRUE(release(0x1000));
  EXPECT_FALSE(release(0x1000));
  const KindFigures figures = ledger_.figures(0, Kind::device);
  EXPECT_EQ(figures.live_bytes, 50u);
  EXPECT_EQ(figures.live_count, 1u);
  EXPECT_EQ(figures.peak_bytes, 150u);
  EXPECT_EQ(figures.allocations, 2u);
  EXPECT_EQ(figures.releases, 1u);
  EXPECT_EQ(charged(), 50u);
}

TEST_F(LedgerTest, ReportsRoundingWithoutChargingIt) {
  limit(kNoLimit);
  constexpr std::uint64_t kMiB = 1 << 20;
  ASSERT_TRUE(allocate(0x1000, kMiB + 1));
  ASSERT_TRUE(allocate(0x2000, kMiB));
  ASSERT_TRUE(allocate(0x3000, 4 * kMiB));
  ASSERT_TRUE(allocate(0x4000, 5 * kMiB - 1));
  EXPECT_EQ(ledger_.rounding_bytes(0), kMiB - 1 + kMiB + 1);
  EXPECT_EQ(charged(), 11 * kMiB);
  ASSERT_TRUE(release(0x1000));
  EXPECT_EQ(ledger_.rounding_bytes(0), kMiB + 1);
  EXPECT_EQ(rounding_of(Kind::physical, 1), 0u);
}

TEST_F(LedgerTest, CountsAndReportsRefusals) {
  limit(120);
  ASSERT_TRUE(allocate(0x1000, 100));
  EXPECT_FALSE(ledger_.reserve(0, Kind::managed, 21));
  EXPECT_EQ(ledger_.figures(0, Kind::managed).refused_count, 1u);
  EXPECT_EQ(ledger_.figures(0, Kind::managed).refused_bytes, 21u);
  const Refusal refusal = ledger_.last_refusal(0);
  EXPECT_EQ(Ledger::last_refusal_of_this_thread().bytes, refusal.bytes);
  // Another thread's refusal becomes the ledger's last refusal, but not this thread's.
  std::thread([&] {
    EXPECT_FALSE(allocate(0x9000, 77));
    EXPECT_EQ(Ledger::last_refusal_of_this_thread().bytes, 77u);
  }).join();
  EXPECT_EQ(ledger_.last_refusal(0).bytes, 77u);
  EXPECT_EQ(Ledger::last_refusal_of_this_thread().bytes, refusal.bytes);
  EXPECT_EQ(refusal.kind, Kind::managed);
  EXPECT_EQ(refusal.bytes, 21u);
  EXPECT_EQ(refusal.charged, 100u);
  EXPECT_EQ(refusal.limit, 120u);
}

TEST_F(LedgerTest, UndoesAFailedRelease) {
  limit(100);
  ASSERT_TRUE(allocate(0x1000, 100));
  const Entry entry = begin_release(0x1000);
  EXPECT_FALSE(ledger_.reserve(0, Kind::device, 1)) << "it stays charged until the driver has freed it";
  ledger_.undo_release(entry);
  EXPECT_EQ(charged(), 100u);
  EXPECT_TRUE(release(0x1000));
  EXPECT_EQ(charged(), 0u);
}

TEST_F(LedgerTest, AReusedAddressDischargesTheOtherDevice) {
  limit(1000, 1000);
  const auto allocate_on = [&](std::uint16_t device, std::uint64_t address, std::uint64_t bytes) {
    ASSERT_TRUE(ledger_.reserve(device, Kind::device, bytes));
    ledger_.commit({.address = address, .bytes = bytes, .device = device});
  };
  allocate_on(1, 0x1000, 600);  // its release is not seen
  allocate_on(0, 0x2000, 600);
  allocate_on(0, 0x1000, 100);
  EXPECT_EQ(ledger_.account().charged(0), 700u);
  EXPECT_EQ(ledger_.account().charged(1), 0u);
}

TEST_F(LedgerTest, ChargesPinnedMemoryOnIntegratedDevicesOnly) {
  limit(100);
  EXPECT_TRUE(allocate(0x1000, 1000, Kind::imported));
  EXPECT_TRUE(allocate(0x2000, 1000, Kind::pinned_host));
  EXPECT_EQ(charged(), 0u);
  ledger_.set_integrated(0, true);
  EXPECT_FALSE(allocate(0x3000, 1000, Kind::pinned_host)) << "an integrated device uses the same memory";
  EXPECT_TRUE(allocate(0x3000, 100, Kind::pinned_host));
  EXPECT_EQ(charged(), 100u);
}

// A request within the limit can still fail because the device is full.
TEST_F(LedgerTest, ARequestThatTheDriverRefusesDoesNotRaiseThePeak) {
  limit(kNoLimit);
  const auto peak = [&] { return ledger_.account().peak_of_this_process(0); };
  ASSERT_TRUE(allocate(0x1000, 100));
  EXPECT_EQ(peak(), 100u);
  ASSERT_TRUE(ledger_.reserve(0, Kind::device, 5000));
  ledger_.cancel(0, Kind::device, 5000);
  ASSERT_TRUE(ledger_.reserve_in_pool(0x99, 0, 5000));
  ledger_.cancel_in_pool(0x99, 5000);
  const auto growth = ledger_.reserve_in_graph(3, 0, 5000);
  ASSERT_TRUE(growth.granted);
  ledger_.cancel_in_graph(3, 0, 5000, growth);
  EXPECT_EQ(peak(), 100u);
  EXPECT_EQ(ledger_.account().peak(0), 100u);

  ASSERT_TRUE(ledger_.reserve(0, Kind::physical, 50));
  Entry freed;
  ledger_.commit_physical(5, 0, Kind::physical, 50, freed);
  EXPECT_EQ(peak(), 150u);
  ASSERT_TRUE(ledger_.reserve_in_graph(3, 0, 20).granted);
  ledger_.commit_node(3, 0x5000, 0, 20);
  EXPECT_EQ(peak(), 170u);
  ASSERT_TRUE(ledger_.reserve_in_pool(0x99, 0, 30));
  ledger_.commit({.address = 0x2000, .bytes = 30, .owner = 0x99, .kind = Kind::pool});
  EXPECT_EQ(peak(), 200u);
  EXPECT_EQ(ledger_.account().peak(0), 200u);
}

TEST_F(LedgerTest, DoesNotChargeRegisteredHostMemory) {
  limit(100);
  ledger_.set_integrated(0, true);
  ledger_.commit({.address = 0x1000, .bytes = 900, .kind = Kind::pinned_host}, false);
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(ledger_.figures(0, Kind::pinned_host).live_bytes, 900u);
  EXPECT_TRUE(release(0x1000));
  EXPECT_EQ(charged(), 0u);
}

TEST_F(LedgerTest, DestroyingAContextFreesItsMemory) {
  limit(kNoLimit);
  ASSERT_TRUE(allocate(0x1000, 10, Kind::device, 7));
  ASSERT_TRUE(allocate(0x2000, 20, Kind::managed, 7));
  ASSERT_TRUE(allocate(0x3000, 30, Kind::device, 8));
  EXPECT_EQ(drop_from_context(7), 2);
  EXPECT_EQ(charged(), 30u);
  EXPECT_EQ(drop_from_context(0), 0);
}

TEST_F(LedgerTest, AForkedChildStartsEmpty) {
  limit(100);
  ASSERT_TRUE(allocate(0x1000, 90));
  ledger_.reset_in_child();
  EXPECT_FALSE(release(0x1000));
  EXPECT_TRUE(allocate(0x1000, 100));
  EXPECT_FALSE(allocate(0x2000, 1));
}

// The driver may reuse a context's handle before the ledger has recorded its destruction.
TEST_F(LedgerTest, SeparatesContextsThatReuseAHandle) {
  limit(100);
  ASSERT_TRUE(allocate(0x1000, 60, Kind::device, 7));
  const std::uint64_t number = ledger_.begin_destroy(7);
  ASSERT_TRUE(allocate(0x2000, 40, Kind::device, 7));
  Entry dropped;
  Ledger::Pass pass;
  EXPECT_TRUE(ledger_.drop_from_context(number, pass, dropped));
  EXPECT_EQ(dropped.address, 0x1000u);
  EXPECT_FALSE(ledger_.drop_from_context(number, pass, dropped));
  EXPECT_EQ(charged(), 40u);
  const std::uint64_t again = ledger_.begin_destroy(7);
  EXPECT_NE(again, number);
  ledger_.undo_destroy(again, 7);
  pass = {};
  EXPECT_TRUE(ledger_.drop_from_context(7, pass, dropped))
      << "its first destruction failed; this is the second";
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(ledger_.begin_destroy(0), 0u);
}

// A free is in progress while the context is destroyed, and the free fails.
TEST_F(LedgerTest, AFailedFreeReturnsToItsContextOrEndsWithIt) {
  limit(100);
  ASSERT_TRUE(allocate(0x1000, 10, Kind::device, 7));
  ASSERT_TRUE(allocate(0x2000, 20, Kind::device, 7));
  ASSERT_TRUE(allocate(0x3000, 30, Kind::device, 7));
  const std::uint64_t kept = ledger_.begin_destroy(7);
  const Entry first = begin_release(0x1000);
  ledger_.undo_destroy(kept, 7);
  ledger_.undo_release(first);  // the destruction of the context failed
  const std::uint64_t gone = ledger_.begin_destroy(7);
  const Entry second = begin_release(0x2000), third = begin_release(0x3000);
  ledger_.undo_release(second);  // the context is being destroyed
  EXPECT_EQ(charged(), 60u);
  drop_from_context(gone);
  EXPECT_EQ(charged(), 30u);
  ledger_.undo_release(third);  // the context is gone
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(ledger_.figures(0, Kind::device).live_count, 0u);
}

TEST_F(LedgerTest, WithoutALimitAStreamOrderedFreeEndsTheCharge) {
  limit(kNoLimit);
  ASSERT_TRUE(allocate(0x1000, 60));
  EXPECT_TRUE(release_stream_ordered(0x1000, 0));
  EXPECT_EQ(charged(), 0u);
  EXPECT_FALSE(ledger_.has_pending_frees());
}

}  // namespace
}  // namespace headroom::ledger
