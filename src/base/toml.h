// TOML files: parsing, and errors that name the line. Heavy to include (toml++): only where TOML is read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#define TOML_EXCEPTIONS 0
// "[;" fails an assertion of toml++ 3.3 (parse_key) that its own next branch handles, as an error in the
// text.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

#include "base/result.h"
#include "base/toml_characters.h"

namespace headroom {

// Usage errors with file and line. Keys and texts of the table are read by without_stand_ins().
Result<toml::table> parse_toml(std::string_view text, const std::string& name);

// "rules.toml:12: what; fix"
class TomlErrors {
 public:
  explicit TomlErrors(std::string name) : name_(std::move(name)) {}
  std::string place(const toml::node& node) const;
  tl::unexpected<Error> wrong(const toml::node& node, const std::string& what,
                              const std::string& fix = {}) const;
  tl::unexpected<Error> unknown_key(const toml::node& node, const std::string& key,
                                    const std::vector<std::string>& known) const;

 private:
  std::string name_;
};

}  // namespace headroom
