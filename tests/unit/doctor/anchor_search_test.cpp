#include "doctor/log/anchor_search.h"

#include <algorithm>
#include <random>

#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::AnchorSearch;
constexpr std::size_t kNone = std::string_view::npos;

std::size_t first_of(const std::vector<std::string_view>& words, std::string_view text, std::size_t from) {
  std::size_t first = kNone;
  for (const std::string_view word : words) first = std::min(first, text.find(word, from));
  return first;
}

TEST(AnchorSearch, IgnoresTooShortWordsAndTexts) {
  EXPECT_EQ(AnchorSearch({"abc"}).find("abcabcabc"), kNone);
  EXPECT_EQ(AnchorSearch({"NvMapMem"}).find(""), kNone);
}

TEST(AnchorSearch, VisitsEachOccurrenceOfEachWord) {
  const AnchorSearch search({"memory", "of memory", "memory left", "memory"});
  ASSERT_EQ(search.words(), (std::vector<std::string>{"memory", "of memory", "memory left"}));
  std::vector<std::pair<std::size_t, std::string>> seen;
  search.visit("out of memory: no memory left", 0, [&](std::size_t begin, std::size_t word) {
    seen.emplace_back(begin, search.words()[word]);
    return true;
  });
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::pair<std::size_t, std::string>>{
                      {4, "of memory"}, {7, "memory"}, {18, "memory"}, {18, "memory left"}}));
}

// Compares with std::string_view::find, in texts of few different letters, where nearly every position
// almost matches.
TEST(AnchorSearch, AgreesWithSlowSearch) {
  const std::vector<std::string_view> words{"abaaba", "aabbaab", "bbbbbbbb", "abaabb", "aaaaaaaaaaaa"};
  const AnchorSearch search(words);
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random() % 60, 'a');
    for (char& letter : text) letter = random() % 4 == 0 ? 'b' : (random() % 40 == 0 ? '\xff' : 'a');
    const std::size_t from = text.empty() ? 0 : random() % text.size();
    ASSERT_EQ(search.find(text, from), first_of(words, text, from)) << text << " from " << from;
  }
}

}  // namespace
}  // namespace headroom::test
