// Reads and writes JSON with nlohmann::json, keeping the order of keys. No function here throws. Headers that
// only pass JSON on include <nlohmann/json_fwd.hpp>.
#pragma once

#include <cmath>
#include <functional>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

// Compiled once, in json.cpp.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace headroom {

using Json = nlohmann::ordered_json;

// Parses one document. The error contains the byte offset. Invalid UTF-8 is an error. Hostile input can
// neither overflow the stack nor fill the memory: 64 levels, strings up to 1 MiB, values up to 128 MiB.
Result<Json> parse_json(std::string_view text, std::string_view what_it_is = "JSON");

// Parses the elements of a list one by one, each with the limits of parse_json().
Status parse_json_list(std::string_view text, std::string_view what_it_is,
                       const std::function<void(const Json& element)>& each);

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

// A list with one entry for each item.
template <class Items, class EntryOf>
Json json_list(const Items& items, EntryOf entry_of) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(entry_of(item));
  return list;
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

// Reads the keys of a JSON document's first level, to recognize its kind without keeping the document in
// memory.
struct JsonKeys {
  bool is_whole = false;              // one complete document, followed by white space only
  std::map<std::string, bool> lists;  // the object's first-level keys; true if the value is a list
  bool has(std::string_view key) const { return lists.count(std::string(key)) > 0; }
  bool has_list(std::string_view key) const {
    const auto found = lists.find(std::string(key));
    return found != lists.end() && found->second;
  }
};

// For a damaged document, returns the keys before the damage. Ends where parse_json() would reject the
// document. Keeps at most 1,000 keys.
JsonKeys read_json_keys(std::istream& document);
JsonKeys read_json_keys(std::string_view document);

}  // namespace headroom
