// Parses TOML files, with errors that name the line. toml++ is expensive to compile: include this only to
// read TOML.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#define TOML_EXCEPTIONS 0
// "[;" fails an assertion in parse_key() of toml++ 3.3. The branch after the assertion already reports it as
// a syntax error, so the assertion is disabled.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

#include "base/result.h"

namespace headroom {

// Returns usage errors with file and line. Read keys and texts of the table with without_stand_ins().
Result<toml::table> parse_toml(std::string_view text, const std::string& name);

// Reads values. Usage errors name the file and the line: "rules.toml:12: what; fix".
class TomlReader {
 public:
  // Reads the value of a key.
  using ReadValue = std::function<Status(const toml::node& node, const std::string& key)>;

  explicit TomlReader(std::string name) : name_(std::move(name)) {}

  // Calls the reader of each key of the table; other keys are errors.
  Status read_keys(const toml::table& table, const std::map<std::string, ReadValue>& readers) const;
  // [[header]]
  Status read_tables(const toml::node& node, const std::string& header,
                     const std::function<Status(const toml::table& table)>& read) const;
  // Texts must not be empty, lists may be.
  Status read(const toml::node& node, const std::string& key, std::string& text) const;
  Status read(const toml::node& node, const std::string& key, std::vector<std::string>& texts) const;
  Status read(const toml::node& node, const std::string& key, bool& value) const;
  template <class Value>
  ReadValue into(Value& target) const {
    return
        [this, &target](const toml::node& node, const std::string& key) { return read(node, key, target); };
  }

  std::string place(const toml::node& node) const;
  tl::unexpected<Error> wrong(const toml::node& node, const std::string& what,
                              const std::string& fix = {}) const;
  tl::unexpected<Error> unknown_key(const toml::node& node, const std::string& key,
                                    const std::vector<std::string>& known) const;

 private:
  std::string name_;
};

// Restores the characters that parse_toml() hides from toml++ behind stand-ins (toml.cpp). Others stay.
std::string without_stand_ins(std::string_view text);

}  // namespace headroom
