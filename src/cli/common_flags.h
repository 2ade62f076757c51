// Flags of several verbs: their help, and their values.
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

// A flag of any kind.
Flag make_flag(const char* name, FlagKind kind, const char* value_name, const char* help);

// --limit-mechanism; `limit_flag` sets the limit that it enforces.
Flag limit_mechanism_flag(const std::string& limit_flag);
// --sysroot DIR.
Flag sysroot_flag(std::string help = "read /proc and /sys under DIR");

// --color auto|always|never.
Flag color_flag();
ColorMode color_mode(const FlagValues& values);
// Whether standard output is colored.
bool wants_color(const FlagValues& values);

// --alerts FILE|default|off. Absent for off.
Flag alerts_flag(const char* default_text);
Result<std::optional<watch::AlertSettings>> alert_settings_from(const FlagValues& values,
                                                                const std::string& otherwise);

// A limit on GPU memory: one size, or one for each device. An error names the place that set it.
Result<ledger::Limits> read_device_limits(const FlagValues& values, std::string_view flag);

// --symbols DIR, any number of times.
Flag symbols_flag(const char* help = "also search DIR for symbol files; repeatable");
// Where to search for symbols. Fails if a folder is missing, because names would be missing silently.
Result<symbols::SymbolizerOptions> symbolizer_options(const FlagValues& values);
// Warns once of each module whose names are missing because its file changed or is gone
// (Symbolizer::problems()).
void warn_of_missing_symbols(std::vector<std::string> problems);

}  // namespace headroom::cli
