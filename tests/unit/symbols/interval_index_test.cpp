#include "symbols/interval_index.h"

#include <gtest/gtest.h>

#include <random>

namespace headroom::symbols {
namespace {

TEST(IntervalIndex, InnerRangesWinOverOuterOnes) {
  IntervalIndex index;
  index.add(100, 200, 1);
  index.add(120, 160, 2);
  index.add(130, 140, 3);
  index.add(300, 301, 4);
  index.build();
  EXPECT_EQ(index.find(99), std::nullopt);
  EXPECT_EQ(index.find(100), 1U);
  EXPECT_EQ(index.find(120), 2U);
  EXPECT_EQ(index.find(135), 3U);
  EXPECT_EQ(index.find(140), 2U);
  EXPECT_EQ(index.find(160), 1U);
  EXPECT_EQ(index.find(200), std::nullopt);
  EXPECT_EQ(index.find(300), 4U);
  EXPECT_EQ(index.find(301), std::nullopt);
}

TEST(IntervalIndex, FindsNothingInEmptyRangesAndEmptyIndexes) {
  IntervalIndex index;
  index.add(5, 5, 1);
  index.add(9, 3, 2);
  index.build();
  EXPECT_EQ(index.find(5), std::nullopt);
  EXPECT_EQ(index.find(~std::uint64_t{0}), std::nullopt);
}

// Random overlaps, as in a damaged file. The expected result is the last range that contains the address,
// found by linear search.
TEST(IntervalIndex, AgreesWithASearchThroughAllRanges) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    struct Range {
      std::uint64_t low, high;
    };
    std::vector<Range> ranges;
    IntervalIndex index;
    for (std::uint32_t id = 0; id < 40; ++id) {
      ranges.push_back({random() % 200, random() % 200});
      index.add(ranges.back().low, ranges.back().high, id);
    }
    index.build();
    for (std::uint64_t address = 0; address < 210; ++address) {
      std::optional<std::uint32_t> expected;
      for (std::uint32_t id = 0; id < ranges.size(); ++id)
        if (address >= ranges[id].low && address < ranges[id].high) expected = id;
      ASSERT_EQ(index.find(address), expected) << "round " << round << ", address " << address;
    }
  }
}

}  // namespace
}  // namespace headroom::symbols
