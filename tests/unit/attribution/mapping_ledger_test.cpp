#include "attribution/mapping_ledger.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace headroom::attribution {
namespace {

TEST(MappingLedger, CountsWholePages) {
  MappingLedger ledger(4096);
  ledger.map(0x1000, 1);
  EXPECT_EQ(ledger.mapped_bytes(), 4096);
  ledger.map(0x4000, 4097);
  EXPECT_EQ(ledger.mapped_bytes(), 3 * 4096);
}

TEST(MappingLedger, UnmappingMiddleLeavesTwoParts) {
  MappingLedger ledger(4096);
  ledger.map(0x10000, 0x5000);
  ledger.unmap(0x12000, 0x1000);
  EXPECT_EQ(ledger.mapped_bytes(), 0x4000);
  ledger.unmap(0x10000, 0x5000);
  EXPECT_EQ(ledger.mapped_bytes(), 0);
}

TEST(MappingLedger, OverlappingMappingReplacesOldOne) {
  MappingLedger ledger(4096);
  ledger.map(0x10000, 0x4000);
  ledger.map(0x12000, 0x4000);
  EXPECT_EQ(ledger.mapped_bytes(), 0x6000);
}

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

TEST(MappingLedger, AgreesWithASetOfPages) {
  std::mt19937 random(5);
  MappingLedger ledger(4096);
  std::set<std::uint64_t> pages;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t first = random() % 200, count = 1 + random() % 20;
    const bool maps = random() % 2 == 0;
    for (std::uint64_t page = first; page < first + count; ++page) {
      if (maps)
        pages.insert(page);
      else
        pages.erase(page);
    }
    if (maps)
      ledger.map(first * 4096, count * 4096);
    else
      ledger.unmap(first * 4096, count * 4096);
    ASSERT_EQ(ledger.mapped_bytes(), static_cast<std::int64_t>(pages.size() * 4096)) << "step " << step;
  }
}

constexpr MappingOwner kWeights{StackId{7}, 1}, kBuffers{StackId{8}, 1};

TEST(MappingLedger, RestOfMappingKeepsItsOwner) {
  MappingLedger ledger(4096);
  ledger.map(0x10000, 0x5000, kWeights);
  ledger.map(0x20000, 0x1000, kBuffers);
  ledger.unmap(0x12000, 0x1000);  // the middle: both parts are left
  EXPECT_EQ(ledger.by_stack(), (std::vector<MappingShare>{{7, 0x5000, 0x4000}, {8, 0x1000, 0x1000}}));
  EXPECT_EQ(ledger.by_layer(), (std::vector<MappingShare>{{1, 0x6000, 0x5000}}));
  ledger.unmap(0x13000, 0x2000);  // the second part
  ledger.unmap(0x10000, 0x1000);  // the first half of the first
  EXPECT_EQ(ledger.by_stack(), (std::vector<MappingShare>{{7, 0x5000, 0x1000}, {8, 0x1000, 0x1000}}));
}

TEST(MappingLedger, OverlapBelongsToLatestMapping) {
  MappingLedger ledger(4096);
  ledger.map(0x10000, 0x4000, kWeights);
  ledger.map(0x11000, 0x1000, kBuffers);
  EXPECT_EQ(ledger.by_stack(), (std::vector<MappingShare>{{7, 0x4000, 0x3000}, {8, 0, 0x1000}}))
      << "the peak is the first moment when so much was mapped";
}

// As mremap is recorded: the old range is unmapped, the new one mapped.
TEST(MappingLedger, RestOfRemappedRangeKeepsItsOwner) {
  MappingLedger ledger(4096);
  ledger.map(0x10000, 0x4000, kWeights);
  ledger.unmap(0x12000, 0x2000);
  ledger.map(0x40000, 0x8000, kBuffers);
  EXPECT_EQ(ledger.by_stack(), (std::vector<MappingShare>{{8, 0x8000, 0x8000}, {7, 0x2000, 0x2000}}));
}

TEST(MappingLedger, ReportsOwnersOfPeakAfterAllIsUnmapped) {
  MappingLedger ledger(4096);
  ledger.map(0x10000, 0x3000, kWeights);
  ledger.unmap(0x10000, 0x3000);
  ledger.map(0x10000, 0x2000, kBuffers);
  ledger.unmap(0x10000, 0x2000);
  EXPECT_EQ(ledger.by_stack(), (std::vector<MappingShare>{{7, 0x3000, 0}}));
  EXPECT_EQ(ledger.peak_bytes(), 0x3000);
}

TEST(MappingLedger, SortsSharesByEndBytesToo) {
  std::vector<MappingShare> shares{{1, 10, 0}, {2, 0, 30}, {3, 20, 20}, {4, 20, 20}};
  sort_shares(shares);
  EXPECT_EQ(shares, (std::vector<MappingShare>{{2, 0, 30}, {3, 20, 20}, {4, 20, 20}, {1, 10, 0}}));
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

}  // namespace
}  // namespace headroom::attribution
