// `headroom --version --verbose`: which plug-ins, preload libraries and helper programs there are.
#pragma once

#include <string>

namespace headroom::cli {

// A line for each: where it was found and whether it can be loaded, or else how to get it. Then the folders
// that were searched. Loads all plug-ins and starts their runtimes.
std::string installed_parts_text();

}  // namespace headroom::cli
