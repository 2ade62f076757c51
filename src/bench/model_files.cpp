#include "bench/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <system_error>
#include <vector>

#include "base/files.h"
#include "base/fnv1a.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

// StringStringEntryProto { key = 1: "location"; value = 2: NAME }: each a tag, a length and the text.
constexpr std::string_view kKey = "\x0A\x08location";
constexpr char kValueTag = 0x12;
constexpr std::size_t kLongestName = 4096;  // PATH_MAX

// The length after the value's tag, and how many bytes tell it; nothing if it is no length of a name.
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

// One fingerprint of several, as if it went on over their digits.
std::string joined(const std::vector<std::string>& fingerprints) {
  if (fingerprints.size() == 1) return fingerprints.front();
  Fnv1a hash;
  for (const std::string& fingerprint : fingerprints) hash.add(fingerprint);
  return hash.text();
}

Result<Bytes> size_of_file(const fs::path& path) {
  std::error_code code;
  const auto size = fs::file_size(path, code);
  if (code) return input_error(fmt::format("cannot read {}", path.string()), code.message());
  return Bytes{static_cast<std::int64_t>(size)};
}

}  // namespace

void ExternalDataFinder::take(std::string_view piece) {
  kept_ += piece;
  std::size_t from = 0;
  for (std::size_t at = 0; (at = kept_.find(kKey, from)) != std::string::npos;) {
    const std::string_view entry = std::string_view(kept_).substr(at);
    const std::string_view value = entry.substr(kKey.size());
    if (value.size() < 3) break;  // goes on in the next piece; an entry that is shorter names nothing
    const auto length = value[0] == kValueTag ? length_at(value.substr(1)) : std::nullopt;
    if (length && length->value <= kLongestName) {
      if (value.size() < 1 + length->bytes + length->value) break;
      std::string name(value.substr(1 + length->bytes, length->value));
      // "./w.bin" is "w.bin".
      if (is_inside_its_folder(name)) names_.insert(fs::path(name).lexically_normal().string());
    }
    from = at + kKey.size();
  }
  const std::size_t begun = kept_.find(kKey, from);
  const std::size_t tail = kept_.size() - std::min(kept_.size() - from, kKey.size() - 1);
  kept_.erase(0, begun != std::string::npos ? begun : tail);
}

Result<ModelFiles> read_model_files(const fs::path& path, const std::function<void()>& on_piece) {
  ExternalDataFinder finder;
  auto fingerprint = file_fingerprint(path, [&](std::string_view piece) {
    finder.take(piece);
    on_piece();
  });
  if (!fingerprint) return forward_error(fingerprint);
  auto size = size_of_file(path);
  if (!size) return forward_error(size);
  ModelFiles files{{}, *size};
  std::vector<std::string> fingerprints{std::move(*fingerprint)};
  for (const std::string& name : finder.names()) {
    const fs::path file = path.parent_path() / name;
    std::error_code code;
    if (!fs::is_regular_file(file, code)) continue;  // the runtime says what it lacks
    auto one = file_fingerprint(file, [&](std::string_view) { on_piece(); });
    if (!one) return forward_error(one);
    auto bytes = size_of_file(file);
    if (!bytes) return forward_error(bytes);
    fingerprints.push_back(std::move(*one));
    files.size += *bytes;
  }
  files.fingerprint = joined(fingerprints);
  return files;
}

}  // namespace headroom::bench
