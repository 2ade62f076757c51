#include "report/recording/recording_devices.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/display_width.h"
#include "report/recording/device_words.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"

namespace headroom::report {
namespace {

using namespace attribution;

constexpr std::size_t kRows = 5, kRefusals = 3, kHolders = 3, kSharesInJson = 50;

std::string bytes(std::int64_t count) { return format_bytes({count}); }

class DeviceScreen {
 public:
  DeviceScreen(ScreenLines& screen, const RecordingReport& report, const DeviceFigures& figures)
      : screen_(screen), report_(report), figures_(figures), device_(find_device(report, figures.ordinal)) {}

  void draw() {
    screen_.heading(heading());
    totals();
    kinds();
    layers();
    stacks();
    refusals();
  }

 private:
  void line(std::string_view text) { screen_.line(text); }
  void place(const std::string& figures, StackId stack) {
    screen_.row(figures, [&](int room) { return one_line_stack(report_, stack, room); });
  }
  std::string share(std::int64_t of_peak) const { return share_figures(of_peak, figures_.peak_bytes); }

  std::string heading() const {
    std::string text = name_of_device(report_, figures_.ordinal);
    if (device_ == nullptr) return text;
    if (device_->total_bytes > 0)
      text += fmt::format(", {}", bytes(static_cast<std::int64_t>(device_->total_bytes)));
    if (device_->limit_bytes)
      text += fmt::format(", limited to {}", bytes(static_cast<std::int64_t>(*device_->limit_bytes)));
    if (device_->proved_limit)
      text += fmt::format(" ({} according to the probe)", name_of(*device_->proved_limit));
    return text;
  }

  void totals() {
    line(fmt::format("Peak       {} at {}; {} live at the end", bytes(figures_.peak_bytes),
                     format_duration(figures_.peak_time), bytes(figures_.end_bytes)));
    if (device_ != nullptr && device_->integrated)
      line("           This GPU uses host memory: do not add its figures to the host's");
    if (figures_.pool_reserved_peak_bytes)
      line(fmt::format("Pools      reserved at most {}, {} at the end (driver's figures)",
                       bytes(*figures_.pool_reserved_peak_bytes), bytes(*figures_.pool_reserved_end_bytes)));
    if (figures_.graph_reserved_peak_bytes)
      line(fmt::format("Graphs     reserved at most {} (driver's figure)",
                       bytes(*figures_.graph_reserved_peak_bytes)));
    if (figures_.context_bytes)
      line(fmt::format("Contexts   {} in addition to the allocations, by difference",
                       bytes(*figures_.context_bytes)));
    if (figures_.driver_growth_bytes)
      line(fmt::format(
          "Driver     at most {} more later, by difference: kernels loaded at first launch, stacks, streams",
          bytes(*figures_.driver_growth_bytes)));
    if (figures_.rounding_at_peak_bytes > 0)
      line(fmt::format(
          "Granules   {} more at the peak: the driver rounds allocations over {} up to multiples of {}",
          bytes(figures_.rounding_at_peak_bytes), bytes(granule() / 2), bytes(granule())));
    if (figures_.overhead_bytes)
      line(fmt::format("Modules    at most {} in addition to the allocations, by difference",
                       bytes(*figures_.overhead_bytes)));
    if (figures_.refused_count > 0)
      line(fmt::format("Refused    {}, {} in total", words_for_count({figures_.refused_count}, "request"),
                       bytes(figures_.refused_bytes)));
  }

  void kinds() {
    for (const DeviceKindFigures& kind : figures_.kinds) {
      const std::string figures =
          kind.in_total ? share(kind.at_peak_bytes) : fmt::format("  {:>9} apart  ", bytes(kind.peak_bytes));
      line(figures + fmt::format("{}: {}, {} at the end", words_for(kind.kind),
                                 words_for_count({kind.allocations}, "allocation"), bytes(kind.end_bytes)));
    }
  }

  void layers() {
    if (!tells_layers(figures_.layers)) return;
    line("Layers");
    for (std::size_t i = 0; i < std::min(kRows, figures_.layers.size()); ++i) {
      const DeviceShare& layer = figures_.layers[i];
      if (layer.at_peak_bytes == 0) break;
      screen_.row(share(layer.at_peak_bytes),
                  [&](int room) { return fit_path_to_width(name_of_layer(report_, layer.index), room); });
    }
  }

