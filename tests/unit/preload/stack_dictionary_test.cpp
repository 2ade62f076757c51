// The table of a segment's stacks, by their hash.
#include <gtest/gtest.h>

#include <memory>

#include "preload/threads.h"

namespace headroom::preload {
namespace {

std::uint64_t hash_of(std::uint64_t stack) {
  std::uint64_t x = stack * 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  return x ^ x >> 27;
}

// Defines each stack that is not found, as the recorder does. Returns how many definitions that took.
std::uint32_t define(StackDictionary& dictionary, std::uint64_t stacks, std::uint32_t defined = 0) {
  for (std::uint64_t stack = 0; stack < stacks; ++stack)
    if (dictionary.find(hash_of(stack)) == 0) dictionary.put(hash_of(stack), ++defined);
  return defined;
}

TEST(TracerStackDictionary, FindsWhatWasPutWhileItGrows) {
  const auto dictionary = std::make_unique<StackDictionary>();
  for (std::uint32_t i = 1; i <= 20'000; ++i) {
    EXPECT_EQ(dictionary->find(hash_of(i)), 0u);
    dictionary->put(hash_of(i), i);
    ASSERT_EQ(dictionary->find(hash_of(i)), i);
  }
  std::uint32_t lost = 0;
  for (std::uint32_t i = 1; i <= 20'000; ++i) {
    const std::uint32_t found = dictionary->find(hash_of(i));
    lost += found == 0 ? 1 : 0;
    EXPECT_TRUE(found == 0 || found == i) << i;
  }
  EXPECT_LT(lost, 600u);  // evicted
}

// In the table's final size few stacks evict each other.
TEST(TracerStackDictionary, DefinesFewStacksAgain) {
  const auto dictionary = std::make_unique<StackDictionary>();
  std::uint32_t defined = define(*dictionary, 20'000);
  EXPECT_EQ(defined, 20'000u);
  for (int times = 0; times < 10; ++times) defined = define(*dictionary, 20'000, defined);
  EXPECT_LT(defined, 24'000u);
}

TEST(TracerStackDictionary, ForgetsTheLastSegment) {
  const auto dictionary = std::make_unique<StackDictionary>();
  define(*dictionary, 5'000);
  dictionary->clear();
  for (std::uint64_t stack = 0; stack < 5'000; ++stack) EXPECT_EQ(dictionary->find(hash_of(stack)), 0u);
  EXPECT_EQ(define(*dictionary, 5'000), 5'000u);
}

// The outermost frame is only added to the hash, so the hashes of similar stacks can be neighbours.
TEST(TracerStackDictionary, DistinguishesNeighbouringHashes) {
  const auto dictionary = std::make_unique<StackDictionary>();
  for (std::uint32_t i = 1; i <= 1000; ++i) dictionary->put(0x1234'5678'9abc'0000 + i, i);
  for (std::uint32_t i = 1; i <= 1000; ++i) EXPECT_EQ(dictionary->find(0x1234'5678'9abc'0000 + i), i);
}

// A number that does not fit is not kept, and no other stack's.
TEST(TracerStackDictionary, KeepsNumbersOfTwentyBits) {
  const auto dictionary = std::make_unique<StackDictionary>();
  dictionary->put(hash_of(1), (1u << 20) - 1);
  dictionary->put(hash_of(2), 1u << 20);
  EXPECT_EQ(dictionary->find(hash_of(1)), (1u << 20) - 1);
  EXPECT_EQ(dictionary->find(hash_of(2)), 0u);
}

}  // namespace
}  // namespace headroom::preload
