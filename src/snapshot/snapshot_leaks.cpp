#include "snapshot/snapshot_leaks.h"

#include <algorithm>
#include <numeric>

namespace headroom::snapshot {
namespace {

// Less is noise: a handful of counters, a cache of handles.
constexpr std::int64_t kLeastGrowth = 64 << 10;

}  // namespace

FloorWatch::FloorWatch(std::size_t entries) {
  const auto count = static_cast<std::int64_t>(entries);
  windows_ = std::min(kMostWindows, count / kFewestEntriesOfAWindow);
  if (windows_ > 0)
    window_entries_ = (entries + static_cast<std::size_t>(windows_) - 1) / static_cast<std::size_t>(windows_);
}

FloorWatch::Series& FloorWatch::series_of(PlaceIndex place) {
  if (place.index >= series_.size()) {
    series_.resize(place.index + 1);
    start_.resize(place.index + 1);
  }
  return series_[place.index];
}

void FloorWatch::begin(PlaceIndex place, std::int64_t bytes, std::int64_t blocks) {
  Series& series = series_of(place);
  series.bytes += bytes;
  series.blocks += blocks;
  start_[place.index] += bytes;
  all_.bytes += bytes;
  start_all_ += bytes;
}

void FloorWatch::changed(std::size_t position, PlaceIndex place, std::int64_t by_bytes) {
  if (windows_ == 0) return;
  const auto window = static_cast<std::int32_t>(position / window_entries_);
  Series& series = series_of(place);
  note(series, window, by_bytes);
  note(all_, window, by_bytes);
  series.blocks += by_bytes > 0 ? 1 : -1;
}

void FloorWatch::note(Series& series, std::int32_t window, std::int64_t by_bytes) {
  if (series.floors.empty() || series.floors.back().window != window)
    series.floors.push_back({window, series.bytes, series.bytes, false});
  series.bytes += by_bytes;
  Floor& floor = series.floors.back();
  floor.bytes = std::min(floor.bytes, series.bytes);
  floor.end_bytes = series.bytes;
  if (by_bytes > 0) {
    floor.allocated = true;
    ++series.allocations;
  }
}

std::vector<std::int64_t> FloorWatch::floors_of(const Series& series, std::int64_t start_bytes) const {
  std::vector<std::int64_t> floors;
  std::int64_t live = start_bytes;
  std::size_t next = 0;
  for (std::int32_t window = 0; window < windows_; ++window) {
    if (next < series.floors.size() && series.floors[next].window == window) {
      floors.push_back(series.floors[next].bytes);
      live = series.floors[next++].end_bytes;
    } else {
      floors.push_back(live);
    }
  }
  return floors;
}

SnapshotLeaks FloorWatch::verdict(const AllocationPlaces& places) {
  SnapshotLeaks leaks;
  leaks.windows = windows_;
  leaks.entries_per_window = windows_ > 0 ? static_cast<std::int64_t>(window_entries_) : 0;
  if (windows_ < monitoring::kFewestCycles) return leaks;
  std::vector<std::int64_t> number(static_cast<std::size_t>(windows_));
  std::iota(number.begin(), number.end(), 1);
  leaks.floor_bytes = floors_of(all_, start_all_);
  const monitoring::SeriesGrowth all =
      monitoring::growth_of(number, leaks.floor_bytes, static_cast<double>(kLeastGrowth));
  const auto warm_up = all.warm_up;
  leaks.warm_up_windows = static_cast<std::int64_t>(warm_up);
  leaks.late_bytes = leaks.floor_bytes.back() - leaks.floor_bytes[warm_up];
  // What all places hold together is judged by those that hold it: a sum may grow because one thing came and
  // another did not yet go.
  leaks.growth = monitoring::Growth::none;
  for (std::uint32_t i = 0; i < series_.size() && i < places.size(); ++i) {
    const Series& series = series_[i];
    if (series.floors.empty()) continue;
    const auto floors = floors_of(series, start_[i]);
    monitoring::SeriesGrowth grown = monitoring::growth_of(number, floors, static_cast<double>(kLeastGrowth));
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

}  // namespace headroom::snapshot
