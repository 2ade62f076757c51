// Parses TOML files, with errors that name the line. toml++ is expensive to compile: include this only to
// read TOML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#define TOML_EXCEPTIONS 0
// "[;" fails an assertion in parse_key() of toml++ 3.3. The branch after the assertion already reports it as
// a syntax error, so the assertion is disabled.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

#include "base/result.h"
#include "base/toml_characters.h"

namespace headroom {

// Returns usage errors with file and line. Read keys and texts of the table with without_stand_ins().
Result<toml::table> parse_toml(std::string_view text, const std::string& name);

// Makes usage errors that name the file and the line: "rules.toml:12: what; fix".
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
