// Data in the pages of web/, as inert script elements.
//
// Data is never markup. Every '<' of the JSON becomes \u003c, which JSON reads back as '<': no name of a
// file, a model or a function can end the element ("</script>") or open a comment ("<!--") in it, and the
// pages only make text nodes of what they read. Their own security policy forbids every other script and all
// network use.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace headroom::report {

// `json` may be several lines of it. `attributes`, if any, begins with a space.
std::string data_element(std::string_view id, std::string_view json, std::string_view attributes = {});

// The page with the elements where its marker stands. Error: a page without a marker.
Result<std::string> page_with_data(std::string_view page, std::string_view elements);

}  // namespace headroom::report
