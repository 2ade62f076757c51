#include "symbols/demangle.h"

#include <gtest/gtest.h>

#include <string>

namespace headroom::symbols {
namespace {

TEST(Demangle, ReadsCppNames) {
  EXPECT_EQ(demangle("_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back(int const&)");
  EXPECT_EQ(demangle("_Znwm"), "operator new(unsigned long)");
  EXPECT_EQ(demangle("_Z3fooi.cold"), "foo(int) [clone .cold]");
}

TEST(Demangle, ReadsRustNamesWithoutTheirHashes) {
  EXPECT_EQ(demangle("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
  EXPECT_EQ(demangle("_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate"),
            "<std::path::PathBuf>::new");
}

TEST(Demangle, KeepsWhatIsNotMangled) {
  EXPECT_EQ(demangle("malloc"), "malloc");
  EXPECT_EQ(demangle("_Z"), "_Z");
  EXPECT_EQ(demangle("_ZN3fo"), "_ZN3fo");
  EXPECT_EQ(demangle("_Reset"), "_Reset");
  EXPECT_EQ(demangle(""), "");
}

TEST(Demangle, RemovesVersionsAndKeepsStubs) {
  EXPECT_EQ(demangle("memcpy@@GLIBC_2.14"), "memcpy");
  EXPECT_EQ(demangle("_ZNSs6appendEPKc@GLIBCXX_3.4").find('@'), std::string::npos);
  EXPECT_EQ(demangle("_Znwm@plt"), "operator new(unsigned long)@plt");
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
