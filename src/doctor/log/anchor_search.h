// Finds several words in a text at once: what tells the few lines of a log that are worth a closer look, and
// which rules may read such a line.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::doctor {

// After Wu and Manber (1994): the two bytes at the end of a window as long as the shortest word tell how far
// the window can move on, on average most of its length. So a log is read at several bytes a step, with a
// table of 8 KiB and no instructions of one processor alone.
class AnchorSearch {
 public:
  // Each word has kShortest bytes or more.
  static constexpr std::size_t kShortest = 6;
  explicit AnchorSearch(const std::vector<std::string_view>& words);

  // As they were given, each once.
  const std::vector<std::string>& words() const { return words_; }
  // Where the first of the words begins that lies at or behind `from`; npos if there is none.
  std::size_t find(std::string_view text, std::size_t from = 0) const;
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
  // Of blocks with shift 0: which words' first kShortest bytes end in them.
  std::array<std::vector<std::uint16_t>, kBlocks> ends_here_;
};

}  // namespace headroom::doctor
