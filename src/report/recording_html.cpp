#include "report/recording_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/recording_html_live.h"
#include "report/recording_html_page.h"

namespace headroom::report {
namespace {

// Names of templates reach kilobytes, and a program that names a range anew each step has a layer for each:
// so long and so many are shown.
constexpr std::size_t kLongestName = 240, kMostLayers = 4000;
constexpr std::string_view kDataMarker = "<!--headroom:data-->";

// Data is never markup, as in html.cpp: every '<' becomes \u003c, which JSON reads back as '<', so no
// function or layer name can end the element or open a comment in it.
std::string data_element(std::string_view id, const Json& data) {
  std::string safe;
  for (const char c : to_line(data)) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>\n", id, safe);
}

FrameNames shortened(FrameNames names) {
  return [names = std::move(names)](std::uint64_t address) {
    std::vector<std::string> frames = names(address);
    for (std::string& name : frames)
      if (name.size() > kLongestName) name = name.substr(0, kLongestName) + "…";
    return frames;
  };
}

// As --json has it, but for the layers that needed least by themselves where there are very many.
Json recording_data(const RecordingReport& report) {
  Json json = recording_to_json(report);
  Json& layers = json["layers"];
  if (layers.size() <= kMostLayers) return json;
  const auto need = [](const Json& layer) { return layer["peak_allocated_bytes"].get<std::int64_t>(); };
  std::stable_sort(layers.begin(), layers.end(),
                   [&](const Json& a, const Json& b) { return need(a) > need(b); });
  const std::size_t left_out = layers.size() - kMostLayers;
  layers.erase(layers.begin() + kMostLayers, layers.end());
  json["layers_left_out"] = left_out;
  return json;
}

}  // namespace

Result<std::string> recording_to_html(const RecordingReport& report, const PageMoments& moments) {
  const std::string_view page = recording_html_page();
  const std::size_t marker = page.find(kDataMarker);
  if (marker == std::string_view::npos)
    return internal_error("cannot write the page of a recording",
                          "the page built into this program has no place for data",
                          "rebuild web/ and Headroom from the same sources");
  RecordingReport shown = report;
  shown.frame_names = shortened(report.frame_names);
  std::string html(page.substr(0, marker));
  html += data_element("recording", recording_data(shown));
  html += data_element("live", live_moments_json(shown, moments.live));
  html += data_element("heap", heap_maps_json(shown, moments.heaps));
  html += page.substr(marker + kDataMarker.size());
  return html;
}

}  // namespace headroom::report
