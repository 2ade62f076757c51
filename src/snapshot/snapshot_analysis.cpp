#include "snapshot/snapshot_analysis.h"

#include <algorithm>
#include <set>

#include "attribution/live_counter.h"

namespace headroom::snapshot {
namespace {

// A segment comes for the sake of a block, which is the next entry: what is free in between is not idle.
bool awaits_its_block(const TraceEntry& entry) {
  return entry.action == Action::segment_alloc || entry.action == Action::segment_map;
}

// The first pass: figures of all entries. It learns which moments are worth a look.
class FirstPass {
 public:
  FirstPass(SnapshotReplay replay, const SnapshotOptions& options, DeviceAnalysis& device)
      : device_(device), replay_(std::move(replay)), floors_(replay_.entries()) {
    const std::size_t points = std::max<std::size_t>(1, options.timeline_points);
    device.timeline.entries_per_point =
        static_cast<std::int64_t>(std::max<std::size_t>(1, (replay_.entries() + points - 1) / points));
  }

  void run() {
    begin();
    while (!replay_.at_end()) apply(replay_.step());
    finish();
  }

  // After how many entries most lay idle in segments.
  std::size_t worst_position() const { return worst_position_; }
  const std::vector<std::size_t>& oom_positions() const { return oom_positions_; }

 private:
  struct Account {
    attribution::LiveCounter live;
    std::int64_t allocations = 0, allocated_bytes = 0;
  };
  Account& account_of(PlaceIndex place) {
    if (place.index >= accounts_.size()) accounts_.resize(place.index + 1);
    return accounts_[place.index];
  }

  void begin() {
    device_.before = replay_.totals();
    const DeviceState state = replay_.state();
    for (const auto* blocks : {&state.blocks, &state.loose})
      for (const HeldBlock& block : *blocks) {
        if (block.state != BlockState::active_allocated) continue;
        const PlaceIndex place = device_.places.of(block.stack, block.requested);
        account_of(place).live.change(block.size, 1, mark_);
        floors_.begin(place, block.size, 1);
      }
    ++mark_;
    device_.peak_allocated_bytes = replay_.totals().allocated;
    device_.peak_reserved_bytes = replay_.totals().reserved;
    worst_free_ = free_now();
  }

  std::int64_t free_now() const { return replay_.totals().reserved - replay_.totals().active; }

  void apply(const SnapshotReplay::Change& change) {
    const TraceEntry& entry = *change.entry;
    const std::size_t position = replay_.position();
    ++device_.actions[static_cast<std::size_t>(entry.action)];
    if (device_.first_time_us == 0) device_.first_time_us = entry.time_us;
    device_.last_time_us = std::max(device_.last_time_us, entry.time_us);
    if (change.block_bytes > 0) {
      const PlaceIndex place = device_.places.of(change.stack, change.requested);
      const bool allocated = entry.action == Action::alloc;
      const std::int64_t bytes = allocated ? change.block_bytes : -change.block_bytes;
      Account& account = account_of(place);
      account.live.change(bytes, allocated ? 1 : -1, mark_);
      if (allocated) {
        ++account.allocations;
        account.allocated_bytes += bytes;
      }
      floors_.changed(position - 1, place, bytes);
    }
    if (entry.action == Action::oom) oom_positions_.push_back(position - 1);
    const DeviceTotals& totals = replay_.totals();
    if (totals.allocated > device_.peak_allocated_bytes) {
      device_.peak_allocated_bytes = totals.allocated;
      device_.peak_position = position;
      ++mark_;
    }
    device_.peak_reserved_bytes = std::max(device_.peak_reserved_bytes, totals.reserved);
    if (!awaits_its_block(entry) && free_now() > worst_free_) {
      worst_free_ = free_now();
      worst_position_ = position;
    }
    add_to_timeline(entry.time_us, totals);
  }

