// Charges in whole granules, and small allocations that share granules.
#include "ledger/ledger.h"
#include "support/test_support.h"

namespace headroom::ledger {
namespace {

using Kind = DeviceMemoryKind;
constexpr std::uint64_t kMiB = 1 << 20, kGranule = 2 * kMiB, kContext = 7;

class GranulesTest : public testing::Test {
 protected:
  void limit(std::uint64_t bytes) {
    Limits limits;
    limits.bytes[0] = bytes;
    ASSERT_TRUE(ledger_.account().open_private(limits));
    ledger_.set_granule(0, kGranule);
  }
  static Entry entry_at(std::uint64_t address, std::uint64_t bytes, Kind kind = Kind::device) {
    Entry entry;
    entry.address = address;
    entry.bytes = bytes;
    entry.kind = kind;
    entry.context = kContext;
    return entry;
  }
  bool allocate(std::uint64_t address, std::uint64_t bytes, Kind kind = Kind::device) {
    if (ledger_.shares_granule(0, kind, bytes))
      return ledger_.commit_in_granule(entry_at(address, bytes), false);
    if (!ledger_.reserve(0, kind, bytes)) return false;
    ledger_.commit(entry_at(address, bytes, kind));
    return true;
  }
  void release(std::uint64_t address) {
    Entry entry;
    ASSERT_TRUE(ledger_.begin_release(EntryType::pointer, address, entry));
    ledger_.finish_release(entry);
  }
  std::uint64_t charged() { return ledger_.account().charged(0); }
  Ledger ledger_;
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

TEST_F(GranulesTest, CountsAReusedAddressOnce) {
  limit(4 * kGranule);
  ASSERT_TRUE(allocate(kGranule, 100));
  ASSERT_TRUE(allocate(kGranule, 200));  // the release of the first was not seen
  EXPECT_EQ(charged(), kGranule);
  release(kGranule);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(GranulesTest, ExportedMemoryKeepsItsGranule) {
  limit(4 * kGranule);
  ASSERT_TRUE(allocate(kGranule, 100));
  ledger_.mark_exported(kGranule, 1);
  release(kGranule);
  EXPECT_EQ(charged(), kGranule);
}

TEST_F(GranulesTest, DestroyingAContextFreesItsGranules) {
  limit(4 * kGranule);
  ASSERT_TRUE(allocate(kGranule, 100));
  ASSERT_TRUE(allocate(3 * kGranule, kMiB + 1));
  Ledger::Pass pass;
  Entry dropped;
  int count = 0;
  while (ledger_.drop_from_context(7, pass, dropped)) ++count;
  EXPECT_EQ(count, 2);
  EXPECT_EQ(charged(), 0u);
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

TEST_F(GranulesTest, RejectsAGranuleThatIsNotAPowerOfTwo) {
  limit(kGranule);
  ledger_.set_granule(0, 3 * kMiB);
  EXPECT_EQ(ledger_.granule(0), kGranule);
}

TEST_F(GranulesTest, APendingFreeKeepsItsGranuleUntilAWait) {
  limit(2 * kGranule);
  ASSERT_TRUE(allocate(kGranule, kMiB));
  ASSERT_TRUE(allocate(2 * kGranule, kGranule));
  EXPECT_EQ(charged(), 2 * kGranule);
  for (const std::uint64_t address : {kGranule, 2 * kGranule}) {
    Entry entry;
    ASSERT_TRUE(ledger_.begin_release(EntryType::pointer, address, entry));
    ledger_.finish_release(entry, true, 7);
  }
  EXPECT_EQ(ledger_.figures(0, Kind::device).live_count, 0u);
  EXPECT_EQ(charged(), 2 * kGranule);
  EXPECT_TRUE(ledger_.has_pending_frees());
  ledger_.finish_wait(8, ledger_.begin_wait(8));
  EXPECT_EQ(charged(), 2 * kGranule) << "another context";
  ledger_.finish_wait(7, ledger_.begin_wait(7));
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
  const std::uint64_t number = ledger_.begin_destroy(Ledger::Owner::context, kContext);
  EXPECT_EQ(ledger_.reserve_in_granule(0, kContext, kMiB), 0u);
  ledger_.undo_destroy(Ledger::Owner::context, number, kContext);
  EXPECT_NE(ledger_.reserve_in_granule(0, kContext, kMiB), 0u);
}

TEST_F(GranulesTest, ReservesNothingInAGranuleOfPendingFrees) {
  limit(2 * kGranule);
  ASSERT_TRUE(allocate(kGranule, kMiB / 2));
  ASSERT_TRUE(allocate(kGranule + kMiB, kMiB / 2));
  const auto free_stream_ordered = [&](std::uint64_t address) {
    Entry entry;
    ASSERT_TRUE(ledger_.begin_release(EntryType::pointer, address, entry));
    ledger_.finish_release(entry, true, 7);
  };
  free_stream_ordered(kGranule);
  const std::uint64_t held = ledger_.reserve_in_granule(0, kContext, kMiB);
  EXPECT_NE(held, 0u);
  ledger_.cancel_in_granule(held, kMiB);
  free_stream_ordered(kGranule + kMiB);
  EXPECT_EQ(ledger_.reserve_in_granule(0, kContext, kMiB), 0u);
  ledger_.finish_wait(7, ledger_.begin_wait(7));
  EXPECT_EQ(charged(), 0u);
}

}  // namespace
}  // namespace headroom::ledger
