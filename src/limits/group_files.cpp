#include "limits/group_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "base/text.h"

namespace headroom::limits {
namespace fs = std::filesystem;

Status write_value(const fs::path& path, std::string_view value) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return failure(fmt::format("cannot open {}", path.string()), errno_text(errno));
  if (::write(fd.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
    return failure(fmt::format("cannot write {} to {}", value, path.string()), errno_text(errno));
  return {};
}

std::optional<Bytes> read_bytes(const fs::path& path) {
  const auto text = read_small_file(path);
  const auto number = text ? parse_number<std::int64_t>(trim(*text)) : std::nullopt;
  constexpr std::int64_t kUnlimited = std::int64_t{1} << 62;  // v1 writes 2^63 rounded down to a page
  return number && *number < kUnlimited ? std::optional<Bytes>(Bytes{*number}) : std::nullopt;
}

std::optional<std::int64_t> keyed_number(const fs::path& path, std::string_view key) {
  const auto text = read_small_file(path);
  if (!text) return std::nullopt;
  for (const std::string_view line : split(*text, '\n'))
    if (line.starts_with(key) && line.substr(key.size()).starts_with(' '))
      return parse_number<std::int64_t>(trim(line.substr(key.size())));
  return std::nullopt;
}

std::optional<Bytes> keyed_bytes(const fs::path& path, std::string_view key) {
  const auto number = keyed_number(path, key);
  return number ? std::optional<Bytes>(Bytes{*number}) : std::nullopt;
}

bool has_word(std::string_view list, std::string_view word, char separator) {
  for (const std::string_view entry : split(list, separator))
    if (trim(entry) == word) return true;
  return false;
}

}  // namespace headroom::limits
