#include "doctor/log/anchor_search.h"

#include <algorithm>

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
  std::size_t first = std::string_view::npos;
  visit(text, from, [&first](std::size_t begin, std::size_t) {
    first = begin;
    return false;
  });
  return first;
}

}  // namespace headroom::doctor
