// Prints the views of a verb's result that its flags ask for.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/flag_table.h"

namespace headroom::cli {

// Functions that make the views; a verb leaves out those that it does not have.
struct Views {
  std::function<std::string(bool color, int width)> terminal;
  std::function<std::string()> json, markdown, csv;
  std::function<Result<std::string>()> html;
};

// Fails if two of --json, --csv and --markdown were given.
Status check_views(const FlagValues& values);

// Prints the view that a flag asks for, else the one for the terminal. Writes the page of --html, and prints
// its path if no flag asks for another view.
Status print_views(const FlagValues& values, const Views& views);

// Fails if `out` would replace the input or any recording; `flag` is the one that chooses another file.
Status check_output(const std::filesystem::path& out, const std::filesystem::path& input,
                    std::string_view flag);

}  // namespace headroom::cli
