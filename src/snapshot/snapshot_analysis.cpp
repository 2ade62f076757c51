#include "snapshot/snapshot_analysis.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "attribution/live_map.h"

namespace headroom::snapshot {

namespace {

// Less growth is noise: some counters, a cache of handles.
constexpr std::int64_t kLeastGrowth = 64 << 10;

// Finds leaks as memory that stays while a trace runs.
//
// A trace has no cycles, but a loop is visible: the memory of one iteration comes and goes. So the trace is
// cut into windows of equally many entries. The floor of a place is its minimum in a window. If a window
// contains an iteration, temporary memory is not part of the floor. Growing floors are judged like the ends
// of cycles in a recording (cycle_leaks.h): the first third is warm-up (weights, caches), and a leak keeps
// growing after it.
//
// A trace of a few iterations (one forward pass that keeps its activations) looks like a leak. So a leak must
// also allocate in most of the windows after the warm-up.
class FloorWatch {
 public:
  explicit FloorWatch(std::size_t entries)
      : windows_(std::min(kMostWindows, static_cast<std::int64_t>(entries) / kFewestEntriesOfAWindow)) {
    if (windows_ > 0)
      window_entries_ =
          (entries + static_cast<std::size_t>(windows_) - 1) / static_cast<std::size_t>(windows_);
  }

  // Adds a live block from before the trace. Call before the first change.
  void begin(PlaceIndex place, std::int64_t bytes) {
    for (Series* series : {&series_of(place), &all_}) {
      series->bytes += bytes;
      series->start_bytes += bytes;
      ++series->blocks;
    }
  }
  // Entry `position` changed the place's bytes.
  void changed(std::size_t position, PlaceIndex place, std::int64_t by_bytes) {
    if (windows_ == 0) return;
    const auto window = static_cast<std::int32_t>(position / window_entries_);
    note(series_of(place), window, by_bytes);
    note(all_, window, by_bytes);
  }

  SnapshotLeaks verdict(std::size_t places) const {
    SnapshotLeaks leaks;
    leaks.windows = windows_;
    leaks.entries_per_window = windows_ > 0 ? static_cast<std::int64_t>(window_entries_) : 0;
    if (windows_ < monitoring::kFewestCycles) return leaks;
    std::vector<std::int64_t> number(static_cast<std::size_t>(windows_));
    std::iota(number.begin(), number.end(), 1);
    leaks.floor_bytes = floors_of(all_);
    const auto warm_up =
        monitoring::growth_of(number, leaks.floor_bytes, static_cast<double>(kLeastGrowth)).warm_up;
    leaks.warm_up_windows = static_cast<std::int64_t>(warm_up);
    leaks.late_bytes = leaks.floor_bytes.back() - leaks.floor_bytes[warm_up];
    // The verdict is the worst of the places. Their sum may grow because one allocation came before another
    // one went.
    leaks.growth = monitoring::Growth::none;
    for (std::uint32_t i = 0; i < series_.size() && i < places; ++i) {
      const Series& series = series_[i];
      if (series.floors.empty()) continue;
      const auto floors = floors_of(series);
      monitoring::SeriesGrowth grown =
          monitoring::growth_of(number, floors, static_cast<double>(kLeastGrowth));
      const auto late_windows =
          static_cast<std::int64_t>(std::ranges::count_if(series.floors, [&](const Floor& floor) {
            return floor.allocated && static_cast<std::size_t>(floor.window) >= warm_up;
          }));
      if (grown.growth == monitoring::Growth::leak && 2 * late_windows < windows_ - leaks.warm_up_windows)
        grown.growth = monitoring::Growth::grew_late;
      if (grown.growth <= monitoring::Growth::none) continue;
      leaks.growth = std::max(leaks.growth, grown.growth);
      leaks.places.push_back({PlaceIndex{i}, grown.growth, grown.per_cycle, floors.front(), floors.back(),
                              floors.back() - floors[warm_up], series.allocations, series.blocks});
    }
    std::ranges::sort(leaks.places, [](const PlaceGrowth& a, const PlaceGrowth& b) {
      if (a.growth != b.growth) return a.growth > b.growth;
      return a.late_bytes != b.late_bytes ? a.late_bytes > b.late_bytes : a.place < b.place;
    });
    for (const PlaceGrowth& place : leaks.places)
      if (place.growth == monitoring::Growth::leak) leaks.bytes_per_window += place.bytes_per_window;
    return leaks;
  }

 private:
  static constexpr std::int64_t kMostWindows = 32, kFewestEntriesOfAWindow = 16;
  struct Floor {
    std::int32_t window = 0;
    std::int64_t bytes = 0, end_bytes = 0;  // the minimum in the window, and the bytes at its end
    bool allocated = false;
  };
  struct Series {
    std::int64_t start_bytes = 0;  // before the trace
    std::int64_t bytes = 0, blocks = 0, allocations = 0;
    std::vector<Floor> floors;  // of windows with changes
  };