  void stacks() {
    if (figures_.stacks.empty()) return;
    line("Places");
    for (std::size_t i = 0; i < std::min(kRows, figures_.stacks.size()); ++i)
      if (figures_.stacks[i].at_peak_bytes > 0)
        place(share(figures_.stacks[i].at_peak_bytes), StackId{figures_.stacks[i].index});
  }

  void refusals() {
    for (std::size_t i = 0; i < std::min(kRefusals, figures_.refusals.size()); ++i) {
      const DeviceRefusal& refusal = figures_.refusals[i];
      line(fmt::format("Refused at {}: {}, with {} of {} in use, from", format_duration(refusal.time),
                       bytes(refusal.bytes), bytes(refusal.charged), bytes(refusal.limit)));
      place("  ", refusal.stack);
      for (std::size_t k = 0; k < std::min(kHolders, refusal.holders.size()); ++k)
        place(fmt::format("  {:>9} held by  ", bytes(refusal.holders[k].bytes)), refusal.holders[k].stack);
      if (refusal.rounding_bytes > 0)
        line(fmt::format("  {:>9} lost to rounding up to multiples of {}", bytes(refusal.rounding_bytes),
                         bytes(granule())));
      rest(refusal);
    }
    if (figures_.refused_count > static_cast<std::int64_t>(kRefusals))
      line(fmt::format("  and {} more refusals",
                       grouped(figures_.refused_count - static_cast<std::int64_t>(kRefusals))));
  }

  // What is not of this process' allocations.
  void rest(const DeviceRefusal& refusal) {
    const DeviceRest rest = rest_of(refusal);
    const auto amount = [&](std::int64_t held, const std::string& by) {
      if (held > 0) line(fmt::format("  {:>9} {}", bytes(held), by));
    };
    amount(rest.kept, "reserved by pools, graphs and shared granules");
    for (const DeviceProcess& process : rest.others)
      amount(process.bytes, fmt::format("held by {}", words_for_process(report_, process)));
    amount(rest.unknown, std::string(words_for_unknown(rest)));
  }

  std::int64_t granule() const {
    const bool is_told = device_ != nullptr && device_->granule_bytes > 0;
    return static_cast<std::int64_t>(is_told ? device_->granule_bytes : kUsualGranule);
  }

