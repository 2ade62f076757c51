// Physical memory: charged as long as it has a handle or a mapping, also with concurrent
// threads.
#include "unit/ledger/ledger_fixture.h"

namespace headroom::ledger {
namespace {

class MemoryByHandle : public LedgerFixture {
 protected:
  static constexpr std::uint64_t kLimit = 100;
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
    Entry freed;
    ledger_.map(address, bytes, physical, freed);
    return freed.bytes;
  }
  // Ends all mappings in the range; -1: there was none.
  std::int64_t unmap(std::uint64_t address, std::uint64_t bytes) {
    std::int64_t all = 0;
    int count = 0;
    for (Entry mapping, freed; ledger_.unmap_one(address, bytes, mapping, freed); ++count)
      all += static_cast<std::int64_t>(freed.bytes);
    return count > 0 ? all : -1;
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

// Another thread unmaps the memory or releases the handle between the driver's answer and the ledger's
// record, or the driver fails.
TEST_F(MemoryByHandle, RetainByAddressKeepsTheMemory) {
  for (const bool unmaps : {true, false}) {
    create(5, 60);
    map(0x1000, 60, 5);
    if (unmaps) release(5);
    const std::uint64_t retained = ledger_.retain_mapped_physical(0x1000);
    EXPECT_EQ(unmaps ? unmap(0x1000, 60) : static_cast<std::int64_t>(release(5)), 0);
    ledger_.retain_handle(5, retained);
    if (!unmaps) unmap(0x1000, 60);
    EXPECT_EQ(charged(), 60u);
    EXPECT_EQ(release(5), 60u);
    EXPECT_EQ(charged(), 0u);
  }
  create(5, 60);
  map(0x1000, 60, 5);
  const std::uint64_t retained = ledger_.retain_mapped_physical(0x1000);
  release(5);
  unmap(0x1000, 60);
  EXPECT_EQ(ledger_.release_physical(retained).bytes, 60u) << "the driver failed";
  EXPECT_EQ(charged(), 0u);
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
