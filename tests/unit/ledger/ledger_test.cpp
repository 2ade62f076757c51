// What a process has of a device, by the rules of each kind of memory.
#include "ledger/ledger.h"

#include <thread>

#include "support/test_support.h"

namespace headroom::ledger {
namespace {

using Kind = DeviceMemoryKind;

class LedgerTest : public testing::Test {
 protected:
  void limit(std::uint64_t bytes) {
    Limits limits;
    limits.bytes[0] = bytes;
    ASSERT_TRUE(ledger_.account().open_private(limits));
  }
  bool allocate(std::uint64_t address, std::uint64_t bytes, Kind kind = Kind::device,
                std::uint64_t context = 7) {
    if (!ledger_.reserve(0, kind, bytes)) return false;
    Entry entry;
    entry.address = address;
    entry.bytes = bytes;
    entry.kind = kind;
    entry.context = context;
    ledger_.commit(entry);
    return true;
  }
  bool release(std::uint64_t address) {
    Entry entry;
    if (!ledger_.begin_release(Space::pointer, address, entry)) return false;
    ledger_.finish_release(entry);
    return true;
  }
  std::uint64_t charged() { return ledger_.account().charged(0); }
  Ledger ledger_;
};

TEST_F(LedgerTest, CountsWhatIsLiveAndWhatWasMost) {
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

TEST_F(LedgerTest, WhatTheDriverRoundsUpIsToldAndNotCharged) {
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

TEST_F(LedgerTest, ARefusalIsCountedAndTold) {
  limit(120);
  ASSERT_TRUE(allocate(0x1000, 100));
  EXPECT_FALSE(ledger_.reserve(0, Kind::managed, 21));
  EXPECT_EQ(ledger_.figures(0, Kind::managed).refused_count, 1u);
  EXPECT_EQ(ledger_.figures(0, Kind::managed).refused_bytes, 21u);
  const Refusal refusal = ledger_.last_refusal(0);
  EXPECT_EQ(Ledger::last_refusal_of_this_thread().bytes, refusal.bytes);
  // Another thread's refusal is the ledger's last, and not this thread's.
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

TEST_F(LedgerTest, WhatTheDriverRefusesIsNotCharged) {
  limit(100);
  ASSERT_TRUE(ledger_.reserve(0, Kind::device, 100));
  EXPECT_FALSE(ledger_.reserve(0, Kind::device, 1));
  ledger_.cancel(0, Kind::device, 100);
  EXPECT_TRUE(allocate(0x1000, 100));
}

TEST_F(LedgerTest, AReleaseThatFailedIsUndone) {
  limit(100);
  ASSERT_TRUE(allocate(0x1000, 100));
  Entry entry;
  ASSERT_TRUE(ledger_.begin_release(Space::pointer, 0x1000, entry));
  EXPECT_FALSE(ledger_.reserve(0, Kind::device, 1)) << "not free before the driver has freed it";
  ledger_.undo_release(entry);
  EXPECT_EQ(charged(), 100u);
  EXPECT_TRUE(release(0x1000));
  EXPECT_EQ(charged(), 0u);
}

TEST_F(LedgerTest, AnAddressThatIsGivenOutAgainReplacesWhatLayThere) {
  limit(100);
  ASSERT_TRUE(allocate(0x1000, 60));
  ASSERT_TRUE(allocate(0x1000, 40));
  EXPECT_EQ(charged(), 40u);
  EXPECT_EQ(ledger_.figures(0, Kind::device).live_count, 1u);
}

TEST_F(LedgerTest, AnAddressOfAnotherDeviceGivesBackWhatThatOneWasCharged) {
  Limits limits;
  limits.bytes[0] = limits.bytes[1] = 1000;
  ASSERT_TRUE(ledger_.account().open_private(limits));
  const auto allocate_on = [&](std::uint16_t device, std::uint64_t address, std::uint64_t bytes) {
    ASSERT_TRUE(ledger_.reserve(device, Kind::device, bytes));
    Entry entry;
    entry.address = address;
    entry.bytes = bytes;
    entry.device = device;
    ledger_.commit(entry);
  };
  allocate_on(1, 0x1000, 600);  // its release is not seen
  allocate_on(0, 0x2000, 600);
  allocate_on(0, 0x1000, 100);
  EXPECT_EQ(ledger_.account().charged(0), 700u);
  EXPECT_EQ(ledger_.account().charged(1), 0u);
}

TEST_F(LedgerTest, ImportedAndPinnedMemoryIsNotChargedToADeviceOfItsOwn) {
  limit(100);
  EXPECT_TRUE(allocate(0x1000, 1000, Kind::imported));
  EXPECT_TRUE(allocate(0x2000, 1000, Kind::pinned_host));
  EXPECT_EQ(charged(), 0u);
  ledger_.set_integrated(0, true);
  EXPECT_FALSE(allocate(0x3000, 1000, Kind::pinned_host)) << "there it is the same memory";
  EXPECT_TRUE(allocate(0x3000, 100, Kind::pinned_host));
  EXPECT_EQ(charged(), 100u);
}

TEST_F(LedgerTest, PhysicalMemoryLivesAsLongAsAHandleOrAMapping) {
  limit(100);
  ASSERT_TRUE(ledger_.reserve(0, Kind::physical, 100));
  ledger_.commit_physical(0xaa, 0, Kind::physical, 100);
  ledger_.map(0x10000, 60, 0xaa);
  ledger_.map(0x20000, 40, 0xaa);
  auto release = ledger_.begin_release_handle(0xaa);
  EXPECT_TRUE(release.is_known);
  EXPECT_FALSE(release.is_last);
  ledger_.finish_release_handle(release);
  EXPECT_EQ(charged(), 100u);
  // The driver uses the number again while the first memory is still mapped.
  ledger_.commit_physical(0xaa, 0, Kind::physical, 0);
  Entry mapping, freed;
  ASSERT_TRUE(ledger_.unmap_one(0x10000, 60, mapping, freed));
  EXPECT_EQ(freed.address, 0u);
  EXPECT_EQ(charged(), 100u);
  ASSERT_TRUE(ledger_.unmap_one(0x20000, 40, mapping, freed));
  EXPECT_NE(freed.address, 0u);
  EXPECT_EQ(freed.bytes, 100u);
  EXPECT_EQ(charged(), 0u);
  EXPECT_FALSE(ledger_.unmap_one(0x20000, 40, mapping, freed));
}

TEST_F(LedgerTest, OneUnmapMayEndSeveralMappings) {
  limit(kNoLimit);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(ledger_.reserve(0, Kind::physical, 10));
    ledger_.commit_physical(1 + i, 0, Kind::physical, 10);
    ledger_.map(0x1000 + i * 10, 10, 1 + i);
    ledger_.finish_release_handle(ledger_.begin_release_handle(1 + i));
  }
  Entry mapping, freed;
  int count = 0;
  while (ledger_.unmap_one(0x1000, 20, mapping, freed)) ++count;
  EXPECT_EQ(count, 2);
  EXPECT_EQ(charged(), 10u);
}

TEST_F(LedgerTest, AHandleThatIsAskedForByAddressHoldsTheMemory) {
  limit(100);
  ASSERT_TRUE(ledger_.reserve(0, Kind::physical, 100));
  ledger_.commit_physical(5, 0, Kind::physical, 100);
  ledger_.map(0x1000, 100, 5);
  ledger_.finish_release_handle(ledger_.begin_release_handle(5));
  ledger_.retain_handle(6, 0x1010);
  Entry mapping, freed;
  ASSERT_TRUE(ledger_.unmap_one(0x1000, 100, mapping, freed));
  EXPECT_EQ(charged(), 100u);
  const auto release = ledger_.begin_release_handle(6);
  EXPECT_TRUE(release.is_last);
  ledger_.finish_release_handle(release);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(LedgerTest, WhatADescriptorHoldsStaysCharged) {
  limit(100);
  ASSERT_TRUE(ledger_.reserve(0, Kind::physical, 100));
  ledger_.commit_physical(5, 0, Kind::physical, 100);
  ledger_.export_handle(5);
  EXPECT_TRUE(ledger_.reuse_handle(5));
  EXPECT_FALSE(ledger_.reuse_handle(6));
  for (int i = 0; i < 2; ++i) {
    const auto release = ledger_.begin_release_handle(5);
    EXPECT_TRUE(release.is_known && !release.is_last);
    ledger_.finish_release_handle(release);
  }
  EXPECT_EQ(charged(), 100u);
}

TEST_F(LedgerTest, AnArraysPartsHoldWhatIsMappedToThem) {
  limit(100);
  const auto make = [&](std::uint64_t handle, std::uint64_t bytes, std::uint64_t part) {
    ASSERT_TRUE(ledger_.reserve(0, Kind::physical, bytes));
    ledger_.commit_physical(handle, 0, Kind::physical, bytes);
    Entry freed;
    EXPECT_FALSE(ledger_.map_part(0xa, part, handle, freed));
    ledger_.finish_release_handle(ledger_.begin_release_handle(handle));
  };
  make(5, 10, 101);
  make(6, 20, 102);
  make(7, 30, 103);
  EXPECT_EQ(charged(), 60u);
  Entry freed;
  EXPECT_TRUE(ledger_.map_part(0xa, 101, 0, freed)) << "unmapped";
  EXPECT_EQ(charged(), 50u);
  ASSERT_TRUE(ledger_.reserve(0, Kind::physical, 5));
  ledger_.commit_physical(8, 0, Kind::physical, 5);
  EXPECT_TRUE(ledger_.map_part(0xa, 102, 8, freed)) << "other memory in its place";
  EXPECT_EQ(freed.bytes, 20u);
  ledger_.finish_release_handle(ledger_.begin_release_handle(8));
  EXPECT_EQ(charged(), 35u);
  std::size_t place = 0;
  EXPECT_FALSE(ledger_.unmap_next_part(0xb, place, freed));
  place = 0;
  int count = 0;
  while (ledger_.unmap_next_part(0xa, place, freed)) ++count;
  EXPECT_EQ(count, 2);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(LedgerTest, AHandleWhoseReleaseFailedIsThereAgain) {
  limit(100);
  ASSERT_TRUE(ledger_.reserve(0, Kind::physical, 100));
  ledger_.commit_physical(5, 0, Kind::physical, 100);
  ledger_.undo_release_handle(ledger_.begin_release_handle(5));
  EXPECT_EQ(charged(), 100u);
  ledger_.finish_release_handle(ledger_.begin_release_handle(5));
  EXPECT_EQ(charged(), 0u);
}

// What the account has room for the device may not have.
TEST_F(LedgerTest, WhatTheDriverRefusesIsNoPeak) {
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
  ledger_.commit_physical(5, 0, Kind::physical, 50);
  EXPECT_EQ(peak(), 150u);
  ASSERT_TRUE(ledger_.reserve_in_graph(3, 0, 20).granted);
  ledger_.commit_node(3, 0x5000, 0, 20);
  EXPECT_EQ(peak(), 170u);
  ASSERT_TRUE(ledger_.reserve_in_pool(0x99, 0, 30));
  Entry entry;
  entry.address = 0x2000;
  entry.bytes = 30;
  entry.kind = Kind::pool;
  entry.link = 0x99;
  ledger_.commit(entry);
  EXPECT_EQ(peak(), 200u);
  EXPECT_EQ(ledger_.account().peak(0), 200u);
}

TEST_F(LedgerTest, WhatOthersHoldStaysChargedWhenItIsReleased) {
  limit(100);
  ASSERT_TRUE(allocate(0x1000, 60, Kind::device));
  ledger_.keep_charged(0x1000, 60);
  EXPECT_TRUE(release(0x1000));
  EXPECT_EQ(charged(), 60u);
  EXPECT_EQ(ledger_.figures(0, Kind::device).live_count, 0u);
}

TEST_F(LedgerTest, OthersHoldAllThatIsMappedInWhatTheyWereGiven) {
  limit(100);
  constexpr std::uint64_t kPart = 0x10;
  for (const std::uint64_t number : {1, 2, 3, 4}) {
    ASSERT_TRUE(ledger_.reserve(0, Kind::physical, kPart));
    ledger_.commit_physical(number, 0, Kind::physical, kPart);
    ledger_.map(0x1000 + number * kPart, kPart, number);
    ledger_.finish_release_handle(ledger_.begin_release_handle(number));
  }
  ledger_.keep_charged(0x1000 + 2 * kPart, kPart + 1);  // the second, and of the third a byte
  Entry mapping, freed;
  while (ledger_.unmap_one(0x1000, 0x1000, mapping, freed)) {
  }
  EXPECT_EQ(charged(), 2 * kPart);
}

TEST_F(LedgerTest, WhatTheProgramHadBeforeIsNotCharged) {
  limit(100);
  ledger_.set_integrated(0, true);
  Entry registered;
  registered.address = 0x1000;
  registered.bytes = 900;
  registered.kind = Kind::pinned_host;
  ledger_.commit(registered, false);
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(ledger_.figures(0, Kind::pinned_host).live_bytes, 900u);
  EXPECT_TRUE(release(0x1000));
  EXPECT_EQ(charged(), 0u);
}

TEST_F(LedgerTest, AContextTakesItsMemoryAlong) {
  limit(kNoLimit);
  ASSERT_TRUE(allocate(0x1000, 10, Kind::device, 7));
  ASSERT_TRUE(allocate(0x2000, 20, Kind::managed, 7));
  ASSERT_TRUE(allocate(0x3000, 30, Kind::device, 8));
  Entry dropped;
  int count = 0;
  Ledger::Pass pass;
  while (ledger_.drop_from_context(7, pass, dropped)) ++count;
  EXPECT_EQ(count, 2);
  EXPECT_EQ(charged(), 30u);
  EXPECT_FALSE(ledger_.drop_from_context(0, pass, dropped));
}

TEST_F(LedgerTest, AChildAfterForkStartsWithNothing) {
  limit(100);
  ASSERT_TRUE(allocate(0x1000, 90));
  ledger_.reset_in_child();
  EXPECT_FALSE(release(0x1000));
  EXPECT_TRUE(allocate(0x1000, 100));
  EXPECT_FALSE(allocate(0x2000, 1));
}

TEST_F(LedgerTest, ManyAllocationsComeAndGo) {
  limit(kNoLimit);
  constexpr std::uint64_t kCount = 20'000;
  for (std::uint64_t i = 1; i <= kCount; ++i) ASSERT_TRUE(allocate(i * 512, i));
  EXPECT_EQ(charged(), kCount * (kCount + 1) / 2);
  for (std::uint64_t i = 1; i <= kCount; i += 2) ASSERT_TRUE(release(i * 512));
  for (std::uint64_t i = 2; i <= kCount; i += 2) ASSERT_TRUE(release(i * 512));
  EXPECT_EQ(charged(), 0u);
}

}  // namespace
}  // namespace headroom::ledger
