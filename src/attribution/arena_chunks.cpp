#include "attribution/arena_chunks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "attribution/live_block.h"
#include "attribution/peak_shares.h"

namespace headroom::attribution {
namespace {

// The arena takes memory in multiples of this.
constexpr std::uint64_t kArenaUnit = 256;
// The profile counts in microseconds, and its zero is known about as well.
constexpr std::int64_t kClockError = 1'000'000;  // ns
// An arena takes memory seldom. A place that allocates more often than this in all, or within the error of
// the clock, is none, and costs no more.
constexpr std::size_t kMostSteps = 1 << 16, kMostAtOnce = 256;

// What the arena held at a moment, by the profile.
struct ArenaPoint {
  std::int64_t time = 0;  // ns
  std::int64_t held = 0;  // bytes
};

// Only where it changed, and the first and the last. By time.
std::vector<ArenaPoint> points_of(const recording::RuntimeProfile& profile) {
  std::vector<ArenaPoint> all, points;
  for (const recording::NodeRun& run : profile.data.runs)
    if (run.arena_held)
      all.push_back({profile.start.count + run.start.count + run.duration.count, run.arena_held->count});
  std::stable_sort(all.begin(), all.end(),
                   [](const ArenaPoint& a, const ArenaPoint& b) { return a.time < b.time; });
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i == 0 || i + 1 == all.size() || all[i].held != all[i - 1].held || all[i].held != all[i + 1].held)
      points.push_back(all[i]);
  return points;
}

// Live bytes of what one place allocated for the sessions of one name.
class PlaceAccount {
 public:
  void change(std::int64_t time, std::int64_t bytes) {
    const std::int64_t before = steps_.empty() ? 0 : steps_.back().held;
    steps_.push_back({time, before + bytes});
  }
  bool is_too_often() const { return steps_.size() > kMostSteps; }
  // All that it can have been at about this time; nothing where that is too much.
  std::vector<std::int64_t> about(std::int64_t time) const {
    const auto is_before = [](std::int64_t at, const ArenaPoint& step) { return at < step.time; };
    auto step = std::upper_bound(steps_.begin(), steps_.end(), time - kClockError, is_before);
    std::vector<std::int64_t> sums{step == steps_.begin() ? 0 : std::prev(step)->held};
    for (; step != steps_.end() && step->time <= time + kClockError; ++step) {
      if (sums.size() == kMostAtOnce) return {};
      sums.push_back(step->held);
    }
    return sums;
  }
  // Whether it has what the arena held at all these moments, but for `rest`.
  bool explains(const std::vector<ArenaPoint>& points, std::int64_t rest) const {
    return std::all_of(points.begin(), points.end(), [&](const ArenaPoint& point) {
      const std::vector<std::int64_t> sums = about(point.time);
      return std::find(sums.begin(), sums.end(), point.held - rest) != sums.end();
    });
  }
  bool is_the_arena(const std::vector<ArenaPoint>& points) const {
    const bool grows = std::any_of(points.begin(), points.end(),
                                   [&](const ArenaPoint& point) { return point.held > points.front().held; });
    for (const std::int64_t last : about(points.back().time)) {
      const std::int64_t rest = points.back().held - last;
      if (last > 0 && rest >= 0 && (rest == 0 || grows) && explains(points, rest)) return true;
    }
    return false;
  }

 private:
  std::vector<ArenaPoint> steps_;
};

class ArenaSearch {
 public:
  ArenaSearch(recording::Recording& recording, const SessionLayers& sessions, std::int64_t end)
      : recording_(recording), sessions_(sessions), tree_(recording), end_(end) {}

  // The accounts of places by the number of a session's name and the place's address.
  using Accounts = std::map<std::pair<std::uint32_t, std::uint64_t>, PlaceAccount>;

  Accounts search() {
    bool over = false;
    recording_.for_each_event([&](const MemoryEvent& event) {
      over = over || event.time.count > end_;
      if (!over) visit(event);
    });
    std::erase_if(accounts_, [&](const auto& entry) { return others_.contains(entry.first.second); });
    return std::move(accounts_);
  }

 private:
  struct Block {
    PlaceAccount* account;
    std::int64_t size;
  };

  void visit(const MemoryEvent& event) {
    if (event.kind == MemoryEventKind::release) {
      const auto found = live_.find(event.address);
      if (found == live_.end()) return;
      found->second.account->change(event.time.count, -found->second.size);
      live_.erase(found);
      return;
    }
    if (event.kind != MemoryEventKind::allocate || event.size > kLargestBlock) return;
    const auto layer = sessions_.of(tree_.of(event.scope));
    if (!layer) return;
    const std::uint64_t place = place_of(event.stack);
    if (place == 0 || others_.contains(place)) return;
    PlaceAccount& account = accounts_[{layer->name, place}];
    if (event.size % kArenaUnit != 0 || account.is_too_often()) {
      others_.insert(place);
      return;
    }
    const auto size = static_cast<std::int64_t>(event.size);
    account.change(event.time.count, size);
    live_[event.address] = {&account, size};
  }

  std::uint64_t place_of(StackId stack) {
    if (stack.index >= places_.size()) places_.resize(stack.index + 1);
    std::optional<std::uint64_t>& place = places_[stack.index];
    if (!place) place = responsible_frame(recording_.info(), recording_.stacks().frames(stack)).value_or(0);
    return *place;
  }

  recording::Recording& recording_;
  const SessionLayers& sessions_;
  LayerTree tree_;
  std::int64_t end_;
  Accounts accounts_;                         // its entries stay where they are
  std::unordered_set<std::uint64_t> others_;  // places that allocate what no arena takes
  std::unordered_map<std::uint64_t, Block> live_;
  std::vector<std::optional<std::uint64_t>> places_;  // by stack; 0: in no known module
};

}  // namespace

ArenaStacks find_arena_stacks(recording::Recording& recording, const SessionLayers& sessions) {
  ArenaStacks result;
  result.is_told.resize(sessions.names());
  const recording::RecordingInfo& info = recording.info();
  std::vector<std::vector<ArenaPoint>> points;  // of each profile
  std::int64_t end = 0;
  for (const recording::RuntimeProfile& profile : info.profiles) {
    points.push_back(points_of(profile));
    if (!points.back().empty()) end = std::max(end, points.back().back().time + kClockError);
  }
  if (end == 0) return result;
  const ArenaSearch::Accounts accounts = ArenaSearch(recording, sessions, end).search();

  std::unordered_set<std::uint64_t> places;
  for (const auto& [key, account] : accounts)
    for (std::size_t i = 0; i < points.size() && !places.contains(key.second); ++i)
      if (!points[i].empty() && sessions.name_of_profile(i) == key.first && account.is_the_arena(points[i]))
        places.insert(key.second);
  // What is the arena's for one session is for all that the same library runs.
  for (const auto& [key, account] : accounts)
    if (places.contains(key.second)) result.is_told[key.first] = true;
  if (places.empty()) return result;
  result.is_arena.resize(recording.stacks().size());
  for (std::uint32_t i = 0; i < result.is_arena.size(); ++i) {
    const auto place = responsible_frame(info, recording.stacks().frames(StackId{i}));
    result.is_arena[i] = place && places.contains(*place);
  }
  return result;
}

}  // namespace headroom::attribution
