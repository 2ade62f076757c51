// Physical memory: charged for as long as a handle, a mapping or a part of an array is left of it, whatever
// threads do meanwhile.
#include "ledger/ledger.h"
#include "support/test_support.h"

namespace headroom::ledger {
namespace {

using Kind = DeviceMemoryKind;

class MemoryByHandle : public testing::Test {
 protected:
  static constexpr std::uint64_t kContext = 7, kLimit = 100;
  void SetUp() override {
    Limits limits;
    limits.bytes[0] = kLimit;
    ASSERT_TRUE(ledger_.account().open_private(limits));
  }
  // What each of the driver's calls does. Each tells how many bytes it freed.
  std::uint64_t create(std::uint64_t handle, std::uint64_t bytes, Kind kind = Kind::physical) {
    Entry freed;
    EXPECT_TRUE(ledger_.reserve(0, kind, bytes));
    ledger_.commit_physical(handle, 0, kind, bytes, freed);
    return freed.bytes;
  }
  std::uint64_t release(std::uint64_t handle) {
    Entry freed;
    ledger_.finish_release_handle(ledger_.begin_release_handle(handle), freed);
    return freed.bytes;
  }
  std::uint64_t map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle) {
    return map_held(address, bytes, ledger_.retain_physical(handle));
  }
  std::uint64_t map_held(std::uint64_t address, std::uint64_t bytes, std::uint64_t physical) {
    Entry replaced, freed;
    ledger_.map(address, bytes, physical, replaced, freed);
    return freed.bytes;
  }
  // Of all mappings in the range; -1: there is none.
  std::int64_t unmap(std::uint64_t address, std::uint64_t bytes) {
    return unmap_until(address, bytes, ledger_.last_mapping());
  }
  std::int64_t unmap_until(std::uint64_t address, std::uint64_t bytes, std::uint64_t last) {
    std::int64_t all = 0;
    int count = 0;
    for (Entry mapping, freed; ledger_.unmap_one(address, bytes, last, mapping, freed); ++count)
      all += static_cast<std::int64_t>(freed.bytes);
    return count > 0 ? all : -1;
  }
  std::uint64_t map_part(std::uint64_t array, std::uint64_t part, std::uint64_t handle) {
    Entry freed;
    ledger_.map_part(array, part, ledger_.retain_physical(handle), false, 0, freed);
    return freed.bytes;
  }
  std::uint64_t unmap_part_in_order(std::uint64_t part, std::uint64_t context) {
    Entry freed;
    ledger_.map_part(0xa, part, 0, true, context, freed);
    return freed.bytes;
  }
  void wait(std::uint64_t context) { ledger_.finish_wait(context, ledger_.begin_wait(context)); }
  std::uint64_t charged() { return ledger_.account().charged(0); }
  std::uint64_t live() { return ledger_.figures(0, Kind::physical).live_bytes; }
  Ledger ledger_;
};

TEST_F(MemoryByHandle, LivesAsLongAsAHandleOrAMapping) {
  create(0xaa, 100);
  map(0x10000, 60, 0xaa);
  map(0x20000, 40, 0xaa);
  EXPECT_EQ(release(0xaa), 0u);
  EXPECT_EQ(charged(), 100u);
  // The driver uses the number again while the first memory is still mapped.
  create(0xaa, 0);
  EXPECT_EQ(unmap(0x10000, 60), 0);
  EXPECT_EQ(charged(), 100u);
  EXPECT_EQ(unmap(0x20000, 40), 100);
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(unmap(0x20000, 40), -1);
}

TEST_F(MemoryByHandle, OneUnmapMayEndSeveralMappings) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    create(1 + i, 10);
    map(0x1000 + i * 10, 10, 1 + i);
    release(1 + i);
  }
  EXPECT_EQ(unmap(0x1000, 20), 20);
  EXPECT_EQ(charged(), 10u);
}

TEST_F(MemoryByHandle, AHandleThatIsAskedForByAddressHoldsTheMemory) {
  create(5, 100);
  map(0x1000, 100, 5);
  release(5);
  Entry freed;
  ledger_.retain_handle(6, ledger_.retain_mapped_physical(0x1010), freed);
  EXPECT_EQ(unmap(0x1000, 100), 0);
  EXPECT_EQ(charged(), 100u);
  EXPECT_EQ(release(6), 100u);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, AHandleThatIsAskedForAgainIsReleasedAsOften) {
  create(5, 100);
  map(0x1000, 100, 5);
  Entry freed;
  ledger_.retain_handle(5, ledger_.retain_mapped_physical(0x1000), freed);
  unmap(0x1000, 100);
  const auto first = ledger_.begin_release_handle(5), second = ledger_.begin_release_handle(5);
  ledger_.finish_release_handle(second, freed);
  EXPECT_EQ(charged(), 100u) << "the driver has not come to the other release";
  ledger_.finish_release_handle(first, freed);
  EXPECT_EQ(freed.bytes, 100u);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, WhatADescriptorHoldsStaysCharged) {
  create(5, 60);
  EXPECT_FALSE(ledger_.reuse_handle(5)) << "who could import it?";
  const std::uint64_t physical = ledger_.retain_physical(5);
  ledger_.export_physical(physical);
  Entry freed;
  ledger_.release_physical(physical, freed);
  EXPECT_TRUE(ledger_.reuse_handle(5));
  EXPECT_FALSE(ledger_.reuse_handle(6));
  EXPECT_EQ(release(5) + release(5), 0u);
  EXPECT_EQ(charged(), 60u);
  EXPECT_FALSE(ledger_.reuse_handle(5));
  create(6, 0, Kind::imported);
  EXPECT_TRUE(ledger_.reuse_handle(6)) << "imported twice";
}

