// Reads the keys of a JSON document's first level, to recognize its kind without keeping the document in
// memory.
#pragma once

#include <istream>
#include <map>
#include <string>
#include <string_view>

namespace headroom {

struct JsonKeys {
  bool is_whole = false;              // one complete document, followed by white space only
  std::map<std::string, bool> lists;  // the object's first-level keys; true if the value is a list
  bool has(std::string_view key) const { return lists.contains(std::string(key)); }
  bool has_list(std::string_view key) const {
    const auto found = lists.find(std::string(key));
    return found != lists.end() && found->second;
  }
};

// For a damaged document, returns the keys before the damage. Memory use is bounded by the longest string.
// Keeps at most 1,000 keys.
JsonKeys read_json_keys(std::istream& document);
JsonKeys read_json_keys(std::string_view document);

}  // namespace headroom
