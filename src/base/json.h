// Reads and writes JSON with nlohmann::json, keeping the order of keys. No function here throws. Headers that
// only pass JSON on include <nlohmann/json_fwd.hpp>.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace headroom {

using Json = nlohmann::ordered_json;

// Parses one document. The error contains the byte offset. Depth is bounded, so hostile input cannot overflow
// the stack. Invalid UTF-8 is an error.
Result<Json> parse_json(std::string_view text, std::string_view what_it_is = "JSON");

// Indented text that ends with a newline. Invalid UTF-8 (file names!) is replaced. Numbers must be finite.
std::string to_text(const Json& document);
// One line without a newline, for JSON lines.
std::string to_line(const Json& document);

// A missing value means a missing key: sets `key` only if there is a value (and a double is finite).
inline void set_if(Json& object, std::string_view key, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) object[std::string(key)] = *value;
}
inline void set_if(Json& object, std::string_view key, const std::optional<Bytes>& value) {
  if (value) object[std::string(key)] = value->count;
}
inline void set_if(Json& object, std::string_view key, const std::optional<Nanoseconds>& value) {
  if (value) object[std::string(key)] = value->count;
}
inline void set_if(Json& object, std::string_view key, const std::optional<std::int64_t>& value) {
  if (value) object[std::string(key)] = *value;
}
inline void set_if(Json& object, std::string_view key, const std::optional<bool>& value) {
  if (value) object[std::string(key)] = *value;
}
inline void set_if(Json& object, std::string_view key, const std::string& value) {
  if (!value.empty()) object[std::string(key)] = value;
}

// Typed look-ups. Return nothing if the key is missing or has another type, or if an integer is outside
// int64.
std::optional<std::int64_t> get_integer(const Json& object, std::string_view key);
std::optional<double> get_number(const Json& object, std::string_view key);
std::optional<bool> get_bool(const Json& object, std::string_view key);
std::optional<Bytes> get_bytes(const Json& object, std::string_view key);
std::optional<Nanoseconds> get_nanoseconds(const Json& object, std::string_view key);
// Empty if the key is missing or not a string.
std::string get_text(const Json& object, std::string_view key);
// The member, or a null value if it is missing.
const Json& get_member(const Json& object, std::string_view key);

}  // namespace headroom
