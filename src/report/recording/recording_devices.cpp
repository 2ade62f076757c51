#include <fmt/format.h>
#include <algorithm>
#include <ranges>

#include "base/utf8.h"
#include "report/recording/recording_parts.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"
#include "report/words.h"

namespace headroom::report {

namespace {

using namespace attribution;

constexpr std::size_t kRows = 5, kRefusals = 3, kHolders = 3, kSharesInJson = 50;

std::string bytes(std::int64_t count) { return format_bytes({count}); }

std::string name_of_device(const RecordingReport& report, std::uint32_t ordinal) {
  const recording::Device* const device = find_device(report, ordinal);
  const std::string number = fmt::format("GPU {}", ordinal);
  return device == nullptr || device->name.empty() ? number : number + ", " + device->name;
}

std::string words_for_process(const RecordingReport& report, const attribution::DeviceProcess& process) {
  if (process.is_elsewhere) return fmt::format("process {} in another container", process.pid);
  const std::string command = command_of(report, process);
  return command.empty() ? fmt::format("process {}", process.pid)
                         : fmt::format("process {} ({})", process.pid, without_control_characters(command));
}

// Of those who hold DeviceRest::unknown.
std::string_view words_for_unknown(const attribution::DeviceRest& rest) {
  if (rest.names_none) return "held by other processes, pools, graphs or shared granules";
  return rest.has_more_processes ? "held by more processes" : "released by other processes in the meantime";
}

// The layers or the places that held most; `bytes` is the column. No layers if all memory is outside of any.
void add_shares(ScreenLines& screen, const RecordingReport& report, const std::vector<DeviceShare>& shares,
                bool are_layers, std::int64_t DeviceShare::*bytes, std::int64_t whole) {
  if (shares.empty() || (are_layers && shares.size() == 1 && shares[0].index == 0)) return;
  screen.line(are_layers ? "Layers" : "Places");
  for (const DeviceShare& share : first_of(shares, kRows))
    if (share.*bytes > 0)
      screen.row(share_figures(share.*bytes, whole), [&](int room) {
        return are_layers ? fit_path_to_width(name_of_layer(report, share.index), room)
                          : one_line_stack(report, StackId{share.index}, room);
      });
}

class DeviceScreen {
 public:
  DeviceScreen(ScreenLines& screen, const RecordingReport& report, const DeviceFigures& figures)
      : screen_(screen), report_(report), figures_(figures), device_(find_device(report, figures.ordinal)) {}

  void draw() {
    screen_.heading(heading());
    totals();
    kinds();
    add_shares(screen_, report_, figures_.layers, true, &DeviceShare::at_peak_bytes, figures_.peak_bytes);
    add_shares(screen_, report_, figures_.stacks, false, &DeviceShare::at_peak_bytes, figures_.peak_bytes);
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

  void refusals() {
    for (const DeviceRefusal& refusal : first_of(figures_.refusals, kRefusals)) {
      line(fmt::format("Refused at {}: {}, with {} of {} in use, from", format_duration(refusal.time),
                       bytes(refusal.bytes), bytes(refusal.charged), bytes(refusal.limit)));
      place("  ", refusal.stack);
      for (const DeviceHolder& holder : first_of(refusal.holders, kHolders))
        place(fmt::format("  {:>9} held by  ", bytes(holder.bytes)), holder.stack);
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

// What names the share: its layer, or its stack.
Json named(Json object, const RecordingReport& report, const DeviceShare& share, bool is_layer) {
  if (is_layer)
    object["layer_name"] = path_of_layer(report, share.index);
  else
    object["frames"] = frames_of(report, StackId{share.index});
  return object;
}

Json shares_json(const RecordingReport& report, const std::vector<DeviceShare>& shares, bool are_layers) {
  return json_list(first_of(shares, kSharesInJson), [&](const DeviceShare& share) {
    return named({{"at_peak_bytes", share.at_peak_bytes},
                  {"at_end_bytes", share.end_bytes},
                  {"allocations", share.allocations},
                  {"allocated_bytes", share.allocated_bytes}},
                 report, share, are_layers);
  });
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
  object["holders"] = json_list(refusal.holders, [&](const DeviceHolder& holder) -> Json {
    return {{"bytes", holder.bytes}, {"frames", frames_of(report, holder.stack)}};
  });
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
  using Point = DeviceCurvePoint;
  return {{"width_ns", curve.width.count},
          {"start_ns", json_list(curve.points, [](const Point& point) { return point.start.count; })},
          {"lowest_bytes", json_list(curve.points, [](const Point& point) { return point.lowest; })},
          {"highest_bytes", json_list(curve.points, [](const Point& point) { return point.highest; })},
          {"last_bytes", json_list(curve.points, [](const Point& point) { return point.last; })}};
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
  object["kinds"] = json_list(figures.kinds, [](const DeviceKindFigures& kind) -> Json {
    return {{"kind", name_of(kind.kind)},
            {"in_total", kind.in_total},
            {"at_peak_bytes", kind.at_peak_bytes},
            {"peak_bytes", kind.peak_bytes},
            {"at_end_bytes", kind.end_bytes},
            {"at_end_blocks", kind.end_blocks},
            {"allocations", kind.allocations},
            {"deallocations", kind.releases},
            {"allocated_bytes", kind.allocated_bytes}};
  });
  object["layers"] = shares_json(report, figures.layers, true);
  object["stacks"] = shares_json(report, figures.stacks, false);
  object["refused_count"] = figures.refused_count;
  object["refused_bytes"] = figures.refused_bytes;
  object["refusals"] = json_list(figures.refusals,
                                 [&](const DeviceRefusal& refusal) { return refusal_json(report, refusal); });
  return object;
}

// GPU memory at one moment.

// The shares that held something at the moment, the largest first.
std::vector<DeviceShare> live_shares(std::vector<DeviceShare> shares) {
  std::erase_if(shares, [](const DeviceShare& share) { return share.end_bytes == 0; });
  std::ranges::stable_sort(
      shares, [](const DeviceShare& a, const DeviceShare& b) { return a.end_bytes > b.end_bytes; });
  return shares;
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
  add_shares(screen, report, live_shares(figures.layers), true, &DeviceShare::end_bytes, figures.end_bytes);
  add_shares(screen, report, live_shares(figures.stacks), false, &DeviceShare::end_bytes, figures.end_bytes);
}

Json moment_shares_json(const RecordingReport& report, const std::vector<DeviceShare>& shares,
                        bool are_layers) {
  return json_list(first_of(live_shares(shares), kSharesInJson), [&](const DeviceShare& share) {
    return named({{"bytes", share.end_bytes}}, report, share, are_layers);
  });
}

}  // namespace

void add_devices(ScreenLines& screen, const RecordingReport& report) {
  for (const DeviceFigures& figures : report.analysis.devices) DeviceScreen(screen, report, figures).draw();
}

Json devices_json(const RecordingReport& report) {
  return json_list(report.analysis.devices,
                   [&](const DeviceFigures& figures) { return device_json(report, figures); });
}

void add_devices(ScreenLines& screen, const RecordingReport& report,
                 const std::vector<DeviceFigures>& at_moment) {
  for (const DeviceFigures& figures : at_moment) {
    const bool holds_any =
        std::ranges::any_of(figures.kinds, [](const DeviceKindFigures& kind) { return kind.end_bytes > 0; });
    if (holds_any) add_device(screen, report, figures);
  }
}

Json devices_json(const RecordingReport& report, const std::vector<DeviceFigures>& at_moment) {
  return json_list(at_moment, [&](const DeviceFigures& figures) {
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
    return object;
  });
}

}  // namespace headroom::report