  ScreenLines& screen_;
  const RecordingReport& report_;
  const DeviceFigures& figures_;
  const recording::Device* device_;
};

Json shares_json(const RecordingReport& report, const std::vector<DeviceShare>& shares, bool are_layers) {
  Json array = Json::array();
  for (std::size_t i = 0; i < std::min(kSharesInJson, shares.size()); ++i) {
    const DeviceShare& share = shares[i];
    Json object = {{"at_peak_bytes", share.at_peak_bytes},
                   {"at_end_bytes", share.end_bytes},
                   {"allocations", share.allocations},
                   {"allocated_bytes", share.allocated_bytes}};
    if (are_layers)
      object["layer_name"] = path_of_layer(report, share.index);
    else
      object["frames"] = frames_of(report, StackId{share.index});
    array.push_back(std::move(object));
  }
  return array;
}

Json refusal_json(const RecordingReport& report, const DeviceRefusal& refusal) {
  Json object = {{"time_seconds", refusal.time.seconds()},
                 {"kind", name_of(refusal.kind)},
                 {"requested_bytes", refusal.bytes},
                 {"charged_bytes", refusal.charged},
                 {"limit_bytes", refusal.limit},
                 {"own_bytes", refusal.own_bytes},
                 {"rounding_bytes", refusal.rounding_bytes},
                 {"frames", frames_of(report, refusal.stack)}};
  if (refusal.layer < report.analysis.layers.size() && refusal.layer != 0)
    object["layer_name"] = report.analysis.layers[refusal.layer].path;
  Json& holders = object["holders"] = Json::array();
  for (const DeviceHolder& holder : refusal.holders)
    holders.push_back({{"bytes", holder.bytes}, {"frames", frames_of(report, holder.stack)}});
  if (refusal.processes.empty()) return object;
  const DeviceRest rest = rest_of(refusal);
  object["kept_bytes"] = rest.kept;
  Json& processes = object["processes"] = Json::array();
  for (const DeviceProcess& process : rest.others) {
    Json& entry = processes.emplace_back(Json{{"pid", process.pid}, {"bytes", process.bytes}});
    if (process.is_elsewhere) entry["in_another_container"] = true;
    if (const std::string command = command_of(report, process); !command.empty()) entry["command"] = command;
  }
  return object;
}

// Columns, as in the heap's timeline.
Json curve_json(const DeviceCurve& curve) {
  Json json = {{"width_ns", curve.width.count},
               {"start_ns", Json::array()},
               {"lowest_bytes", Json::array()},
               {"highest_bytes", Json::array()},
               {"last_bytes", Json::array()}};
  for (const DeviceCurvePoint& point : curve.points) {
    json["start_ns"].push_back(point.start.count);
    json["lowest_bytes"].push_back(point.lowest);
    json["highest_bytes"].push_back(point.highest);
    json["last_bytes"].push_back(point.last);
  }
  return json;
}

Json device_json(const RecordingReport& report, const DeviceFigures& figures) {
  Json object = {{"device", figures.ordinal}};
  if (const recording::Device* device = find_device(report, figures.ordinal)) {
    object["name"] = device->name;
    object["uuid"] = device->uuid;
    object["total_bytes"] = device->total_bytes;
    if (device->limit_bytes) object["limit_bytes"] = *device->limit_bytes;
    object["integrated"] = device->integrated;
    object["shared_limit"] = device->shared_limit;
    if (device->proved_limit) object["limit_type"] = name_of(*device->proved_limit);
    if (device->granule_bytes > 0) object["granule_bytes"] = device->granule_bytes;
  }
  object["peak_bytes"] = figures.peak_bytes;
  object["peak_time_seconds"] = figures.peak_time.seconds();
  object["at_end_bytes"] = figures.end_bytes;
  object["unknown_releases"] = figures.unknown_releases;
  object["timeline"] = curve_json(figures.curve);
  set_if(object, "pool_reserved_peak_bytes", figures.pool_reserved_peak_bytes);
  set_if(object, "pool_reserved_at_end_bytes", figures.pool_reserved_end_bytes);
  set_if(object, "graph_reserved_peak_bytes", figures.graph_reserved_peak_bytes);
  set_if(object, "context_bytes", figures.context_bytes);
  set_if(object, "driver_growth_bytes", figures.driver_growth_bytes);
  if (figures.rounding_at_peak_bytes > 0) object["rounding_at_peak_bytes"] = figures.rounding_at_peak_bytes;
  set_if(object, "overhead_bytes", figures.overhead_bytes);
  Json& kinds = object["kinds"] = Json::array();
  for (const DeviceKindFigures& kind : figures.kinds)
    kinds.push_back({{"kind", name_of(kind.kind)},
                     {"in_total", kind.in_total},
                     {"at_peak_bytes", kind.at_peak_bytes},
                     {"peak_bytes", kind.peak_bytes},
                     {"at_end_bytes", kind.end_bytes},
                     {"at_end_blocks", kind.end_blocks},
                     {"allocations", kind.allocations},
                     {"deallocations", kind.releases},
                     {"allocated_bytes", kind.allocated_bytes}});
  object["layers"] = shares_json(report, figures.layers, true);
  object["stacks"] = shares_json(report, figures.stacks, false);
  object["refused_count"] = figures.refused_count;
  object["refused_bytes"] = figures.refused_bytes;
  Json& refusals = object["refusals"] = Json::array();
  for (const DeviceRefusal& refusal : figures.refusals) refusals.push_back(refusal_json(report, refusal));
  return object;
}

}  // namespace

void add_devices(ScreenLines& screen, const RecordingReport& report) {
  for (const DeviceFigures& figures : report.analysis.devices) DeviceScreen(screen, report, figures).draw();
}

Json devices_json(const RecordingReport& report) {
  Json array = Json::array();
  for (const DeviceFigures& figures : report.analysis.devices) array.push_back(device_json(report, figures));
  return array;
}

}  // namespace headroom::report
