// Finds several words in a text at once: they select the few lines of a log that a rule may read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::doctor {

// After Wu and Manber (1994): the last two bytes of a window as long as the shortest word tell how far the
// window can move, on average most of its length. So the search reads several bytes a step, with a table of 8
// KiB and without special instructions of a processor.
class AnchorSearch {
 public:
  // Each word has kShortest bytes or more.
  static constexpr std::size_t kShortest = 6;
  explicit AnchorSearch(const std::vector<std::string_view>& words) {
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

  // The words, each once.
  const std::vector<std::string>& words() const { return words_; }
  // The begin of the first word at or behind `from`; npos if there is none.
  std::size_t find(std::string_view text, std::size_t from = 0) const {
    std::size_t first = std::string_view::npos;
    visit(text, from, [&first](std::size_t begin, std::size_t) {
      first = begin;
      return false;
    });
    return first;
  }
  // Calls visit(begin, number of the word) for each occurrence, from left to right, until it returns false.
  template <typename Visit>
  void visit(std::string_view text, std::size_t from, Visit visit) const {
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
            std::memcmp(text.data() + begin, word.data(), word.size()) == 0 && !visit(begin, number))
          return;
      }
      ++end;
    }
  }

 private:
  static constexpr std::size_t kBlocks = 1 << 13;
  static std::size_t block_of(const char* end) {
    const auto before = static_cast<unsigned char>(end[-2]), last = static_cast<unsigned char>(end[-1]);
    return ((static_cast<std::size_t>(before) << 6) ^ last) & (kBlocks - 1);
  }

  std::vector<std::string> words_;
  std::array<std::uint8_t, kBlocks> shift_;
  // For blocks with shift 0: the words whose first kShortest bytes end there.
  std::array<std::vector<std::uint16_t>, kBlocks> ends_here_;
};

}  // namespace headroom::doctor
