// The pages of web/: each is one HTML file, embedded in the binary, with a marker where the data goes.
//
// The data stands in inert script elements and is never markup. Every '<' of the JSON becomes \u003c, which
// JSON reads back as '<'. So no name of a file, a model or a function can end the element ("</script>") or
// open a comment ("<!--"). The security policy of the pages forbids every other script, and all network use
// except that the live page reads from its own server.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headroom::report {

enum class Page { report, recording, snapshot, plan, live, history, watch };

std::string_view empty_page(Page page);

struct PageData {
  std::string_view id;          // of the script element
  std::string json;             // may have several lines
  std::string attributes = {};  // begin with a space
};

std::string page_with_data(Page page, const std::vector<PageData>& data);

}  // namespace headroom::report
