#include "doctor/anchor_search.h"

#include <algorithm>
#include <cstring>

namespace headroom::doctor {

AnchorSearch::AnchorSearch(const std::vector<std::string_view>& words) {
  shift_.fill(kShortest - 1);
  for (const std::string_view word : words) {
    if (word.size() < kShortest || std::find(words_.begin(), words_.end(), word) != words_.end()) continue;
    const auto number = static_cast<std::uint16_t>(words_.size());
    words_.emplace_back(word);
    for (std::size_t end = 2; end <= kShortest; ++end) {
      const std::size_t block = block_of(word.data() + end);
      shift_[block] = std::min(shift_[block], static_cast<std::uint8_t>(kShortest - end));
      if (end == kShortest) ends_here_[block].push_back(number);
    }
  }
}

std::size_t AnchorSearch::find(std::string_view text, std::size_t from) const {
  for (std::size_t end = from + kShortest; end <= text.size();) {
    const std::size_t block = block_of(text.data() + end);
    const std::size_t shift = shift_[block];
    if (shift > 0) {
      end += shift;
      continue;
    }
    const std::size_t begin = end - kShortest;
    for (const std::uint16_t number : ends_here_[block]) {
      const std::string& word = words_[number];
      if (text.size() - begin >= word.size() &&
          std::memcmp(text.data() + begin, word.data(), word.size()) == 0)
        return begin;
    }
    ++end;
  }
  return std::string_view::npos;
}

}  // namespace headroom::doctor