TEST_F(MemoryByHandle, AnExportThatFailsHoldsNothing) {
  create(5, 60);
  const std::uint64_t physical = ledger_.retain_physical(5);
  EXPECT_EQ(release(5), 0u) << "by another thread, meanwhile";
  Entry freed;
  ledger_.release_physical(physical, freed);
  EXPECT_EQ(freed.bytes, 60u);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, WhatOneThreadMapsStaysChargedWhenAnotherReleasesTheHandle) {
  create(5, 60);
  const std::uint64_t held = ledger_.retain_physical(5);  // its call is with the driver
  EXPECT_EQ(release(5), 0u);
  EXPECT_EQ(create(5, 40), 0u) << "other memory";
  map_held(0x1000, 60, held);
  EXPECT_EQ(charged(), 100u);
  EXPECT_EQ(release(5), 40u);
  EXPECT_EQ(unmap(0x1000, 60), 60);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, WhatAnotherThreadUnmapsIsStillAskedForByItsAddress) {
  create(5, 60);
  map(0x1000, 60, 5);
  release(5);
  const std::uint64_t held = ledger_.retain_mapped_physical(0x1000);
  EXPECT_EQ(unmap(0x1000, 60), 0);
  Entry freed;
  ledger_.retain_handle(9, held, freed);
  EXPECT_EQ(charged(), 60u);
  EXPECT_EQ(release(9), 60u);
}

// A second release that comes between the driver's answer and the ledger's, and a third thread that maps.
TEST_F(MemoryByHandle, AHandleThatIsAskedForByAddressIsKnownWhileAnotherGivesItUp) {
  create(5, 60);
  map(0x1000, 60, 5);
  const std::uint64_t asked = ledger_.retain_mapped_physical(0x1000);
  EXPECT_EQ(release(5), 0u) << "the driver gave it to who asks already";
  EXPECT_NE(ledger_.retain_physical(5), 0u);
  Entry freed;
  ledger_.release_physical(ledger_.begin_release_handle(5).physical, freed);
  ledger_.retain_handle(5, asked, freed);
  unmap(0x1000, 60);
  EXPECT_EQ(charged(), 60u);
  EXPECT_EQ(release(5), 60u);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, AskingForAHandleThatFailsKeepsNothing) {
  create(5, 60);
  map(0x1000, 60, 5);
  const std::uint64_t asked = ledger_.retain_mapped_physical(0x1000);
  release(5);
  unmap(0x1000, 60);
  EXPECT_EQ(charged(), 60u);
  Entry freed;
  ledger_.release_mapped_physical(asked, freed);
  EXPECT_EQ(freed.bytes, 60u);
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(ledger_.retain_physical(5), 0u);
}

// Between the driver's release and the ledger's.
TEST_F(MemoryByHandle, AValueThatIsGivenAgainIsOtherMemory) {
  create(5, 60);
  const auto release_of_first = ledger_.begin_release_handle(5);
  EXPECT_EQ(create(5, 40), 60u) << "the driver gives a value again when its memory is gone";
  EXPECT_EQ(charged(), 40u);
  Entry freed;
  ledger_.finish_release_handle(release_of_first, freed);
  EXPECT_EQ(freed.bytes, 0u);
  EXPECT_EQ(charged(), 40u);
  EXPECT_EQ(live(), 40u);
  EXPECT_EQ(release(5), 40u);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, AValueThatIsGivenAgainByAddressIsThatMemory) {
  create(5, 60);
  create(6, 40);
  map(0x1000, 40, 6);
  release(6);
  const auto release_of_first = ledger_.begin_release_handle(5);
  Entry freed;
  ledger_.retain_handle(5, ledger_.retain_mapped_physical(0x1000), freed);
  EXPECT_EQ(freed.bytes, 60u);
  ledger_.finish_release_handle(release_of_first, freed);
  EXPECT_EQ(unmap(0x1000, 40), 0);
  EXPECT_EQ(charged(), 40u);
  EXPECT_EQ(release(5), 40u);
}