  void add_to_timeline(std::int64_t time_us, const DeviceTotals& totals) {
    SnapshotTimeline& timeline = device_.timeline;
    if (points_left_ == 0) {
      points_left_ = timeline.entries_per_point;
      timeline.points.push_back({time_us, totals.allocated, totals.allocated, totals.reserved});
    }
    --points_left_;
    SnapshotTimeline::Point& point = timeline.points.back();
    point.lowest = std::min(point.lowest, totals.allocated);
    point.highest = std::max(point.highest, totals.allocated);
    point.reserved = std::max(point.reserved, totals.reserved);
  }

  void finish() {
    device_.entries = static_cast<std::int64_t>(replay_.entries());
    device_.doubt = replay_.doubt();
    for (std::uint32_t i = 0; i < accounts_.size(); ++i) {
      const Account& account = accounts_[i];
      PlaceFigures figures{PlaceIndex{i},
                           account.live.bytes,
                           account.live.blocks,
                           account.live.bytes_at(mark_),
                           account.live.blocks_at(mark_),
                           account.allocations,
                           account.allocated_bytes};
      if (figures.live_bytes > 0 || figures.peak_bytes > 0 || figures.allocations > 0)
        device_.figures.push_back(figures);
    }
    std::ranges::stable_sort(device_.figures, std::greater<>(), &PlaceFigures::live_bytes);
    device_.leaks = floors_.verdict(device_.places);
    device_.oom_count = static_cast<std::int64_t>(oom_positions_.size());
  }

  DeviceAnalysis& device_;
  SnapshotReplay replay_;
  FloorWatch floors_;
  std::vector<Account> accounts_;  // by place
  attribution::Mark mark_ = 1;
  std::int64_t worst_free_ = 0, points_left_ = 0;
  std::size_t worst_position_ = 0;
  std::vector<std::size_t> oom_positions_;
};

// What the leading places held over the trace, while it is gone through again: the highest moment of each
// stretch is known by then.
class PlaceCurves {
 public:
  PlaceCurves(DeviceAnalysis& device, std::size_t most, const DeviceState& before) : device_(device) {
    std::vector<std::pair<std::int64_t, std::uint32_t>> order;
    for (const PlaceFigures& figures : device.figures)
      order.emplace_back(-std::max(figures.peak_bytes, figures.live_bytes), figures.place.index);
    std::ranges::sort(order);
    order.resize(std::min(order.size(), device.timeline.points.empty() ? 0 : most));
    for (const auto& [held, place] : order)
      if (held < 0) device.timeline.places.push_back({place});
    if (device.timeline.places.empty()) return;
    row_of_.assign(device.places.size(), kNone);
    for (std::size_t i = 0; i < device.timeline.places.size(); ++i)
      row_of_[device.timeline.places[i].index] = static_cast<std::uint32_t>(i);
    held_.resize(device.timeline.places.size());
    device.timeline.place_bytes.resize(device.timeline.points.size());
    for (const auto* blocks : {&before.blocks, &before.loose})
      for (const HeldBlock& block : *blocks)
        if (block.state == BlockState::active_allocated) change(block.stack, block.requested, block.size);
  }

  void apply(const SnapshotReplay::Change& step, std::size_t position, std::int64_t allocated) {
    if (held_.empty()) return;
    if (step.block_bytes > 0)
      change(step.stack, step.requested,
             step.entry->action == Action::alloc ? step.block_bytes : -step.block_bytes);
    const std::size_t point = (position - 1) / static_cast<std::size_t>(device_.timeline.entries_per_point);
    auto& bytes = device_.timeline.place_bytes[point];
    if (bytes.empty() && allocated == device_.timeline.points[point].highest) bytes = held_;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  void change(StackIndex stack, std::int64_t requested, std::int64_t bytes) {
    const PlaceIndex place = device_.places.of(stack, requested);
    if (place.index < row_of_.size() && row_of_[place.index] != kNone) held_[row_of_[place.index]] += bytes;
  }

  DeviceAnalysis& device_;
  std::vector<std::uint32_t> row_of_;  // by place
  std::vector<std::int64_t> held_;
};

// The second pass: what lay where at chosen moments.
class MomentPass {
 public:
  MomentPass(const Snapshot& snapshot, const SnapshotOptions& options, SnapshotReplay replay,
             DeviceAnalysis& device)
      : snapshot_(snapshot),
        options_(options),
        replay_(std::move(replay)),
        device_(device),
        curves_(device, options.timeline_places, replay_.state()) {}

