// Finds keys of a --json document that its page in docs/ does not name.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "cli/command.h"

namespace headroom::test {

// Every key of a document, at any depth.
inline void add_keys(const Json& json, std::set<std::string>& keys) {
  if (json.is_object())
    for (const auto& [key, value] : json.items()) keys.insert(key);
  if (json.is_structured())
    for (const Json& value : json) add_keys(value, keys);
}

// The keys that the page does not name in backticks. Common endings (units, and the bounds of estimates) are
// explained once for all keys.
inline std::set<std::string> undocumented_keys(const Json& document, const std::string& page) {
  const std::string text = read_text(std::filesystem::path(test::source_path("docs")) / page);
  const auto is_named = [&](std::string_view key) {
    return text.find("`" + std::string(key)) != std::string::npos;
  };
  std::set<std::string> keys, unnamed;
  add_keys(document, keys);
  for (const std::string& key : keys) {
    std::string_view stem = key;
    for (const std::string_view end :
         {"_standard_error", "_at_most", "_at_least", "_bytes", "_ns", "_per_second"})
      if (!is_named(stem) && stem.ends_with(end)) stem.remove_suffix(end.size());
    if (!is_named(stem)) unnamed.insert(key);
  }
  return unnamed;
}

}  // namespace headroom::test
