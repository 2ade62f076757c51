// JSON in and out, on nlohmann::json with key order kept. Readers never throw: they return what is there or
// an error that names the key. Headers that only pass JSON around include <nlohmann/json_fwd.hpp>.
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

// Parses one document; the error has the byte offset. Depth is bounded (hostile input cannot overflow the
// stack), invalid UTF-8 is an error.
Result<Json> parse_json(std::string_view text, std::string_view what_it_is = "JSON");

// Indented text ending in a newline; invalid UTF-8 (file names!) is replaced, non-finite numbers must not
// occur.
std::string to_text(const Json& document);
// One line without a newline, for JSON lines.
std::string to_line(const Json& document);

// Absent figures are absent keys: sets `key` only when there is a value (and, for doubles, when it is
// finite).
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

// Typed look-ups: nothing if the key is absent or of another type (integers outside int64 count as absent).
std::optional<std::int64_t> get_integer(const Json& object, std::string_view key);
std::optional<double> get_number(const Json& object, std::string_view key);
std::optional<bool> get_bool(const Json& object, std::string_view key);
std::optional<Bytes> get_bytes(const Json& object, std::string_view key);
std::optional<Nanoseconds> get_nanoseconds(const Json& object, std::string_view key);
// Empty if absent or not a string.
std::string get_text(const Json& object, std::string_view key);
// The member, or a null value.
const Json& get_member(const Json& object, std::string_view key);

}  // namespace headroom
