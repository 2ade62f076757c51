// What GPUs held at one moment.
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

constexpr std::size_t kRows = 5, kSharesInJson = 50;
constexpr int kShortestPlace = 10;

// The shares that held something at the moment, the largest first.
std::vector<DeviceShare> live_shares(std::vector<DeviceShare> shares) {
  std::erase_if(shares, [](const DeviceShare& share) { return share.end_bytes == 0; });
  std::stable_sort(shares.begin(), shares.end(),
                   [](const DeviceShare& a, const DeviceShare& b) { return a.end_bytes > b.end_bytes; });
  return shares;
}

// One device at one moment.
class MomentSection {
 public:
  MomentSection(const RecordingReport& report, const DeviceFigures& figures, int width)
      : report_(report), figures_(figures), width_(width) {}

  DeviceSection draw() {
    section_.heading =
        fmt::format("{}: {}", name_of_device(report_, figures_.ordinal), format_bytes({figures_.end_bytes}));
    for (const DeviceKindFigures& kind : figures_.kinds)
      if (kind.end_bytes > 0)
        line((kind.in_total ? share(kind.end_bytes)
                            : fmt::format("  {:>9} apart  ", format_bytes({kind.end_bytes}))) +
             fmt::format("{}: {}", words_for(kind.kind), words_for_count({kind.end_blocks}, "allocation")));
    const std::vector<DeviceShare> layers = live_shares(figures_.layers);
    if (tells_layers(layers))
      table("Layers", layers, [&](std::uint32_t index, int room) {
        return fit_path_to_width(name_of_layer(report_, index), room);
      });
    table("Places", live_shares(figures_.stacks),
          [&](std::uint32_t index, int room) { return one_line_stack(report_, StackId{index}, room); });
    return std::move(section_);
  }

 private:
  void line(const std::string& text) { section_.lines.push_back(text); }
  std::string share(std::int64_t live) const {
    return fmt::format(
        "  {:>9} {:>3.0f} %  ", format_bytes({live}),
        100 * static_cast<double>(live) / static_cast<double>(std::max<std::int64_t>(1, figures_.end_bytes)));
  }
  // `name(index, room)`: in at most `room` columns.
  template <class Name>
  void table(const char* title, const std::vector<DeviceShare>& shares, Name name) {
    if (shares.empty()) return;
    line(title);
    for (std::size_t i = 0; i < std::min(kRows, shares.size()); ++i) {
      const std::string before = share(shares[i].end_bytes);
      line(before + name(shares[i].index, std::max(kShortestPlace, width_ - display_width(before))));
    }
  }

  const RecordingReport& report_;
  const DeviceFigures& figures_;
  int width_;
  DeviceSection section_;
};

Json moment_shares_json(const RecordingReport& report, const std::vector<DeviceShare>& shares,
                        bool are_layers) {
  Json array = Json::array();
  for (const DeviceShare& share : live_shares(shares)) {
    if (array.size() == kSharesInJson) break;
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

std::vector<DeviceSection> device_sections(const RecordingReport& report,
                                           const std::vector<DeviceFigures>& at_moment, int width) {
  std::vector<DeviceSection> sections;
  for (const DeviceFigures& figures : at_moment) {
    const bool holds_any = std::any_of(figures.kinds.begin(), figures.kinds.end(),
                                       [](const DeviceKindFigures& kind) { return kind.end_bytes > 0; });
    if (holds_any) sections.push_back(MomentSection(report, figures, width).draw());
  }
  return sections;
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
