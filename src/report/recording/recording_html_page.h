// The page of a recording, built from web/src/recording to one HTML file and embedded in the binary.
#pragma once

#include <string_view>

namespace headroom::report {

// The page without data; `<!--headroom:data-->` marks where a recording's data goes.
std::string_view recording_html_page();

}  // namespace headroom::report
