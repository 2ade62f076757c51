#include <gtest/gtest.h>
#include <map>
#include <random>

#include "attribution/live_map.h"
#include "attribution/mapping_ledger.h"

namespace headroom::attribution {

namespace {

TEST(MappingLedger, CountsReservedAddressesOnceAccessible) {
  MappingLedger ledger(4096);
  ledger.reserve(0x10000, 0x8000);
  EXPECT_EQ(ledger.mapped_bytes(), 0);
  EXPECT_EQ(ledger.peak_bytes(), 0);
  EXPECT_EQ(ledger.reserved_bytes(), 0x8000);
  ledger.make_accessible(0x12000, 0x2000, {StackId{7}, 3});
  EXPECT_EQ(ledger.mapped_bytes(), 0x2000);
  EXPECT_EQ(ledger.reserved_bytes(), 0x6000);
  ledger.make_accessible(0x11000, 0x4000, {StackId{8}, 3});  // the mapped middle keeps its owner
  EXPECT_EQ(ledger.mapped_bytes(), 0x4000);
  const std::vector<MappingShare> stacks = ledger.by_stack();
  ASSERT_EQ(stacks.size(), 2U);
  EXPECT_EQ(stacks[0].index, 7U);
  EXPECT_EQ(stacks[0].end_bytes, 0x2000);
  EXPECT_EQ(stacks[1].end_bytes, 0x2000);
  ledger.make_accessible(0x20000, 0x1000);  // nothing is reserved there
  ledger.reserve(0x12000, 0x1000);          // covers a part that was mapped
  EXPECT_EQ(ledger.mapped_bytes(), 0x3000);
  EXPECT_EQ(ledger.peak_bytes(), 0x4000);
  ledger.unmap(0x10000, 0x8000);
  EXPECT_EQ(ledger.mapped_bytes(), 0);
  EXPECT_EQ(ledger.reserved_bytes(), 0);
  EXPECT_EQ(ledger.peak_reserved_bytes(), 0x8000);
}

TEST(MappingLedger, IgnoresRangesThatOverflow) {
  MappingLedger ledger(0);  // a damaged page size: 4096
  ledger.map(~std::uint64_t{0} - 8, 100);
  ledger.map(0x1000, ~std::uint64_t{0});
  EXPECT_EQ(ledger.mapped_bytes(), 0);
}

// The reference keeps an owner for each page and copies the owners at each new peak.
TEST(MappingLedger, OwnersAgreeWithAMapOfPages) {
  std::mt19937 random(11);
  MappingLedger ledger(4096);
  std::map<std::uint64_t, std::uint32_t> pages, at_peak;
  for (int step = 0; step < 3'000; ++step) {
    const std::uint64_t first = random() % 200, count = 1 + random() % 20;
    const auto owner = static_cast<std::uint32_t>(random() % 6);
    const bool maps = random() % 2 == 0;
    for (std::uint64_t page = first; page < first + count; ++page) {
      pages.erase(page);
      if (maps) pages.emplace(page, owner);
    }
    if (maps)
      ledger.map(first * 4096, count * 4096, {StackId{owner}, owner / 2});
    else
      ledger.unmap(first * 4096, count * 4096);
    if (pages.size() > at_peak.size()) at_peak = pages;
    std::map<std::uint32_t, MappingShare> stacks, layers;
    for (const auto& [page, of] : at_peak) {
      stacks[of].at_peak_bytes += 4096;
      layers[of / 2].at_peak_bytes += 4096;
    }
    for (const auto& [page, of] : pages) {
      stacks[of].end_bytes += 4096;
      layers[of / 2].end_bytes += 4096;
    }
    for (const auto& [expected, shares] :
         {std::pair(stacks, ledger.by_stack()), std::pair(layers, ledger.by_layer())}) {
      ASSERT_EQ(shares.size(), expected.size()) << "step " << step;
      for (const MappingShare& share : shares) {
        const MappingShare& truth = expected.at(share.index);
        ASSERT_EQ(share.at_peak_bytes, truth.at_peak_bytes) << "step " << step;
        ASSERT_EQ(share.end_bytes, truth.end_bytes) << "step " << step;
      }
    }
  }
}

// Random operations, compared with std::map. The addresses collide in the same slots, and the map grows
// twice.
TEST(LiveMap, AgreesWithStdMap) {
  std::mt19937_64 random(3);
  LiveMap map;
  std::map<std::uint64_t, std::uint64_t> reference;
  for (int step = 0; step < 300'000; ++step) {
    const std::uint64_t address = 8 * (1 + random() % 12'000) << (random() % 3 == 0 ? 20 : 0);
    LiveBlock block;
    if (random() % 5 < 3) {
      const std::uint64_t size = random() % 5000;
      const auto [it, is_new] = reference.try_emplace(address, size);
      ASSERT_EQ(map.insert({.address = address, .size = size}, block), !is_new);
      if (!is_new) {
        ASSERT_EQ(block.size, std::exchange(it->second, size));
      }
    } else {
      const auto it = reference.find(address);
      ASSERT_EQ(map.take(address, block), it != reference.end());
      if (it == reference.end()) continue;
      ASSERT_EQ(block.size, it->second);
      reference.erase(it);
    }
    ASSERT_EQ(map.size(), reference.size());
  }
  std::map<std::uint64_t, std::uint64_t> left;
  map.for_each([&](const LiveBlock& block) { left[block.address] = block.size; });
  EXPECT_EQ(left, reference);
}

TEST(LiveBlock, RejectsImpossibleSizes) {
  MemoryEvent event;
  event.address = 0x1000;
  LiveBlock block;
  event.size = kLargestBlock;
  EXPECT_TRUE(make_block(event, 0, 0, block));
  event.size = kLargestBlock + 1;
  EXPECT_FALSE(make_block(event, 0, 0, block));
  event.size = 1 << 20;
  event.weight = 1e300;
  EXPECT_FALSE(make_block(event, 0, 0, block));
}

}  // namespace

}  // namespace headroom::attribution
