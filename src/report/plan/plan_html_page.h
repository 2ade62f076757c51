// The page of a plan, built from web/src/plan to one HTML file and embedded in the binary.
#pragma once

#include <string_view>

namespace headroom::report {

// The page without data; `<!--headroom:data-->` marks where the plan goes.
std::string_view plan_html_page();

}  // namespace headroom::report