  // `worst_position`: after so many entries most lay idle.
  void run(std::size_t worst_position, std::vector<std::size_t> ooms) {
    std::set<std::size_t> wanted{device_.peak_position, worst_position, replay_.entries()};
    const std::size_t count = std::max<std::size_t>(1, options_.moments);
    for (std::size_t i = 0; i < count; ++i) wanted.insert(settled(replay_.entries() * i / count));
    if (ooms.size() > kMostOoms) ooms.resize(kMostOoms);
    std::set<std::size_t> stops(wanted);
    stops.insert(ooms.begin(), ooms.end());
    time_us_ = device_.first_time_us;
    for (const std::size_t position : stops) {
      while (replay_.position() < position) {
        const SnapshotReplay::Change change = replay_.step();
        time_us_ = std::max(time_us_, change.entry->time_us);
        curves_.apply(change, replay_.position(), replay_.totals().allocated);
      }
      const DeviceState state = replay_.state();
      if (std::ranges::binary_search(ooms, position)) examine_oom(state);
      if (wanted.contains(position)) look_at(state);
    }
    device_.end = device_.moments.back();
  }

 private:
  std::size_t settled(std::size_t position) const {
    const DeviceTrace* trace = snapshot_.trace_of(device_.device);
    while (position > 0 && position < replay_.entries() &&
           awaits_its_block(snapshot_.entry(*trace, position - 1)))
      ++position;
    return position;
  }

  void examine_oom(const DeviceState& state) {
    const TraceEntry& entry = snapshot_.entry(*snapshot_.trace_of(device_.device), replay_.position());
    OomAutopsy& oom = device_.ooms.emplace_back(
        autopsy_of(entry, snapshot_.streams[entry.stream], state, replay_.totals(), device_.places));
    oom.position = replay_.position();
  }

  void look_at(const DeviceState& state) {
    SnapshotMoment& moment = device_.moments.emplace_back(moment_of(state, replay_.totals()));
    moment.position = replay_.position();
    moment.time_us = time_us_;
    const std::size_t index = device_.moments.size() - 1;
    if (moment.position == device_.peak_position) device_.peak = index;
    if (moment.free_bytes > device_.moments[device_.worst].free_bytes) device_.worst = index;
    if (options_.visit) options_.visit(device_, moment, state);
  }

  const Snapshot& snapshot_;
  const SnapshotOptions& options_;
  SnapshotReplay replay_;
  DeviceAnalysis& device_;
  PlaceCurves curves_;
  std::int64_t time_us_ = 0;
};

void set_end_figures(const Snapshot& snapshot, DeviceAnalysis& device) {
  for (const Segment& segment : snapshot.segments_of(device.device)) {
    ++device.segments;
    device.reserved_bytes += segment.size;
    for (const Block& block : snapshot.blocks_of(segment)) {
      device.requested_bytes += block.requested;
      if (block.state == BlockState::pending_free) device.pending_bytes += block.size;
      if (block.state != BlockState::active_allocated) continue;
      device.live_bytes += block.size;
      ++device.live_blocks;
    }
  }
}

}  // namespace

std::vector<DeviceAnalysis> analyze_snapshot(const Snapshot& snapshot, const SnapshotOptions& options) {
  std::vector<DeviceAnalysis> devices;
  for (const std::int64_t ordinal : snapshot.devices()) {
    DeviceAnalysis& device = devices.emplace_back();
    device.device = ordinal;
    set_end_figures(snapshot, device);
    const SnapshotReplay replay(snapshot, ordinal);
    FirstPass first(replay, options, device);
    first.run();
    MomentPass(snapshot, options, replay, device).run(first.worst_position(), first.oom_positions());
  }
  return devices;
}

}  // namespace headroom::snapshot
