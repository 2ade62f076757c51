// GPU memory at one moment.
#include <fmt/format.h>

#include <algorithm>

#include "base/display_width.h"
#include "report/recording/device_words.h"
#include "report/recording/recording_devices.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"

namespace headroom::report {
namespace {

using namespace attribution;

constexpr std::size_t kMomentRows = 5, kMomentSharesInJson = 50;

// The shares that held something at the moment, the largest first.
std::vector<DeviceShare> live_shares(std::vector<DeviceShare> shares) {
  std::erase_if(shares, [](const DeviceShare& share) { return share.end_bytes == 0; });
  std::stable_sort(shares.begin(), shares.end(),
                   [](const DeviceShare& a, const DeviceShare& b) { return a.end_bytes > b.end_bytes; });
  return shares;
}

// `name(index, room)`: in at most `room` columns.
template <class Name>
void add_table(ScreenLines& screen, const char* title, const std::vector<DeviceShare>& shares,
               std::int64_t whole, Name name) {
  if (shares.empty()) return;
  screen.line(title);
  for (std::size_t i = 0; i < std::min(kMomentRows, shares.size()); ++i)
    screen.row(share_figures(shares[i].end_bytes, whole),
               [&](int room) { return name(shares[i].index, room); });
}

void add_device(ScreenLines& screen, const RecordingReport& report, const DeviceFigures& figures) {
  screen.heading(
      fmt::format("{}: {}", name_of_device(report, figures.ordinal), format_bytes({figures.end_bytes})));
  for (const DeviceKindFigures& kind : figures.kinds)
    if (kind.end_bytes > 0)
      screen.line(
          (kind.in_total ? share_figures(kind.end_bytes, figures.end_bytes)
                         : fmt::format("  {:>9} apart  ", format_bytes({kind.end_bytes}))) +
          fmt::format("{}: {}", words_for(kind.kind), words_for_count({kind.end_blocks}, "allocation")));
  const std::vector<DeviceShare> layers = live_shares(figures.layers);
  if (tells_layers(layers))
    add_table(screen, "Layers", layers, figures.end_bytes, [&](std::uint32_t index, int room) {
      return fit_path_to_width(name_of_layer(report, index), room);
    });
  add_table(screen, "Places", live_shares(figures.stacks), figures.end_bytes,
            [&](std::uint32_t index, int room) { return one_line_stack(report, StackId{index}, room); });
}

Json moment_shares_json(const RecordingReport& report, const std::vector<DeviceShare>& shares,
                        bool are_layers) {
  Json array = Json::array();
  for (const DeviceShare& share : live_shares(shares)) {
    if (array.size() == kMomentSharesInJson) break;
    Json object = {{"bytes", share.end_bytes}};
    if (are_layers)
      object["layer_name"] = path_of_layer(report, share.index);
    else
      object["frames"] = frames_of(report, StackId{share.index});
    array.push_back(std::move(object));
  }
  return array;
}

}  // namespace

void add_devices(ScreenLines& screen, const RecordingReport& report,
                 const std::vector<DeviceFigures>& at_moment) {
  for (const DeviceFigures& figures : at_moment) {
    const bool holds_any = std::any_of(figures.kinds.begin(), figures.kinds.end(),
                                       [](const DeviceKindFigures& kind) { return kind.end_bytes > 0; });
    if (holds_any) add_device(screen, report, figures);
  }
}

Json devices_json(const RecordingReport& report, const std::vector<DeviceFigures>& at_moment) {
  Json array = Json::array();
  for (const DeviceFigures& figures : at_moment) {
    Json object = {{"device", figures.ordinal}};
    if (const recording::Device* device = find_device(report, figures.ordinal)) {
      object["name"] = device->name;
      object["uuid"] = device->uuid;
    }
    object["bytes"] = figures.end_bytes;
    Json& kinds = object["kinds"] = Json::array();
    for (const DeviceKindFigures& kind : figures.kinds)
      if (kind.end_bytes > 0)
        kinds.push_back({{"kind", name_of(kind.kind)},
                         {"in_total", kind.in_total},
                         {"bytes", kind.end_bytes},
                         {"blocks", kind.end_blocks}});
    object["layers"] = moment_shares_json(report, figures.layers, true);
    object["stacks"] = moment_shares_json(report, figures.stacks, false);
    array.push_back(std::move(object));
  }
  return array;
}

}  // namespace headroom::report
