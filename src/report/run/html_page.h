// The page of web/, built to one HTML file and embedded in the binary.
#pragma once

#include <string_view>

namespace headroom::report {

// The page without data; `<!--headroom:data-->` marks where a run's data goes.
std::string_view html_page();

}  // namespace headroom::report