  Series& series_of(PlaceIndex place) {
    if (place.index >= series_.size()) series_.resize(place.index + 1);
    return series_[place.index];
  }
  static void note(Series& series, std::int32_t window, std::int64_t by_bytes) {
    if (series.floors.empty() || series.floors.back().window != window)
      series.floors.push_back({window, series.bytes, series.bytes, false});
    series.bytes += by_bytes;
    series.blocks += by_bytes > 0 ? 1 : -1;
    Floor& floor = series.floors.back();
    floor.bytes = std::min(floor.bytes, series.bytes);
    floor.end_bytes = series.bytes;
    if (by_bytes > 0) {
      floor.allocated = true;
      ++series.allocations;
    }
  }
  std::vector<std::int64_t> floors_of(const Series& series) const {
    std::vector<std::int64_t> floors;
    std::int64_t live = series.start_bytes;
    auto next = series.floors.begin();
    for (std::int32_t window = 0; window < windows_; ++window) {
      const bool has_changes = next != series.floors.end() && next->window == window;
      floors.push_back(has_changes ? next->bytes : live);
      if (has_changes) live = next++->end_bytes;
    }
    return floors;
  }

  std::int64_t windows_;
  std::size_t window_entries_ = 1;
  Series all_;
  std::vector<Series> series_;  // by place
};

// A segment is created for a block, which is the next entry. Free memory in between is not idle.
bool awaits_its_block(const TraceEntry& entry) {
  return entry.action == Action::segment_alloc || entry.action == Action::segment_map;
}

// The first pass: figures of all entries, and the moments to examine.
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

  // The number of entries before the moment with the most idle memory in segments.
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
    state.for_each_block([&](const HeldBlock& block) {
      if (block.state != BlockState::active_allocated) return;
      const PlaceIndex place = device_.places.of(block.stack, block.requested);
      account_of(place).live.change(block.size, 1, mark_);
      floors_.begin(place, block.size);
    });
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
    device_.leaks = floors_.verdict(device_.places.size());
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

// Bytes of the largest places over the trace. This needs a second pass, which knows the highest moment of
// each point.
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
    before.for_each_block([&](const HeldBlock& block) {
      if (block.state == BlockState::active_allocated) change(block.stack, block.requested, block.size);
    });
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

// The second pass: examines chosen moments.
void examine_moments(const Snapshot& snapshot, const SnapshotOptions& options, SnapshotReplay replay,
                     std::size_t worst_position, std::vector<std::size_t> ooms, DeviceAnalysis& device) {
  const DeviceTrace* trace = snapshot.trace_of(device.device);
  const auto settled = [&](std::size_t position) {
    while (position > 0 && position < replay.entries() &&
           awaits_its_block(snapshot.entry(*trace, position - 1)))
      ++position;
    return position;
  };
  std::set<std::size_t> wanted{device.peak_position, worst_position, replay.entries()};
  const std::size_t count = std::max<std::size_t>(1, options.moments);
  for (std::size_t i = 0; i < count; ++i) wanted.insert(settled(replay.entries() * i / count));
  if (ooms.size() > kMostOoms) ooms.resize(kMostOoms);
  std::set<std::size_t> stops(wanted);
  stops.insert(ooms.begin(), ooms.end());
  PlaceCurves curves(device, options.timeline_places, replay.state());
  std::int64_t time_us = device.first_time_us;
  for (const std::size_t position : stops) {
    while (replay.position() < position) {
      const SnapshotReplay::Change change = replay.step();
      time_us = std::max(time_us, change.entry->time_us);
      curves.apply(change, replay.position(), replay.totals().allocated);
    }
    const DeviceState state = replay.state();
    if (std::ranges::binary_search(ooms, position)) {
      const TraceEntry& entry = snapshot.entry(*trace, position);
      device.ooms.push_back(
          autopsy_of(entry, snapshot.streams[entry.stream], state, replay.totals(), device.places));
      device.ooms.back().position = position;
    }
    if (!wanted.contains(position)) continue;
    SnapshotMoment& moment = device.moments.emplace_back(moment_of(state, replay.totals()));
    moment.position = position;
    moment.time_us = time_us;
    const std::size_t index = device.moments.size() - 1;
    if (position == device.peak_position) device.peak = index;
    if (moment.free_bytes > device.moments[device.worst].free_bytes) device.worst = index;
    if (options.visit) options.visit(device, moment, state);
  }
  device.end = device.moments.back();
}

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
    examine_moments(snapshot, options, replay, first.worst_position(), first.oom_positions(), device);
  }
  return devices;
}

}  // namespace headroom::snapshot
