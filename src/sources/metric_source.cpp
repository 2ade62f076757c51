#include "sources/metric_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"

namespace headroom::sources {

RereadFile::RereadFile(const fs::path& path) : fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}

std::string_view RereadFile::read() {
  if (!fd_) return {};
  if (buffer_.empty()) buffer_.resize(4096);
  std::size_t size = 0;
  for (;;) {
    const ssize_t got =
        ::pread(fd_.get(), buffer_.data() + size, buffer_.size() - size, static_cast<off_t>(size));
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
    if (size >= kLargestFigures) break;
    if (size == buffer_.size()) buffer_.resize(2 * buffer_.size());
  }
  return std::string_view(buffer_).substr(0, size);
}

std::optional<std::int64_t> RereadFile::read_integer() const {
  std::array<char, 32> text;
  const ssize_t got = fd_ ? ::pread(fd_.get(), text.data(), text.size(), 0) : -1;
  if (got <= 0) return std::nullopt;
  return parse_number<std::int64_t>(trim({text.data(), static_cast<std::size_t>(got)}));
}

std::optional<Bytes> RereadFile::read_bytes() const {
  const auto number = read_integer();
  if (!number || *number < 0 || *number >= std::int64_t{1} << 56) return std::nullopt;
  return Bytes{*number};
}

std::optional<std::string_view> rest_of_line(std::string_view text, std::string_view key) {
  while (!text.empty())
    if (const std::string_view line = take_line(text); line.starts_with(key)) return line.substr(key.size());
  return std::nullopt;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::string_view take_word(std::string_view& text) {
  constexpr std::string_view kSpace = " \t\n";
  const std::size_t start = std::min(text.find_first_not_of(kSpace), text.size());
  const std::size_t end = std::min(text.find_first_of(kSpace, start), text.size());
  const std::string_view word = text.substr(start, end - start);
  text.remove_prefix(end);
  return word;
}

std::optional<Bytes> kib_line(std::string_view text, std::string_view key) {
  auto rest = rest_of_line(text, key);
  if (!rest || !rest->starts_with(":")) return std::nullopt;
  rest->remove_prefix(1);
  const auto kib = parse_number<std::int64_t>(take_word(*rest));
  return kib ? std::optional<Bytes>(kibibytes(*kib)) : std::nullopt;
}

std::string file_text(const fs::path& path) {
  const auto text = read_small_file(path);
  if (!text) return {};
  std::string_view content = trim(*text);
  while (!content.empty() && content.back() == '\0') content.remove_suffix(1);  // as in a device tree
  return std::string(content);
}

std::vector<fs::path> entries(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  std::ranges::sort(
      found, [](const fs::path& a, const fs::path& b) { return natural_less(a.native(), b.native()); });
  return found;
}

RereadFile first_file(const fs::path& root, std::initializer_list<const char*> paths) {
  for (const char* path : paths)
    if (RereadFile file(root / path); file.exists()) return file;
  return {};
}

}  // namespace headroom::sources
