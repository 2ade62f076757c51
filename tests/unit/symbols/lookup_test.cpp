#include <gtest/gtest.h>
#include <string>

#include "symbols/demangle.h"
#include "symbols/interval_index.h"

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

TEST(Demangle, ReadsNamesOfCppAndRust) {
  const std::pair<const char*, const char*> kNames[] = {
      {"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)"},
      {"_Z3fooi.cold", "foo(int) [clone .cold]"},
      {"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
      {"_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate",
       "<std::path::PathBuf>::new"},
      {"_Znwm@plt", "operator new(unsigned long)@plt"},
      {"memcpy@@GLIBC_2.14", "memcpy"},
      {"malloc", "malloc"},  // these are not mangled
      {"_Z", "_Z"},
      {"_ZN3fo", "_ZN3fo"},
      {"_Reset", "_Reset"},
      {"", ""}};
  for (const auto& [symbol, name] : kNames) EXPECT_EQ(demangle(symbol), name);
  EXPECT_EQ(demangle("_ZNSs6appendEPKc@GLIBCXX_3.4").find('@'), std::string::npos);
}

// pair<x, x> of itself, 33 times: 200 bytes that expand to eight billion words.
TEST(Demangle, KeepsANameThatExpandsToGigabytes) {
  std::string symbol = "_Z1f1pIxxE";
  const std::string digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVW";
  for (const char digit : digits) {
    const std::string before = std::string("S") + digit + "_";
    symbol += "S_I" + before + before + "E";
  }
  EXPECT_EQ(demangle(symbol), symbol);
  EXPECT_EQ(demangle(std::string("_Z") + std::string(100'000, '1')).size(), 100'002U);
}

}  // namespace

}  // namespace headroom::symbols
