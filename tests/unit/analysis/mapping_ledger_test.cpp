#include "analysis/mapping_ledger.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace headroom::analysis {
namespace {

TEST(MappingLedger, CountsWholePages) {
  MappingLedger ledger(4096);
  ledger.map(0x1000, 1);
  EXPECT_EQ(ledger.mapped_bytes(), 4096);
  ledger.map(0x4000, 4097);
  EXPECT_EQ(ledger.mapped_bytes(), 3 * 4096);
}

TEST(MappingLedger, UnmappingTheMiddleLeavesTwoParts) {
  MappingLedger ledger(4096);
  ledger.map(0x10000, 0x5000);
  ledger.unmap(0x12000, 0x1000);
  EXPECT_EQ(ledger.mapped_bytes(), 0x4000);
  ledger.unmap(0x10000, 0x5000);
  EXPECT_EQ(ledger.mapped_bytes(), 0);
}

TEST(MappingLedger, AMappingOverAnotherReplacesIt) {
  MappingLedger ledger(4096);
  ledger.map(0x10000, 0x4000);
  ledger.map(0x12000, 0x4000);
  EXPECT_EQ(ledger.mapped_bytes(), 0x6000);
}

TEST(MappingLedger, WhatOverflowsIsEmpty) {
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

}  // namespace
}  // namespace headroom::analysis
