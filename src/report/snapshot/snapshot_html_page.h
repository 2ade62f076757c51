// The page of a memory snapshot, built from web/src/snapshot to one HTML file and embedded in the binary.
#pragma once

#include <string_view>

namespace headroom::report {

// The page without data; `<!--headroom:data-->` marks where a snapshot's data goes.
std::string_view snapshot_html_page();

}  // namespace headroom::report
