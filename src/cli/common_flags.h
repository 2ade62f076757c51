// Flags of several verbs: their help, and their values.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"
#include "cli/flag_table.h"
#include "ledger/account.h"
#include "symbols/symbolizer.h"
#include "watch/alert_rules_file.h"

namespace headroom::cli {

// --limit-mechanism; `limit_flag` sets the limit that it enforces.
Flag limit_mechanism_flag(const std::string& limit_flag);
// --sysroot DIR.
Flag sysroot_flag(std::string help = "read /proc and /sys under DIR");

// --color auto|always|never.
Flag color_flag();
ColorMode color_mode(const FlagValues& values);
// Standard output.
Screen screen_of(const FlagValues& values);

// --alerts FILE|default|off. Absent for off.
Flag alerts_flag(const char* default_text);
Status read_alerts(const FlagValues& values, const std::string& otherwise,
                   std::optional<watch::AlertSettings>& settings);

// A limit on GPU memory, if given: one size, or one for each device. An error names the place that set it.
Status read_device_limits(const FlagValues& values, std::string_view flag, ledger::Limits& limits);
// --share NAME, if given.
Status read_share_name(const FlagValues& values, std::string& share);
// --allow-no-gpu of `run` and `trace`. Fails if the command line has it without a GPU limit.
Flag allow_no_gpu_flag();
Status read_allow_no_gpu(const FlagValues& values, std::string_view limit_flag, bool& allow_no_gpu);

// --symbols DIR, any number of times.
Flag symbols_flag(const char* help = "also search DIR for symbol files; repeatable");
// Where to search for symbols. Fails if a folder is missing, because names would be missing silently.
Result<symbols::SymbolizerOptions> symbolizer_options(const FlagValues& values);
// Warns once of each module whose names are missing because its file changed or is gone
// (Symbolizer::problems()).
void warn_of_missing_symbols(std::vector<std::string> problems);

// Functions that make the views of a verb's result; a verb leaves out those that it does not have.
struct Views {
  std::function<std::string(bool color, int width)> terminal{};
  std::function<std::string()> json{}, markdown{}, csv{};
  std::function<Result<std::string>()> html{};
};

// Fails if two of --json, --csv and --markdown were given, or if --html names the input.
Status check_views(const FlagValues& values, const std::filesystem::path& input = {});

// Prints the view that a flag asks for, else the one for the terminal. Writes the page of --html, and prints
// its path if no flag asks for another view. Returns `exit_code`.
Result<int> print_views(const FlagValues& values, const Views& views, int exit_code = 0);

// Fails if `out` would replace the input or any recording; `flag` is the one that chooses another file.
Status check_output(const std::filesystem::path& out, const std::filesystem::path& input,
                    std::string_view flag);

}  // namespace headroom::cli
