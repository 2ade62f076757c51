// How many columns a text takes on a terminal, independent of the process's locale.
#pragma once

#include <string>
#include <string_view>

namespace headroom {

// East Asian wide characters and emoji take 2 columns, combining marks none, all others 1.
int display_width(std::string_view utf8);

// At most `width` columns: a longer text ends in "…". Control characters become spaces and invalid UTF-8
// becomes "?", so that a file name cannot steer the terminal.
std::string fit_to_width(std::string_view utf8, int width);

// The first `width` columns, cut between characters and without "…": for names of which a begin is enough, as
// of a commit. Control characters and invalid UTF-8 as above.
std::string begin_of(std::string_view utf8, int width);

// All of it, with control characters and invalid UTF-8 as above.
std::string harmless(std::string_view utf8);

// The same for names joined by slashes, of which the last tell most: those at the front are left out,
// "…/layer4/1/conv2". Of a last name that does not fit the end is kept.
std::string fit_path_to_width(std::string_view utf8, int width);

// Lines of at most `width` columns, broken at spaces; a word longer than a line is cut by fit_to_width. Lines
// after the first start with `indent` spaces, which count.
std::string wrap(std::string_view utf8, int width, int indent);

}  // namespace headroom
