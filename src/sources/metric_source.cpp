#include "sources/metric_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"

namespace headroom::sources {
namespace fs = std::filesystem;

ReopenedFile::ReopenedFile(const fs::path& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  buffer_.resize(4096);
}

std::string_view ReopenedFile::read() {
  if (!fd_) return {};
  std::size_t size = 0;
  for (;;) {
    const ssize_t got =
        ::pread(fd_.get(), buffer_.data() + size, buffer_.size() - size, static_cast<off_t>(size));
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
    if (size == buffer_.size()) buffer_.resize(2 * buffer_.size());
  }
  return std::string_view(buffer_).substr(0, size);
}

std::optional<std::int64_t> ReopenedFile::read_integer() { return parse_number<std::int64_t>(trim(read())); }

namespace {

// The rest of the line that starts with `key`, or nothing.
std::optional<std::string_view> line_after(std::string_view text, std::string_view key) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with(key)) return line.substr(key.size());
    at = end + 1;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Bytes> kib_line(std::string_view text, std::string_view key) {
  auto rest = line_after(text, key);
  if (!rest || !rest->starts_with(":")) return std::nullopt;
  std::string_view value = trim(rest->substr(1));
  value = value.substr(0, value.find(' '));
  const auto kib = parse_number<std::int64_t>(value);
  return kib ? std::optional<Bytes>(kibibytes(*kib)) : std::nullopt;
}

std::optional<std::int64_t> plain_line(std::string_view text, std::string_view key) {
  const auto rest = line_after(text, key);
  if (!rest || !rest->starts_with(" ")) return std::nullopt;
  return parse_number<std::int64_t>(trim(*rest));
}

std::string one_line(const fs::path& path) {
  const auto text = read_small_file(path);
  if (!text) return {};
  std::string_view line = trim(*text);
  while (!line.empty() && line.back() == '\0') line.remove_suffix(1);  // device-tree strings end in a zero
  return std::string(line);
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) found.push_back(entry.path());
  std::sort(found.begin(), found.end(),
            [](const fs::path& a, const fs::path& b) { return natural_less(a.native(), b.native()); });
  return found;
}

}  // namespace headroom::sources
