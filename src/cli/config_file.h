// Flags from a TOML file (docs/configuration.md). Every key is a flag's name, with dashes or underscores;
// models, source and limits may also be tables.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/flag_table.h"

namespace headroom::cli {

// Reads the text of a file called `name` (for errors and origins). Relative paths of models and sources are
// taken from `folder`. Unknown keys and wrong types are errors with their line.
Result<FlagValues> parse_config(const Verb& verb, std::string_view text, const std::string& name,
                                const std::filesystem::path& folder);
Result<FlagValues> read_config_file(const Verb& verb, const std::filesystem::path& path);

// The merged values as TOML that reads back to the same, each with its origin as a comment (--dump-config).
std::string to_toml(const Verb& verb, const FlagValues& values);

}  // namespace headroom::cli
