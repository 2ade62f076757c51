#include "preload/address_set.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace headroom::preload {
namespace {

std::uint64_t address(std::uint64_t number) { return 0x7f0000000000 + number * 16; }

// In a heap of 100 MiB with a sample in every 256 KiB, hardly any free searches the set.
TEST(TracerAddressSet, FilterRejectsMostOtherAddresses) {
  AddressSet set;
  ASSERT_TRUE(set.create());
  constexpr std::uint64_t kHeap = 100 << 20, kStep = 256 << 10;
  for (std::uint64_t at = 0; at < kHeap; at += kStep) ASSERT_TRUE(set.insert(0x555500000010 + at));
  int held = 0, asked = 0;
  for (std::uint64_t at = 0; at < kHeap; at += 1040, ++asked) held += set.may_hold(0x555500000020 + at);
  EXPECT_LT(held, asked / 50);
}

// glibc's thread heaps begin at multiples of 64 MiB. Blocks recorded in one heap must not make frees in the
// others search the set.
TEST(TracerAddressSet, ThreadHeapsHaveSeparateCounters) {
  AddressSet set;
  ASSERT_TRUE(set.create());
  constexpr std::uint64_t kFirst = 0x7f1200000000, kApart = 64 << 20, kUsed = 1 << 20;
  for (std::uint64_t at = 0; at < kUsed; at += 1 << 11) ASSERT_TRUE(set.insert(kFirst + 0x30 + at));
  for (std::uint64_t thread = 1; thread < 16; ++thread)
    for (std::uint64_t at = 0; at < kUsed; at += 1 << 11)
      ASSERT_FALSE(set.may_hold(kFirst + thread * kApart + 0x40 + at)) << thread << " " << at;
}

TEST(TracerAddressSet, HoldsAddressesUntilTheyAreRemovedAndSamplesSeparately) {
  AddressSet set;
  ASSERT_TRUE(set.create());
  EXPECT_FALSE(set.may_hold(address(1)));
  EXPECT_FALSE(set.remove(address(1)));
  ASSERT_TRUE(set.insert(address(1)));
  EXPECT_TRUE(set.may_hold(address(1)));
  EXPECT_FALSE(set.samples().may_hold(address(1)));
  ASSERT_TRUE(set.insert(address(2), true));
  EXPECT_TRUE(set.samples().may_hold(address(2)));
  ASSERT_TRUE(set.remove(address(2)));
  EXPECT_FALSE(set.remove(address(2)));
  EXPECT_FALSE(set.samples().may_hold(address(2)));
  EXPECT_TRUE(set.may_hold(address(1)));
  EXPECT_TRUE(set.remove(address(1)));
  EXPECT_FALSE(set.may_hold(address(1)));
}

// The neighbours of a long-lived sample are freed throughout the run. They must not search the set, although
// they share its cell of 2 KiB.
TEST(TracerAddressSet, FilterDistinguishesASampleFromItsNeighbours) {
  AddressSet set;
  ASSERT_TRUE(set.create());
  constexpr std::uint64_t kHeap = 100 << 20, kStep = 128 << 10, kCell = 2048;
  std::vector<std::uint64_t> samples;
  std::uint64_t random = 1;
  for (std::uint64_t cell = 0x555500000000; cell < 0x555500000000 + kHeap; cell += kStep) {
    random = random * 6364136223846793005 + 1442695040888963407;
    samples.push_back(cell + (random >> 33) % (kCell / 16) * 16);
    ASSERT_TRUE(set.insert(samples.back(), true));
  }
  std::size_t held = 0, asked = 0;
  for (const std::uint64_t sample : samples)
    for (std::uint64_t near = sample & ~(kCell - 1); near <= (sample | (kCell - 1)); near += 16) {
      if (near == sample) continue;
      held += set.samples().may_hold(near);
      ++asked;
    }
  EXPECT_GT(held, 0u);  // otherwise no two of them share a counter, and the test proves nothing
  EXPECT_LT(held, asked / 50);
  for (const std::uint64_t sample : samples) ASSERT_TRUE(set.samples().may_hold(sample));
  for (const std::uint64_t sample : samples) ASSERT_TRUE(set.remove(sample));
  for (const std::uint64_t sample : samples) ASSERT_FALSE(set.samples().may_hold(sample));
}

TEST(TracerAddressSet, AlwaysMatchesMarkedRanges) {
  AddressSet set;
  ASSERT_TRUE(set.create());
  set.always_match(0, 1);
  set.always_match(0x600010, 64 << 10);
  EXPECT_TRUE(set.samples().may_hold(0));
  EXPECT_TRUE(set.samples().may_hold(0x600010));
  EXPECT_TRUE(set.samples().may_hold(0x600010 + (64 << 10) - 1));
  EXPECT_FALSE(set.samples().may_hold(0x600010 + (68 << 10)));
  EXPECT_FALSE(set.may_hold(0x600020));  // and none of them is in the set
  ASSERT_TRUE(set.insert(0x600020, true));
  ASSERT_TRUE(set.remove(0x600020));
  EXPECT_TRUE(set.samples().may_hold(0x600020));
}

TEST(TracerAddressSet, ReportsAFullSet) {
  AddressSet set;
  ASSERT_TRUE(set.create());
  std::vector<std::uint64_t> taken;
  constexpr std::uint64_t kTries = 1'200'000;  // there are 1,048,576 slots
  for (std::uint64_t i = 0; i < kTries; ++i)
    if (set.insert(address(i * 7))) taken.push_back(address(i * 7));
  EXPECT_GT(taken.size(), 900'000u);
  EXPECT_LT(taken.size(), kTries);
  for (const std::uint64_t one : taken) ASSERT_TRUE(set.may_hold(one) && set.remove(one));
  for (const std::uint64_t one : taken) ASSERT_FALSE(set.remove(one));
}

TEST(TracerAddressSet, ThreadsDoNotDisturbEachOther) {
  AddressSet set;
  ASSERT_TRUE(set.create());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&set, &wrong, t] {
      for (std::uint64_t i = 0; i < 100'000; ++i) {
        const std::uint64_t mine = address((i % 1000) * 4 + t);
        const bool is_sample = i % 3 == 0;
        if (!set.insert(mine, is_sample) || !set.may_hold(mine)) ++wrong;
        if (is_sample && !set.samples().may_hold(mine)) ++wrong;
        if (!set.remove(mine)) ++wrong;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (std::uint64_t i = 0; i < 4000; ++i)
    ASSERT_FALSE(set.may_hold(address(i)) || set.samples().may_hold(address(i)))
        << "all counts are back at 0";
}

}  // namespace
}  // namespace headroom::preload
