// The distinct texts of a snapshot, numbered in order of first use. A trace of millions of entries has some
// thousand distinct texts (keys, actions, functions, files).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace headroom::snapshot {

struct StringId {
  std::uint32_t index = 0;  // 0 is the empty text
  friend auto operator<=>(const StringId&, const StringId&) = default;
};

class StringTable {
 public:
  StringTable() { intern(""); }
  StringTable(StringTable&&) = default;
  StringTable& operator=(StringTable&&) = default;

  StringId intern(std::string_view text) {
    if (const auto known = by_text_.find(text); known != by_text_.end()) return {known->second};
    const auto index = static_cast<std::uint32_t>(texts_.size());
    by_text_.emplace(texts_.emplace_back(text), index);
    bytes_ += text.size() + kOverhead;
    return {index};
  }
  std::string_view operator[](StringId id) const { return texts_[id.index]; }
  std::size_t size() const { return texts_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kOverhead = 96;  // the string object, its node in the table and its bucket
  std::deque<std::string> texts_;               // elements never move
  std::unordered_map<std::string_view, std::uint32_t> by_text_;
  std::size_t bytes_ = 0;
};

}  // namespace headroom::snapshot
