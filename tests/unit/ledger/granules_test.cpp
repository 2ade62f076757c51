// Charges in whole granules, and small allocations that share granules.
#include "unit/ledger/ledger_fixture.h"

namespace headroom::ledger {
namespace {

using Kind = DeviceMemoryKind;
constexpr std::uint64_t kMiB = 1 << 20, kGranule = 2 * kMiB, kContext = 7;

class GranulesTest : public LedgerFixture {
 protected:
  void limit(std::uint64_t bytes) {
    LedgerFixture::limit(bytes);
    ledger_.set_granule(0, kGranule);
  }
  static Entry entry_at(std::uint64_t address, std::uint64_t bytes, Kind kind = Kind::device) {
    return {.address = address, .bytes = bytes, .context = kContext, .kind = kind};
  }
  bool allocate(std::uint64_t address, std::uint64_t bytes, Kind kind = Kind::device) {
    if (ledger_.shares_granule(0, kind, bytes))
      return ledger_.commit_in_granule(entry_at(address, bytes), false);
    if (!ledger_.reserve(0, kind, bytes)) return false;
    ledger_.commit(entry_at(address, bytes, kind));
    return true;
  }
};

TEST_F(GranulesTest, ChargesWholeGranulesForLargeAllocations) {
  limit(8 * kGranule);
  ASSERT_TRUE(allocate(1 * kGranule, kMiB + 1));
  EXPECT_EQ(charged(), kGranule);
  ASSERT_TRUE(allocate(2 * kGranule, kGranule + 1));
  EXPECT_EQ(charged(), 3 * kGranule);
  ASSERT_TRUE(allocate(9 * kGranule, kGranule));
  EXPECT_EQ(charged(), 4 * kGranule);
  EXPECT_EQ(ledger_.figures(0, Kind::device).live_bytes, kMiB + 1 + 2 * kGranule + 1);
  EXPECT_EQ(ledger_.rounding_bytes(0), 0u) << "it is charged, so it is not reported";
  EXPECT_FALSE(ledger_.reserve(0, Kind::device, 4 * kGranule + 1));
  EXPECT_TRUE(ledger_.reserve(0, Kind::device, 4 * kGranule));
  ledger_.cancel(0, Kind::device, 4 * kGranule);
  release(2 * kGranule);
  EXPECT_EQ(charged(), 2 * kGranule);
}

TEST_F(GranulesTest, ChargesWholeGranulesForLargeArrays) {
  limit(2 * kGranule);
  EXPECT_EQ(ledger_.charge_of(0, Kind::array, kMiB + 1), kGranule);
  EXPECT_EQ(ledger_.charge_of(0, Kind::array, kMiB), kMiB);
  EXPECT_EQ(ledger_.charge_of(0, Kind::managed, kMiB + 1), kMiB + 1) << "managed memory moves by pages";
  EXPECT_FALSE(ledger_.shares_granule(0, Kind::array, 1));
}

TEST_F(GranulesTest, SmallAllocationsShareGranulesByAddress) {
  limit(2 * kGranule);
  ASSERT_TRUE(allocate(5 * kGranule, 1));
  ASSERT_TRUE(allocate(5 * kGranule + 512, kMiB));
  EXPECT_EQ(charged(), kGranule);
  ASSERT_TRUE(allocate(6 * kGranule, 100));
  EXPECT_EQ(charged(), 2 * kGranule);
  EXPECT_FALSE(allocate(7 * kGranule, 100)) << "needs a third granule";
  EXPECT_TRUE(allocate(6 * kGranule + 512, 100));
  release(5 * kGranule);
  EXPECT_EQ(charged(), 2 * kGranule);
  release(5 * kGranule + 512);
  EXPECT_EQ(charged(), kGranule);
  release(6 * kGranule);
  release(6 * kGranule + 512);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(GranulesTest, DischargesAnUnneededPrepaidGranule) {
  limit(kGranule);
  ASSERT_TRUE(ledger_.account().charge(0, kGranule));
  ASSERT_TRUE(ledger_.commit_in_granule(entry_at(kGranule, 100), true));
  EXPECT_EQ(charged(), kGranule);
  EXPECT_EQ(ledger_.reserve_in_granule(0, kContext, kGranule - 511), 0u);
  const std::uint64_t held = ledger_.reserve_in_granule(0, kContext, kGranule - 512);
  EXPECT_NE(held, 0u);
  EXPECT_EQ(ledger_.reserve_in_granule(0, kContext, 1), 0u) << "these bytes are reserved";
  ledger_.cancel_in_granule(held, kGranule - 512);
  EXPECT_FALSE(ledger_.account().charge(0, kGranule));
  ASSERT_TRUE(ledger_.commit_in_granule(entry_at(kGranule + 512, 100), false));
  EXPECT_EQ(charged(), kGranule);
}

TEST_F(GranulesTest, OnlyExportedMemoryKeepsItsGranule) {
  limit(4 * kGranule);
  ASSERT_TRUE(allocate(kGranule, 100));
  ASSERT_TRUE(allocate(kGranule, 200));  // the release of the first was not seen
  ASSERT_TRUE(allocate(3 * kGranule, kMiB + 1));
  EXPECT_EQ(charged(), 2 * kGranule);
  EXPECT_EQ(drop_from_context(kContext), 2);
  EXPECT_EQ(charged(), 0u);
  for (const std::uint64_t bytes : {std::uint64_t{100}, kGranule}) {
    ASSERT_TRUE(allocate(kGranule * bytes, bytes));
    ledger_.mark_exported(kGranule * bytes, bytes);
    EXPECT_TRUE(release(kGranule * bytes));
  }
  EXPECT_EQ(charged(), 2 * kGranule);
  EXPECT_EQ(ledger_.figures(0, Kind::device).live_count, 0u);
}

TEST_F(GranulesTest, ChangesReservationsByWholeGranules) {
  limit(2 * kGranule);
  ASSERT_TRUE(ledger_.reserve(0, Kind::device, kMiB + 1));
  EXPECT_TRUE(ledger_.change_reservation(0, Kind::device, kMiB + 1, kMiB + 2));
  EXPECT_EQ(charged(), kGranule);
  EXPECT_TRUE(ledger_.change_reservation(0, Kind::device, kMiB + 2, kGranule + 1));
  EXPECT_EQ(charged(), 2 * kGranule);
  EXPECT_FALSE(ledger_.change_reservation(0, Kind::device, kGranule + 1, 2 * kGranule + 1));
  EXPECT_TRUE(ledger_.change_reservation(0, Kind::device, kGranule + 1, kMiB + 1));
  EXPECT_EQ(charged(), kGranule);
}

TEST_F(GranulesTest, APendingFreeKeepsItsGranuleUntilAWait) {
  limit(2 * kGranule);
  ASSERT_TRUE(allocate(kGranule, kMiB));
  ASSERT_TRUE(allocate(2 * kGranule, kGranule));
  EXPECT_EQ(charged(), 2 * kGranule);
  ASSERT_TRUE(release_stream_ordered(kGranule, 7));
  ASSERT_TRUE(release_stream_ordered(2 * kGranule, 7));
  EXPECT_EQ(ledger_.figures(0, Kind::device).live_count, 0u);
  EXPECT_EQ(charged(), 2 * kGranule);
  EXPECT_TRUE(ledger_.has_pending_frees());
  wait(8);
  EXPECT_EQ(charged(), 2 * kGranule) << "another context";
  wait(7);
  EXPECT_EQ(charged(), 0u);
  EXPECT_FALSE(ledger_.has_pending_frees());
}

TEST_F(GranulesTest, AReservationKeepsItsGranule) {
  limit(2 * kGranule);
  ASSERT_TRUE(allocate(kGranule, kMiB));
  const std::uint64_t held = ledger_.reserve_in_granule(0, kContext, kMiB);
  release(kGranule);
  EXPECT_EQ(charged(), kGranule) << "its charge covers the memory that the driver may allocate instead";
  ledger_.cancel_in_granule(held, kMiB);
  EXPECT_EQ(charged(), 0u);
  ledger_.cancel_in_granule(0, kMiB);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(GranulesTest, ReservesOnlyInGranulesOfTheContext) {
  limit(2 * kGranule);
  ASSERT_TRUE(allocate(kGranule, kMiB / 2));
  EXPECT_EQ(ledger_.reserve_in_granule(0, kContext + 1, kMiB), 0u);
  // A new context may have the handle of one that is being destroyed.
  const std::uint64_t number = ledger_.begin_destroy(kContext);
  EXPECT_EQ(ledger_.reserve_in_granule(0, kContext, kMiB), 0u);
  ledger_.undo_destroy(number, kContext);
  EXPECT_NE(ledger_.reserve_in_granule(0, kContext, kMiB), 0u);
}

TEST_F(GranulesTest, ReservesNothingInAGranuleOfPendingFrees) {
  limit(2 * kGranule);
  ASSERT_TRUE(allocate(kGranule, kMiB / 2));
  ASSERT_TRUE(allocate(kGranule + kMiB, kMiB / 2));
  ASSERT_TRUE(release_stream_ordered(kGranule, 7));
  const std::uint64_t held = ledger_.reserve_in_granule(0, kContext, kMiB);
  EXPECT_NE(held, 0u);
  ledger_.cancel_in_granule(held, kMiB);
  ASSERT_TRUE(release_stream_ordered(kGranule + kMiB, 7));
  EXPECT_EQ(ledger_.reserve_in_granule(0, kContext, kMiB), 0u);
  wait(7);
  EXPECT_EQ(charged(), 0u);
}

}  // namespace
}  // namespace headroom::ledger
