#include "report/recording/recording_html.h"

#include <algorithm>

#include "report/page.h"
#include "report/recording/recording_html_live.h"

namespace headroom::report {
namespace {

// Names of templates can have kilobytes, and a program that gives each step's range a new name has a layer
// for each step. So the page limits both.
constexpr std::size_t kLongestNameShown = 240, kMostLayersShown = 4000;

FrameNames shortened(FrameNames names) {
  return [names = std::move(names)](std::uint64_t address) {
    std::vector<std::string> frames = names(address);
    for (std::string& name : frames)
      if (name.size() > kLongestNameShown) name = name.substr(0, kLongestNameShown) + "…";
    return frames;
  };
}

// The JSON of --json. If there are very many layers, those with the lowest peaks are left out; without
// figures of memory, those with the shortest times.
Json recording_data(const RecordingReport& report) {
  Json json = recording_to_json(report);
  Json& layers = json["layers"];
  if (layers.size() <= kMostLayersShown) return json;
  const char* const key = report.analysis.host_recorded ? "peak_allocated_bytes" : "duration_ms";
  const auto need = [&](const Json& layer) { return layer[key].get<double>(); };
  std::stable_sort(layers.begin(), layers.end(),
                   [&](const Json& a, const Json& b) { return need(a) > need(b); });
  const std::size_t left_out = layers.size() - kMostLayersShown;
  layers.erase(layers.begin() + kMostLayersShown, layers.end());
  json["layers_left_out"] = left_out;
  return json;
}

}  // namespace

std::string recording_to_html(const RecordingReport& report, const PageMoments& moments) {
  RecordingReport shown = report;
  shown.frame_names = shortened(report.frame_names);
  return page_with_data(Page::recording, {{"recording", to_line(recording_data(shown))},
                                          {"live", to_line(live_moments_json(shown, moments.live))},
                                          {"heap", to_line(heap_maps_json(shown, moments.heaps))}});
}

}  // namespace headroom::report
