// Reads the data in a page, as a browser does.
#pragma once

#include <numeric>
#include <string>

#include "base/json.h"
#include "support/test_support.h"

namespace headroom::test {

// A name that would end a data element, open a comment and start a script without escaping.
inline constexpr const char* kHostileName = "</script><!--<script>alert(1)</script>&amp;\"'";

// The text of a data element: from its start tag to the next end tag.
inline std::string element_text(const std::string& html, const std::string& id) {
  const std::size_t tag = html.find("<script type=\"application/json\" id=\"" + id + "\"");
  if (tag == std::string::npos) return "no element " + id;
  const std::size_t start = html.find('>', tag) + 1;
  return html.substr(start, html.find("</script", start) - start);
}

inline Json data_of(const std::string& html, const std::string& id) {
  auto json = parse_json(element_text(html, id));
  EXPECT_TRUE(json.has_value()) << id;
  return json ? *json : Json();
}

inline std::int64_t sum_of(const Json& figures) {
  return std::accumulate(
      figures.begin(), figures.end(), std::int64_t{0},
      [](std::int64_t total, const Json& figure) { return total + figure.get<std::int64_t>(); });
}

}  // namespace headroom::test
