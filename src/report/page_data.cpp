#include "report/page_data.h"

#include <fmt/format.h>

namespace headroom::report {
namespace {

constexpr std::string_view kDataMarker = "<!--headroom:data-->";

}  // namespace

std::string data_element(std::string_view id, std::string_view json, std::string_view attributes) {
  std::string element = fmt::format("<script type=\"application/json\" id=\"{}\"{}>", id, attributes);
  element.reserve(element.size() + json.size() + json.size() / 64);
  for (const char c : json) {
    if (c == '<')
      element += "\\u003c";
    else
      element += c;
  }
  return element += "</script>\n";
}

Result<std::string> page_with_data(std::string_view page, std::string_view elements) {
  const std::size_t marker = page.find(kDataMarker);
  if (marker == std::string_view::npos)
    return internal_error("cannot write the HTML page", "the built-in page has no data marker",
                          "rebuild web/ and Headroom from the same sources");
  std::string html;
  html.reserve(page.size() + elements.size());
  html += page.substr(0, marker);
  html += elements;
  html += page.substr(marker + kDataMarker.size());
  return html;
}

}  // namespace headroom::report
