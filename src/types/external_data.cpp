#include "types/external_data.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>

namespace headroom {
namespace fs = std::filesystem;
namespace {

// StringStringEntryProto { key = 1: "location"; value = 2: NAME }: each a tag, a length and the text.
constexpr std::string_view kKey = "\x0A\x08location";
constexpr char kValueTag = 0x12;
constexpr std::size_t kLongestName = 4096;  // PATH_MAX

// The length after the value's tag, and the number of bytes that encode it. Nothing if it cannot be the
// length of a name.
struct Length {
  std::size_t value, bytes;
};
std::optional<Length> length_at(std::string_view text) {
  Length length{0, 0};
  for (const char c : text.substr(0, 2)) {
    const auto byte = static_cast<unsigned char>(c);
    length.value |= std::size_t{byte & 0x7FU} << (7 * length.bytes);
    ++length.bytes;
    if (byte < 0x80) return length;
  }
  return std::nullopt;
}

bool is_inside_its_folder(const std::string& name) {
  if (name.empty() || name.find('\0') != std::string::npos) return false;
  const fs::path path = fs::path(name).lexically_normal();
  return path.is_relative() && *path.begin() != "..";
}

}  // namespace

void ExternalDataFinder::take(std::string_view piece) {
  kept_ += piece;
  std::size_t from = 0;
  for (std::size_t at = 0; (at = kept_.find(kKey, from)) != std::string::npos;) {
    const std::string_view entry = std::string_view(kept_).substr(at);
    const std::string_view value = entry.substr(kKey.size());
    if (value.size() < 3) break;  // continues in the next piece; a shorter entry is not a name
    const auto length = value[0] == kValueTag ? length_at(value.substr(1)) : std::nullopt;
    if (length && length->value <= kLongestName) {
      if (value.size() < 1 + length->bytes + length->value) break;
      std::string name(value.substr(1 + length->bytes, length->value));
      // "./w.bin" becomes "w.bin".
      if (is_inside_its_folder(name)) names_.insert(fs::path(name).lexically_normal().string());
    }
    from = at + kKey.size();
  }
  const std::size_t begun = kept_.find(kKey, from);
  const std::size_t tail = kept_.size() - std::min(kept_.size() - from, kKey.size() - 1);
  kept_.erase(0, begun != std::string::npos ? begun : tail);
}

}  // namespace headroom
