#include "snapshot/address_map.h"

#include <random>
#include <unordered_map>

#include "support/test_support.h"

namespace headroom::snapshot {
namespace {

TEST(AddressMap, AgreesWithUnorderedMap) {
  std::mt19937_64 random(7);
  AddressMap<std::uint64_t> map;
  std::unordered_map<std::uint64_t, std::uint64_t> expected;
  for (int i = 0; i < 200'000; ++i) {
    // Addresses close together and often equal; 0 and the highest address are among them.
    const std::uint64_t address = random() % 3 == 0 ? ~(random() % 50) : random() % 5000 * 512;
    if (random() % 2 == 0) {
      map.set(address, static_cast<std::uint64_t>(i));
      expected[address] = static_cast<std::uint64_t>(i);
    } else {
      ASSERT_EQ(map.erase(address), expected.erase(address) == 1);
    }
    ASSERT_EQ(map.size(), expected.size());
    const std::uint64_t* found = map.find(address);
    ASSERT_EQ(found != nullptr, expected.contains(address));
    if (found != nullptr) {
      ASSERT_EQ(*found, expected[address]);
    }
  }
  std::size_t seen = 0;
  map.for_each([&](std::uint64_t address, std::uint64_t value) {
    ++seen;
    EXPECT_EQ(expected.at(address), value);
  });
  EXPECT_EQ(seen, expected.size());
}

}  // namespace
}  // namespace headroom::snapshot
