// Reads and writes the files of a control group: one value each, or "key value" lines. Internal to this
// module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace headroom::limits {

// Writes to an existing file. The kernel accepts a value in one write or not at all.
Status write_value(const std::filesystem::path& path, std::string_view value);

// Absent if the file is missing, or if the kernel reports that there is no limit ("max", or a number near
// 2^63).
std::optional<Bytes> read_bytes(const std::filesystem::path& path);

// The value of a "key value" line.
std::optional<std::int64_t> keyed_number(const std::filesystem::path& path, std::string_view key);
std::optional<Bytes> keyed_bytes(const std::filesystem::path& path, std::string_view key);

// True if `word` is in a list such as "cpu memory pids" or "rw,memory".
bool has_word(std::string_view list, std::string_view word, char separator);

}  // namespace headroom::limits
