#include "attribution/live_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace headroom::attribution {
namespace {

LiveBlock block_at(std::uint64_t address, std::uint64_t size) {
  LiveBlock block;
  block.address = address;
  block.size = size;
  return block;
}

TEST(LiveMap, ReturnsInsertedBlock) {
  LiveMap map;
  LiveBlock block;
  EXPECT_FALSE(map.insert(block_at(0x1000, 24), block));
  EXPECT_EQ(map.size(), 1U);
  EXPECT_FALSE(map.take(0x1008, block));
  ASSERT_TRUE(map.take(0x1000, block));
  EXPECT_EQ(block.size, 24U);
  EXPECT_FALSE(map.take(0x1000, block));
  EXPECT_EQ(map.size(), 0U);
}

TEST(LiveMap, ReturnsReplacedBlock) {
  LiveMap map;
  LiveBlock replaced;
  map.insert(block_at(0x1000, 24), replaced);
  ASSERT_TRUE(map.insert(block_at(0x1000, 99), replaced));
  EXPECT_EQ(replaced.size, 24U);
  EXPECT_EQ(map.size(), 1U);
}

TEST(LiveMap, NullIsNeverLive) {
  LiveMap map;
  LiveBlock block;
  EXPECT_FALSE(map.take(0, block));
  EXPECT_EQ(map.size(), 0U);
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
      ASSERT_EQ(map.insert(block_at(address, size), block), !is_new);
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

TEST(LiveBlock, SampleCountsItsWeight) {
  LiveBlock block = block_at(0x1000, 100);
  EXPECT_EQ(block.bytes(), 100);
  EXPECT_EQ(block.blocks(), 1);
  block.weight = 2.5F;
  EXPECT_EQ(block.bytes(), 250);
  EXPECT_EQ(block.blocks(), 3);
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
