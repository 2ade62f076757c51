// Flags that several verbs have, with one help, one check and one reading of their values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/terminal.h"
#include "cli/flag_table.h"
#include "ledger/account.h"
#include "symbols/symbolizer.h"
#include "watch/alert_rules_file.h"

namespace headroom::cli {

// A flag of the one-screen help.
Flag make_flag(const char* name, FlagKind kind, const char* value_name, const char* help);

// --color auto|always|never.
Flag color_flag();
ColorMode color_mode(const FlagValues& values);
// Whether what is printed to standard output is coloured.
bool wants_color(const FlagValues& values);

// --alerts FILE|default|off. Nothing where they are off.
Flag alerts_flag(const char* default_text);
Result<std::optional<watch::AlertSettings>> alert_settings_from(const FlagValues& values,
                                                                const std::string& otherwise);

// A limit on GPU memory, of one size or one for each device; an error says where it was set.
Result<ledger::Limits> read_device_limits(const FlagValues& values, std::string_view flag);

// --symbols DIR, any number of times.
Flag symbols_flag(const char* help = "also search DIR for symbol files; repeatable");
// Where to look for symbols. An error for a folder that is not there: names would be missing without a word.
Result<symbols::SymbolizerOptions> symbolizer_options(const FlagValues& values);
// Warns of modules whose names are missing because their files have changed, or are gone
// (Symbolizer::problems()); of each once.
void warn_of_missing_symbols(std::vector<std::string> problems);

}  // namespace headroom::cli
