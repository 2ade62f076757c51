// The page of `headroom serve`, built from web/src/live to one HTML file and embedded in the binary.
#pragma once

#include <string_view>

namespace headroom::report {

// It fetches its data from the server that it came from (docs/serve.md).
std::string_view live_page();

}  // namespace headroom::report
