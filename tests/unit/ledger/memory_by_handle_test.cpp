// Physical memory: charged as long as it has a handle, a mapping or an array part, also with concurrent
// threads.
#include "unit/ledger/ledger_fixture.h"

namespace headroom::ledger {
namespace {

class MemoryByHandle : public LedgerFixture {
 protected:
  static constexpr std::uint64_t kContext = 7, kLimit = 100;
  void SetUp() override { limit(kLimit); }
  // Each function acts as a call of the driver, and returns how many bytes it freed.
  std::uint64_t create(std::uint64_t handle, std::uint64_t bytes, Kind kind = Kind::physical) {
    Entry freed;
    EXPECT_TRUE(ledger_.reserve(0, kind, bytes));
    ledger_.commit_physical(handle, 0, kind, bytes, freed);
    return freed.bytes;
  }
  std::uint64_t release(std::uint64_t handle) {
    return ledger_.finish_release_handle(ledger_.begin_release_handle(handle)).bytes;
  }
  std::uint64_t map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle) {
    return map_retained(address, bytes, ledger_.retain_physical(handle));
  }
  std::uint64_t map_retained(std::uint64_t address, std::uint64_t bytes, std::uint64_t physical) {
    Entry replaced, freed;
    ledger_.map(address, bytes, physical, replaced, freed);
    return freed.bytes;
  }
  // Ends all mappings in the range; -1: there was none.
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
  // How many parts of the array it unmapped.
  int unmap_parts(std::uint64_t array) {
    Ledger::Pass pass;
    int count = 0;
    for (Entry freed; ledger_.unmap_next_part(array, pass, freed);) ++count;
    return count;
  }
  std::uint64_t map_part(std::uint64_t array, std::uint64_t part, std::uint64_t handle) {
    return ledger_.map_part(array, part, ledger_.retain_physical(handle), false, 0).bytes;
  }
  std::uint64_t unmap_part_stream_ordered(std::uint64_t part, std::uint64_t context) {
    return ledger_.map_part(0xa, part, 0, true, context).bytes;
  }
  std::uint64_t live() { return ledger_.figures(0, Kind::physical).live_bytes; }
};

TEST_F(MemoryByHandle, StaysChargedWhileAHandleOrMappingIsLeft) {
  create(0xaa, 100);
  map(0x10000, 60, 0xaa);
  map(0x20000, 40, 0xaa);
  EXPECT_EQ(release(0xaa), 0u);
  EXPECT_EQ(charged(), 100u);
  // The driver reuses the handle's value while the first memory is still mapped.
  create(0xaa, 0);
  EXPECT_EQ(unmap(0x10000, 60), 0);
  EXPECT_EQ(charged(), 100u);
  EXPECT_EQ(unmap(0x20000, 40), 100);
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(unmap(0x20000, 40), -1);
}

TEST_F(MemoryByHandle, ARetainedHandleKeepsTheMemory) {
  create(5, 100);
  map(0x1000, 100, 5);
  release(5);
  ledger_.retain_handle(6, ledger_.retain_mapped_physical(0x1010));
  EXPECT_EQ(unmap(0x1000, 100), 0);
  EXPECT_EQ(charged(), 100u);
  EXPECT_EQ(release(6), 100u);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, ARetainedHandleMustBeReleasedAsOften) {
  create(5, 100);
  map(0x1000, 100, 5);
  ledger_.retain_handle(5, ledger_.retain_mapped_physical(0x1000));
  unmap(0x1000, 100);
  const auto first = ledger_.begin_release_handle(5), second = ledger_.begin_release_handle(5);
  ledger_.finish_release_handle(second);
  EXPECT_EQ(charged(), 100u) << "the driver has not finished the other release";
  EXPECT_EQ(ledger_.finish_release_handle(first).bytes, 100u);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, ExportedMemoryStaysCharged) {
  create(5, 60);
  EXPECT_FALSE(ledger_.reuse_handle(5)) << "not exported, so it cannot be imported";
  const std::uint64_t physical = ledger_.retain_physical(5);
  ledger_.export_physical(physical);
  ledger_.release_physical(physical);
  EXPECT_TRUE(ledger_.reuse_handle(5));
  EXPECT_FALSE(ledger_.reuse_handle(6));
  EXPECT_EQ(release(5) + release(5), 0u);
  EXPECT_EQ(charged(), 60u);
  EXPECT_FALSE(ledger_.reuse_handle(5));
  create(6, 0, Kind::imported);
  EXPECT_TRUE(ledger_.reuse_handle(6)) << "imported twice";
}

TEST_F(MemoryByHandle, AMappingInProgressKeepsAReleasedHandlesMemory) {
  create(5, 60);
  const std::uint64_t held = ledger_.retain_physical(5);  // the driver's map call is running
  EXPECT_EQ(release(5), 0u);
  EXPECT_EQ(create(5, 40), 0u) << "other memory";
  map_retained(0x1000, 60, held);
  EXPECT_EQ(charged(), 100u);
  EXPECT_EQ(release(5), 40u);
  EXPECT_EQ(unmap(0x1000, 60), 60);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, RetainByAddressSurvivesAConcurrentUnmap) {
  create(5, 60);
  map(0x1000, 60, 5);
  release(5);
  const std::uint64_t held = ledger_.retain_mapped_physical(0x1000);
  EXPECT_EQ(unmap(0x1000, 60), 0);
  ledger_.retain_handle(9, held);
  EXPECT_EQ(charged(), 60u);
  EXPECT_EQ(release(9), 60u);
}

// Another thread releases the handle between the driver's answer and the ledger's record, and a third one
// maps.
TEST_F(MemoryByHandle, RetainByAddressSurvivesAConcurrentRelease) {
  create(5, 60);
  map(0x1000, 60, 5);
  const std::uint64_t retained = ledger_.retain_mapped_physical(0x1000);
  EXPECT_EQ(release(5), 0u) << "the driver already returned it to the other thread";
  EXPECT_NE(ledger_.retain_physical(5), 0u);
  ledger_.release_physical(ledger_.begin_release_handle(5).physical);
  ledger_.retain_handle(5, retained);
  unmap(0x1000, 60);
  EXPECT_EQ(charged(), 60u);
  EXPECT_EQ(release(5), 60u);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, AFailedRetainKeepsNothing) {
  create(5, 60);
  map(0x1000, 60, 5);
  const std::uint64_t retained = ledger_.retain_mapped_physical(0x1000);
  release(5);
  unmap(0x1000, 60);
  EXPECT_EQ(charged(), 60u);
  EXPECT_EQ(ledger_.release_mapped_physical(retained).bytes, 60u);
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(ledger_.retain_physical(5), 0u);
}

// The driver has released the handle, the ledger has not recorded it yet.
TEST_F(MemoryByHandle, SeparatesMemoryWithAReusedHandleValue) {
  create(5, 60);
  const auto release_of_first = ledger_.begin_release_handle(5);
  EXPECT_EQ(create(5, 40), 60u) << "the driver reuses a value only after its release";
  EXPECT_EQ(charged(), 40u);
  EXPECT_EQ(ledger_.finish_release_handle(release_of_first).bytes, 0u);
  EXPECT_EQ(charged(), 40u);
  EXPECT_EQ(live(), 40u);
  EXPECT_EQ(release(5), 40u);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, RetainByAddressReplacesAReusedHandleValue) {
  create(5, 60);
  create(6, 40);
  map(0x1000, 40, 6);
  release(6);
  const auto release_of_first = ledger_.begin_release_handle(5);
  EXPECT_EQ(ledger_.retain_handle(5, ledger_.retain_mapped_physical(0x1000)).bytes, 60u);
  ledger_.finish_release_handle(release_of_first);
  EXPECT_EQ(unmap(0x1000, 40), 0);
  EXPECT_EQ(charged(), 40u);
  EXPECT_EQ(release(5), 40u);
}

// The same race with addresses.
TEST_F(MemoryByHandle, AnUnmapKeepsLaterMappings) {
  create(5, 60);
  map(0x1000, 60, 5);
  release(5);
  create(6, 40);
  const std::uint64_t last = ledger_.last_mapping();
  EXPECT_EQ(map(0x1000, 40, 6), 60u) << "the driver maps only at unused addresses";
  release(6);
  EXPECT_EQ(charged(), 40u);
  EXPECT_EQ(unmap_until(0x1000, 0x100, last), -1);
  EXPECT_EQ(charged(), 40u);
  EXPECT_EQ(unmap(0x1000, 0x100), 40);
  EXPECT_EQ(ledger_.figures(0, Kind::mapping).live_count, 0u);
}

TEST_F(MemoryByHandle, IgnoresUnknownHandles) {
  EXPECT_EQ(release(5), 0u);
  EXPECT_EQ(ledger_.retain_physical(5), 0u);
  EXPECT_EQ(ledger_.retain_mapped_physical(5), 0u);
  ledger_.release_physical(0);
  ledger_.retain_handle(5, 0);
  EXPECT_EQ(map(0x1000, 10, 5), 0u);
  EXPECT_EQ(unmap(0x1000, 10), 0);
  EXPECT_EQ(charged(), 0u);
}

// Another thread maps other memory at the address meanwhile, and the ledger has recorded that.
TEST_F(MemoryByHandle, RetainOfALiveHandleKeepsItsOwnMemory) {
  create(5, 60);
  create(6, 40);
  map(0x1000, 60, 5);
  const std::uint64_t retained = ledger_.retain_mapped_physical(0x1000);
  EXPECT_EQ(unmap(0x1000, 60), 0);
  map(0x1000, 40, 6);
  ledger_.retain_handle(6, retained);
  EXPECT_EQ(unmap(0x1000, 40), 0);
  EXPECT_EQ(release(6), 0u) << "it has two references";
  EXPECT_EQ(charged(), 100u);
  EXPECT_EQ(release(6), 40u);
  EXPECT_EQ(release(5), 60u);
}

TEST_F(MemoryByHandle, RetainFreesMemoryThatOnlyTheCallKept) {
  create(5, 60);
  create(6, 40);
  map(0x1000, 60, 5);
  const std::uint64_t retained = ledger_.retain_mapped_physical(0x1000);
  unmap(0x1000, 60);
  EXPECT_EQ(release(5), 0u);
  EXPECT_EQ(ledger_.retain_handle(6, retained).bytes, 60u);
  EXPECT_EQ(charged(), 40u);
}

TEST_F(MemoryByHandle, SeparatesArraysThatReuseAHandle) {
  constexpr auto kArray = Ledger::Owner::array;
  EXPECT_EQ(ledger_.begin_destroy(kArray, 0xa), 0u) << "no array ever had mapped parts";
  create(5, 60);
  map_part(0xa, 101, 5);
  release(5);
  const std::uint64_t number = ledger_.begin_destroy(kArray, 0xa);
  create(6, 40);
  map_part(0xa, 102, 6);
  release(6);
  EXPECT_EQ(unmap_parts(number), 1);
  EXPECT_EQ(charged(), 40u);
}

// Two unmaps in streams of two contexts, each followed by a wait.
TEST_F(MemoryByHandle, WaitsForStreamOrderedUnmapsSeparately) {
  create(5, 60);
  map_part(0xa, 101, 5);
  map_part(0xa, 102, 5);
  release(5);
  EXPECT_FALSE(ledger_.has_pending_frees_or_unmaps());
  EXPECT_EQ(unmap_part_stream_ordered(101, kContext), 0u);
  EXPECT_TRUE(ledger_.has_pending_frees_or_unmaps()) << "callers must report waits";
  EXPECT_FALSE(ledger_.has_pending_frees()) << "a wait would free nothing";
  wait(kContext);
  EXPECT_FALSE(ledger_.has_pending_frees_or_unmaps());
  EXPECT_EQ(unmap_part_stream_ordered(102, kContext + 1), 60u);
  EXPECT_EQ(charged(), 60u);
  EXPECT_TRUE(ledger_.has_pending_frees());
  wait(kContext + 1);
  EXPECT_EQ(charged(), 0u);
  EXPECT_FALSE(ledger_.has_pending_frees_or_unmaps());
}

// Other threads remove entries meanwhile, which moves parts in the table.
TEST_F(MemoryByHandle, FindsAllPartsDuringConcurrentRemovals) {
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

TEST_F(MemoryByHandle, ChargesAStreamOrderedUnmapUntilAWait) {
  create(5, 60);
  map_part(0xa, 101, 5);
  release(5);
  EXPECT_EQ(unmap_part_stream_ordered(101, kContext), 60u) << "for the program it is freed";
  EXPECT_EQ(live(), 0u);
  EXPECT_EQ(charged(), 60u);
  EXPECT_TRUE(ledger_.has_pending_frees());
  wait(kContext + 1);
  EXPECT_EQ(charged(), 60u);
  wait(kContext);
  EXPECT_EQ(charged(), 0u);
  EXPECT_FALSE(ledger_.has_pending_frees());
}

TEST_F(MemoryByHandle, AReleaseAfterAStreamOrderedUnmapWaitsToo) {
  create(5, 60);
  map_part(0xa, 101, 5);
  unmap_part_stream_ordered(101, kContext);
  EXPECT_FALSE(ledger_.has_pending_frees());
  const std::uint64_t begun = ledger_.begin_wait(kContext);
  map_part(0xa, 101, 5);
  unmap_part_stream_ordered(101, kContext);
  EXPECT_EQ(release(5), 60u);
  ledger_.finish_wait(kContext, begun);
  EXPECT_EQ(charged(), 60u) << "unmapped again after the wait began";
  wait(kContext);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, AnyWaitCompletesUnmapsOfADestroyedContext) {
  create(5, 60);
  map_part(0xa, 101, 5);
  release(5);
  unmap_part_stream_ordered(101, kContext);
  EXPECT_EQ(drop_from_context(kContext), 0);
  EXPECT_EQ(charged(), 60u);
  wait(kContext + 1);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(MemoryByHandle, ExportingARangeKeepsAllItsMappings) {
  constexpr std::uint64_t kPart = 0x10;
  for (const std::uint64_t number : {1, 2, 3, 4}) {
    create(number, kPart);
    map(0x1000 + number * kPart, kPart, number);
    release(number);
  }
  ledger_.mark_exported(0x1000 + 2 * kPart, kPart + 1);  // the second, and one byte of the third
  unmap(0x1000, 0x1000);
  EXPECT_EQ(charged(), 2 * kPart);
}

}  // namespace
}  // namespace headroom::ledger
