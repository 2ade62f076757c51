#include "attribution/device_memory.h"

#include <algorithm>
#include <functional>

#include "attribution/live_map.h"
#include "types/enum_names.h"

namespace headroom::attribution {

namespace {

// A damaged recording may contain any size; sums wrap instead of overflowing.
std::int64_t size_of(std::uint64_t bytes) {
  return static_cast<std::int64_t>(
      std::min<std::uint64_t>(bytes, std::uint64_t{1} << 60));  // more than any device has
}

std::vector<DeviceShare> shares_of(const auto& accounts, Mark peak_mark) {
  std::vector<DeviceShare> shares;
  for (const auto& [index, account] : accounts)
    shares.push_back({index, account.live.bytes_at(peak_mark), account.live.bytes, account.allocations,
                      account.allocated_bytes});
  std::ranges::stable_sort(shares, [](const DeviceShare& a, const DeviceShare& b) {
    return a.at_peak_bytes != b.at_peak_bytes ? a.at_peak_bytes > b.at_peak_bytes
                                              : a.allocated_bytes > b.allocated_bytes;
  });
  return shares;
}

}  // namespace

DeviceRest rest_of(const DeviceRefusal& refusal) {
  DeviceRest rest;
  rest.unknown = refusal.charged - refusal.own_bytes - refusal.rounding_bytes;
  for (const DeviceProcess& process : refusal.processes) {
    if (process.pid == 0)
      rest.kept = std::max<std::int64_t>(0, process.bytes - refusal.own_bytes - refusal.rounding_bytes);
    else
      rest.others.push_back(process);
    rest.unknown -= process.pid == 0 ? rest.kept : process.bytes;
  }
  rest.unknown = std::max<std::int64_t>(0, rest.unknown);
  rest.names_none = refusal.processes.empty();
  rest.has_more_processes = rest.others.size() >= recording::kMostOtherHolders;
  return rest;
}

Nanoseconds peak_time_of(const std::vector<DeviceFigures>& devices) {
  const auto fullest = std::max_element(
      devices.begin(), devices.end(),
      [](const DeviceFigures& a, const DeviceFigures& b) { return a.peak_bytes < b.peak_bytes; });
  return fullest != devices.end() ? fullest->peak_time : Nanoseconds{};
}

std::string_view name_of(DeviceMemoryKind kind) {
  return name_in({"device", "device", "array", "managed", "physical", "pool", "graph", "pinned_host",
                  "imported", "reservation", "mapping", "pool_reserved", "overhead", "graph_reserved",
                  "context", "driver_growth", "registered_host"},
                 kind);
}

DeviceLedgers::Device& DeviceLedgers::device(std::uint32_t ordinal) {
  const auto [at, is_new] = devices_.try_emplace(ordinal);
  Device& device = at->second;
  device.figures.ordinal = ordinal;
  if (!is_new) return device;
  if (const auto described = described_.find(ordinal); described != described_.end())
    device.memory = described->second;
  if (curve_points_ > 0) device.curve.emplace(curve_points_, expected_duration_);
  return device;
}

DeviceLedgers::DeviceLedgers(const recording::RecordingInfo& info, std::size_t curve_points)
    : curve_points_(curve_points), expected_duration_(info.duration) {
  for (const recording::Device& device : info.devices) {
    const bool is_known = device.granule_bytes > 0;
    described_[device.ordinal] = {device.integrated, is_known ? device.granule_bytes : kUsualGranule,
                                  is_known};
  }
}

void DeviceLedgers::visit(const MemoryEvent& event, LayerIndex layer, std::int64_t time) {
  Device& of = device(event.device);
  switch (event.kind) {
    case MemoryEventKind::device_allocate:
      return allocate(of, event, layer, time);
    case MemoryEventKind::device_release: {
      const auto found = of.blocks.find({event.device_kind, event.address});
      if (found == of.blocks.end()) {
        ++of.figures.unknown_releases;
        return;
      }
      const Block block = found->second;
      of.blocks.erase(found);
      return remove(of, event.device_kind, block, time);
    }
    case MemoryEventKind::device_refused:
      return refuse(of, event, layer, time);
    case MemoryEventKind::device_holder:
      return add_process(of, event);
    case MemoryEventKind::device_figure:
      return set_figure(of, event);
    default:
      return;
  }
}

void DeviceLedgers::allocate(Device& of, const MemoryEvent& event, LayerIndex layer, std::int64_t time) {
  const Block block{size_of(event.size), event.stack, layer};
  auto [at, is_new] = of.blocks.try_emplace({event.device_kind, event.address}, block);
  if (!is_new) {  // its release was not recorded
    remove(of, event.device_kind, at->second, time);
    at->second = block;
  }
  Kind& kind = of.kinds[static_cast<std::size_t>(event.device_kind)];
  ++kind.allocations;
  add_wrapping(kind.allocated_bytes, block.size);
  kind.live.change(block.size, 1, of.peak_mark);
  kind.peak_bytes = std::max(kind.peak_bytes, kind.live.bytes);
  if (!takes_device_memory(event.device_kind, of.memory.is_integrated)) return;
  for (Account* account : {&of.layers[layer], &of.stacks[event.stack.index]}) {
    account->live.change(block.size, 1, of.peak_mark);
    ++account->allocations;
    add_wrapping(account->allocated_bytes, block.size);
  }
  change_rounding(of, event.device_kind, block.size, 1);
  change_total(of, block.size, time);
  if (of.total <= of.figures.peak_bytes) return;
  of.figures.peak_bytes = of.total;
  of.figures.peak_time = {time};
  ++of.peak_mark;
}

void DeviceLedgers::change_rounding(Device& of, DeviceMemoryKind kind, std::int64_t block_bytes, int by) {
  if (of.memory.is_integrated) return;  // it uses the machine's pages
  const auto rounding = static_cast<std::int64_t>(
      rounding_of(kind, static_cast<std::uint64_t>(block_bytes), of.memory.granule_bytes));
  of.rounding.change(by * rounding, by, of.peak_mark);
}

void DeviceLedgers::change_total(Device& of, std::int64_t by, std::int64_t time) {
  const std::int64_t before = of.total;
  add_wrapping(of.total, by);
  if (of.curve) of.curve->changed(time, before, of.total);
}

void DeviceLedgers::remove(Device& of, DeviceMemoryKind memory, const Block& block, std::int64_t time) {
  Kind& kind = of.kinds[static_cast<std::size_t>(memory)];
  ++kind.releases;
  kind.live.change(-block.size, -1, of.peak_mark);
  if (!takes_device_memory(memory, of.memory.is_integrated)) return;
  of.layers[block.layer].live.change(-block.size, -1, of.peak_mark);
  of.stacks[block.stack.index].live.change(-block.size, -1, of.peak_mark);
  change_rounding(of, memory, block.size, -1);
  change_total(of, -block.size, time);
}

void DeviceLedgers::refuse(Device& of, const MemoryEvent& event, LayerIndex layer, std::int64_t time) {
  ++of.figures.refused_count;
  add_wrapping(of.figures.refused_bytes, size_of(event.size));
  of.last_refusals.erase(event.thread);
  if (of.figures.refusals.size() == kMostRefusalsKept) return;
  of.last_refusals[event.thread] = of.figures.refusals.size();
  DeviceRefusal refusal;
  refusal.time = {time};
  refusal.kind = event.device_kind;
  refusal.bytes = size_of(event.size);
  refusal.charged = size_of(event.count);
  refusal.limit = size_of(event.address);
  refusal.own_bytes = of.total;
  refusal.rounding_bytes = of.memory.charges_granules ? of.rounding.bytes : 0;
  refusal.stack = event.stack;
  refusal.layer = layer;
  for (const auto& [stack, account] : of.stacks)
    if (account.live.bytes > 0) refusal.holders.push_back({StackId{stack}, account.live.bytes});
  std::ranges::stable_sort(refusal.holders, std::greater<>(), &DeviceHolder::bytes);
  if (refusal.holders.size() > kMostHolders) refusal.holders.resize(kMostHolders);
  of.figures.refusals.push_back(std::move(refusal));
}

void DeviceLedgers::add_process(Device& of, const MemoryEvent& event) {
  const auto found = of.last_refusals.find(event.thread);
  if (found == of.last_refusals.end()) return;
  std::vector<DeviceProcess>& processes = of.figures.refusals[found->second].processes;
  if (processes.size() <= recording::kMostOtherHolders)
    processes.push_back(
        {static_cast<std::int64_t>(event.count & 0xffffffff), size_of(event.size), event.address != 0});
}

void DeviceLedgers::set_figure(Device& of, const MemoryEvent& event) {
  const std::int64_t bytes = size_of(event.size);
  DeviceFigures& figures = of.figures;
  const auto note_most = [bytes](std::optional<std::int64_t>& most) {
    most = std::max(bytes, most.value_or(0));
  };
  switch (event.device_kind) {
    case DeviceMemoryKind::overhead:  // 0 after the last context, as at a program's end
      return note_most(figures.overhead_bytes);
    case DeviceMemoryKind::context:
      return note_most(figures.context_bytes);
    case DeviceMemoryKind::driver_growth:
      if (bytes > 0) note_most(figures.driver_growth_bytes);
      return;
    case DeviceMemoryKind::graph_reserved:
      return note_most(figures.graph_reserved_peak_bytes);
    case DeviceMemoryKind::pool_reserved:
      figures.pool_reserved_end_bytes = bytes;
      return note_most(figures.pool_reserved_peak_bytes);
    default:
      return;
  }
}

std::int64_t DeviceLedgers::total_of(std::uint32_t ordinal) const {
  const auto found = devices_.find(ordinal);
  return found != devices_.end() ? found->second.total : 0;
}

std::int64_t DeviceLedgers::live_at(std::uint32_t ordinal, DeviceMemoryKind kind,
                                    std::uint64_t address) const {
  const auto of = devices_.find(ordinal);
  if (of == devices_.end()) return 0;
  const auto found = of->second.blocks.find({kind, address});
  return found != of->second.blocks.end() ? found->second.size : 0;
}

std::vector<DeviceFigures> DeviceLedgers::finish() const {
  std::vector<DeviceFigures> result;
  for (const auto& [ordinal, of] : devices_) {
    DeviceFigures figures = of.figures;
    figures.end_bytes = of.total;
    figures.rounding_at_peak_bytes = of.rounding.bytes_at(of.peak_mark);
    if (of.curve) figures.curve = of.curve->curve();
    for (std::size_t i = 0; i < kDeviceMemoryKinds; ++i) {
      if (of.kinds[i].allocations == 0) continue;
      DeviceKindFigures& kind = figures.kinds.emplace_back(of.kinds[i]);
      kind.kind = static_cast<DeviceMemoryKind>(i);
      kind.in_total = takes_device_memory(kind.kind, of.memory.is_integrated);
      kind.at_peak_bytes = of.kinds[i].live.bytes_at(of.peak_mark);
      kind.end_bytes = of.kinds[i].live.bytes;
      kind.end_blocks = of.kinds[i].live.blocks;
    }
    figures.layers = shares_of(of.layers, of.peak_mark);
    figures.stacks = shares_of(of.stacks, of.peak_mark);
    result.push_back(std::move(figures));
  }
  return result;
}

DeviceCurveBuilder::DeviceCurveBuilder(std::size_t most_points, Nanoseconds expected_duration)
    : most_points_(static_cast<std::int64_t>(std::max<std::size_t>(most_points, 2))),
      curve_{{std::max<std::int64_t>(1, expected_duration.count / most_points_ + 1)}, {}} {}

void DeviceCurveBuilder::changed(std::int64_t time, std::int64_t before, std::int64_t now) {
  time = std::max<std::int64_t>(time, 0);
  while (time / curve_.width.count >= most_points_) halve();
  const Nanoseconds start{time / curve_.width.count * curve_.width.count};
  std::vector<DeviceCurvePoint>& points = curve_.points;
  if (points.empty() || points.back().start < start) points.push_back({start, before, before, before});
  DeviceCurvePoint& point = points.back();
  point.lowest = std::min(point.lowest, now);
  point.highest = std::max(point.highest, now);
  point.last = now;
}

void DeviceCurveBuilder::halve() {
  curve_.width.count *= 2;
  std::vector<DeviceCurvePoint> joined;
  for (DeviceCurvePoint& point : curve_.points) {
    point.start.count -= point.start.count % curve_.width.count;
    if (joined.empty() || joined.back().start != point.start) {
      joined.push_back(point);
      continue;
    }
    DeviceCurvePoint& before = joined.back();
    before.lowest = std::min(before.lowest, point.lowest);
    before.highest = std::max(before.highest, point.highest);
    before.last = point.last;
  }
  curve_.points = std::move(joined);
}

}  // namespace headroom::attribution
