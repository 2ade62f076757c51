// What a JSON document is, by the keys of its first level, without a tree of it in memory.
#pragma once

#include <istream>
#include <map>
#include <string>
#include <string_view>

namespace headroom {

struct JsonKeys {
  bool is_whole = false;              // one document, and nothing behind it but white space
  std::map<std::string, bool> lists;  // the keys of an object's first level, and which of them hold a list
  bool has(std::string_view key) const { return lists.contains(std::string(key)); }
  bool has_list(std::string_view key) const {
    const auto found = lists.find(std::string(key));
    return found != lists.end() && found->second;
  }
};

// Of a damaged document the keys before the damage. It takes the memory of the longest string in it, and
// keeps at most 1,000 keys.
JsonKeys read_json_keys(std::istream& document);
JsonKeys read_json_keys(std::string_view document);

}  // namespace headroom