// The same with addresses.
TEST_F(MemoryByHandle, WhatIsMappedWhereAnotherThreadHasJustUnmappedIsNotUnmapped) {
  create(5, 60);
  map(0x1000, 60, 5);
  release(5);
  create(6, 40);
  const std::uint64_t last = ledger_.last_mapping();
  EXPECT_EQ(map(0x1000, 40, 6), 60u) << "the driver maps where nothing is mapped";
  release(6);
  EXPECT_EQ(charged(), 40u);
  EXPECT_EQ(unmap_until(0x1000, 0x100, last), -1);
  EXPECT_EQ(charged(), 40u);
  EXPECT_EQ(unmap(0x1000, 0x100), 40);
  EXPECT_EQ(ledger_.figures(0, Kind::mapping).live_count, 0u);
}

TEST_F(MemoryByHandle, ReleasedOfWhatIsNotKnownFreesNothing) {
  EXPECT_EQ(release(5), 0u);
  EXPECT_EQ(ledger_.retain_physical(5), 0u);
  EXPECT_EQ(ledger_.retain_mapped_physical(5), 0u);
  Entry freed;
  ledger_.release_physical(0, freed);
  ledger_.retain_handle(5, 0, freed);
  EXPECT_EQ(map(0x1000, 10, 5), 0u);
  EXPECT_EQ(unmap(0x1000, 10), 0);
  EXPECT_EQ(charged(), 0u);
}

// Asked for by an address at which another thread has mapped other memory meanwhile, and told.
TEST_F(MemoryByHandle, AHandleThatIsLiveIsOfItsOwnMemoryWhateverWasAskedFor) {
  create(5, 60);
  create(6, 40);
  map(0x1000, 60, 5);
  const std::uint64_t asked = ledger_.retain_mapped_physical(0x1000);
  EXPECT_EQ(unmap(0x1000, 60), 0);
  map(0x1000, 40, 6);
  Entry freed;
  ledger_.retain_handle(6, asked, freed);
  EXPECT_EQ(unmap(0x1000, 40), 0);
  EXPECT_EQ(release(6), 0u) << "it has two references";
  EXPECT_EQ(charged(), 100u);
  EXPECT_EQ(release(6), 40u);
  EXPECT_EQ(release(5), 60u);
}

TEST_F(MemoryByHandle, WhatWasOnlyHeldByWhoAskedGoesWithTheAnswer) {
  create(5, 60);
  create(6, 40);
  map(0x1000, 60, 5);
  const std::uint64_t asked = ledger_.retain_mapped_physical(0x1000);
  unmap(0x1000, 60);
  EXPECT_EQ(release(5), 0u);
  Entry freed;
  ledger_.retain_handle(6, asked, freed);
  EXPECT_EQ(freed.bytes, 60u);
  EXPECT_EQ(charged(), 40u);
}

TEST_F(MemoryByHandle, AReleaseThatFailsChangesNothing) {
  create(5, 100);
  ledger_.undo_release_handle(ledger_.begin_release_handle(5));
  EXPECT_EQ(charged(), 100u);
  EXPECT_EQ(release(5), 100u);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, AnArraysPartsHoldWhatIsMappedToThem) {
  const auto make = [&](std::uint64_t handle, std::uint64_t bytes, std::uint64_t part) {
    create(handle, bytes);
    EXPECT_EQ(map_part(0xa, part, handle), 0u);
    release(handle);
  };
  make(5, 10, 101);
  make(6, 20, 102);
  make(7, 30, 103);
  EXPECT_EQ(charged(), 60u);
  EXPECT_EQ(map_part(0xa, 101, 0), 10u) << "unmapped";
  EXPECT_EQ(charged(), 50u);
  create(8, 5);
  EXPECT_EQ(map_part(0xa, 102, 8), 20u) << "other memory in its place";
  release(8);
  EXPECT_EQ(charged(), 35u);
  Entry freed;
  Ledger::Pass place;
  EXPECT_FALSE(ledger_.unmap_next_part(0xb, place, freed));
  place = {};
  int count = 0;
  while (ledger_.unmap_next_part(0xa, place, freed)) ++count;
  EXPECT_EQ(count, 2);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, WhatIsMappedToTheNextArrayOfAHandleIsNotTheFirsts) {
  constexpr auto kArray = Ledger::Owner::array;
  EXPECT_EQ(ledger_.begin_destroy(kArray, 0xa), 0u) << "nothing was ever mapped to one";
  create(5, 60);
  map_part(0xa, 101, 5);
  release(5);
  const std::uint64_t leaving = ledger_.begin_destroy(kArray, 0xa);
  create(6, 40);
  map_part(0xa, 102, 6);
  release(6);
  Entry freed;
  Ledger::Pass place;
  int count = 0;
  while (ledger_.unmap_next_part(leaving, place, freed)) ++count;
  EXPECT_EQ(count, 1);
  EXPECT_EQ(charged(), 40u);
}

// Each by streams of another context, and each waited for.
TEST_F(MemoryByHandle, PartsThatWereUnmappedInOrderAreWaitedForOneAfterTheOther) {
  create(5, 60);
  map_part(0xa, 101, 5);
  map_part(0xa, 102, 5);
  release(5);
  EXPECT_FALSE(ledger_.has_pending_frees_or_unmaps());
  EXPECT_EQ(unmap_part_in_order(101, kContext), 0u);
  EXPECT_TRUE(ledger_.has_pending_frees_or_unmaps()) << "who waits has to tell";
  EXPECT_FALSE(ledger_.has_pending_frees()) << "a wait would give nothing back";
  wait(kContext);
  EXPECT_FALSE(ledger_.has_pending_frees_or_unmaps());
  EXPECT_EQ(unmap_part_in_order(102, kContext + 1), 60u);
  EXPECT_EQ(charged(), 60u);
  EXPECT_TRUE(ledger_.has_pending_frees());
  wait(kContext + 1);
  EXPECT_EQ(charged(), 0u);
  EXPECT_FALSE(ledger_.has_pending_frees_or_unmaps());
}

// A number of parts that other threads move about in the table meanwhile.
TEST_F(MemoryByHandle, AllPartsOfAnArrayAreFoundWhateverOthersTakeOut) {
  constexpr std::uint64_t kParts = 200;
  create(5, 60);
  for (std::uint64_t i = 0; i < kParts; ++i) {
    map_part(0xa, 1000 + i, 5);
    map(0x100000 + i * 0x1000, 0x1000, 5);
  }
  release(5);
  Ledger::Pass pass;
  Entry freed;
  std::uint64_t count = 0;
  for (; ledger_.unmap_next_part(0xa, pass, freed); ++count)
    if (count < kParts) unmap(0x100000 + count * 0x1000, 0x1000);
  EXPECT_EQ(count, kParts);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, APartThatIsUnmappedInTheOrderOfAStreamIsChargedUntilThatWasWaitedFor) {
  create(5, 60);
  map_part(0xa, 101, 5);
  release(5);
  EXPECT_EQ(unmap_part_in_order(101, kContext), 60u) << "for the program it is gone";
  EXPECT_EQ(live(), 0u);
  EXPECT_EQ(charged(), 60u);
  EXPECT_TRUE(ledger_.has_pending_frees());
  wait(kContext + 1);
  EXPECT_EQ(charged(), 60u);
  wait(kContext);
  EXPECT_EQ(charged(), 0u);
  EXPECT_FALSE(ledger_.has_pending_frees());
}

TEST_F(MemoryByHandle, AHandleThatIsReleasedAfterThatWaitsForTheStreamToo) {
  create(5, 60);
  map_part(0xa, 101, 5);
  unmap_part_in_order(101, kContext);
  EXPECT_FALSE(ledger_.has_pending_frees());
  const std::uint64_t begun = ledger_.begin_wait(kContext);
  map_part(0xa, 101, 5);
  unmap_part_in_order(101, kContext);
  EXPECT_EQ(release(5), 60u);
  ledger_.finish_wait(kContext, begun);
  EXPECT_EQ(charged(), 60u) << "unmapped again after the wait began";
  wait(kContext);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, WhatWasWaitedForGoesWithItsHandle) {
  create(5, 60);
  map_part(0xa, 101, 5);
  unmap_part_in_order(101, kContext);
  wait(kContext);
  EXPECT_EQ(charged(), 60u);
  EXPECT_EQ(release(5), 60u);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, AContextThatIsGoneHasNoStreamsToWaitFor) {
  create(5, 60);
  map_part(0xa, 101, 5);
  release(5);
  unmap_part_in_order(101, kContext);
  Entry dropped;
  Ledger::Pass pass;
  EXPECT_FALSE(ledger_.drop_from_context(kContext, pass, dropped));
  EXPECT_EQ(charged(), 60u);
  wait(kContext + 1);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, OthersHoldAllThatIsMappedInWhatTheyWereGiven) {
  constexpr std::uint64_t kPart = 0x10;
  for (const std::uint64_t number : {1, 2, 3, 4}) {
    create(number, kPart);
    map(0x1000 + number * kPart, kPart, number);
    release(number);
  }
  ledger_.mark_exported(0x1000 + 2 * kPart, kPart + 1);  // the second, and of the third a byte
  unmap(0x1000, 0x1000);
  EXPECT_EQ(charged(), 2 * kPart);
}

}  // namespace
}  // namespace headroom::ledger
