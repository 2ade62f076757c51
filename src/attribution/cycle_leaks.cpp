#include "attribution/cycle_leaks.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "attribution/live_map.h"

namespace headroom::attribution {

namespace {

bool lies_within(const LayerTree& layers, LayerIndex inner, LayerIndex outer) {
  while (layers[inner].depth > layers[outer].depth) inner = layers[inner].parent;
  return inner == outer;
}

void subtract(const std::vector<std::int64_t>& part, std::vector<std::int64_t>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) add_wrapping(from[i], -part[i]);
}

// Whether many places that grew together have less than one cycle's growth left at the end of the recording.
// The sum contains temporary memory, so it need not be zero.
bool is_released_but_for_a_cycle(const LeakVerdict& verdict) {
  std::int64_t left = 0;
  for (const StackGrowth& stack : verdict.stacks)
    if (stack.late_bytes > 0)
      add_wrapping(left, std::max<std::int64_t>(0, stack.end_bytes - stack.after_warm_up()));
  return static_cast<double>(left) < verdict.bytes_per_cycle;
}

// Whether it grows with the cycles, or did so before it was released.
bool grows_with_cycles(monitoring::Growth growth) {
  return growth == monitoring::Growth::leak || growth == monitoring::Growth::grew_then_released;
}

// Sets what was released after the last cycle: of a leak in its places, of late growth in all that grew.
void tell_the_end(bool is_cut_off, LeakVerdict& verdict) {
  verdict.is_cut_off = is_cut_off;
  const bool of_all = verdict.growth == monitoring::Growth::grew_late;
  for (const StackGrowth& stack : verdict.stacks)
    if (stack.late_bytes > 0 && stack.end_bytes < stack.last_bytes && (of_all || verdict.tells(stack)))
      add_wrapping(verdict.released_bytes, std::min(stack.last_bytes - stack.end_bytes, stack.late_bytes));
  if (of_all)
    verdict.released_bytes = std::min(verdict.released_bytes, std::max<std::int64_t>(0, verdict.late_bytes));
}

// The most that profiles may have added between two moments.
double grown_profiles(const TracersOwnMemory& tracers_own, std::int64_t from_ns, std::int64_t to_ns) {
  double bytes = 0;
  for (const TracersOwnMemory::Profile& profile : tracers_own.profiles)
    if (profile.from_ns < to_ns && profile.to_ns > from_ns) bytes += profile.most_bytes;
  return bytes;
}

}  // namespace

CycleWatch::Series* CycleWatch::count_cycle(const LayerTree& layers, LayerIndex layer) {
  if (layer >= ends_.size()) ends_.resize(layer + 1);
  const std::int64_t cycles = ++ends_[layer];
  if (cycles == 1) return nullptr;  // maybe a phase, not a cycle
  const auto known = std::ranges::find_if(series_, [&](const Series& s) { return s.layer == layer; });
  Series* series = known != series_.end() ? &*known : nullptr;
  if (series == nullptr) {
    series =
        series_.size() < kMostSeries ? &series_.emplace_back() : series_to_replace(layers, layer, cycles);
    if (series == nullptr) return nullptr;
    *series = {};
    series->layer = layer;
    series->depth = layers[layer].depth;
  }
  series->cycles = cycles;
  return cycles % series->stride == 0 ? series : nullptr;
}

// All series are in use: the one that is less useful than the cycles of `layer`, or null.
CycleWatch::Series* CycleWatch::series_to_replace(const LayerTree& layers, LayerIndex layer,
                                                  std::int64_t cycles) {
  // Outer layers are better cycles; at equal depth, more frequent ones are.
  const auto worse = std::ranges::max_element(series_, [](const Series& a, const Series& b) {
    return a.depth != b.depth ? a.depth < b.depth : a.cycles > b.cycles;
  });
  const std::uint32_t depth = layers[layer].depth;
  if (worse->depth > depth || (worse->depth == depth && worse->cycles < cycles)) return &*worse;
  // A layer that repeats often enough is better than a rare phase, unless it is inside the phase.
  if (cycles < kFewestEnds) return nullptr;
  const auto phase = std::ranges::min_element(series_, {}, &Series::cycles);
  return phase->cycles < kFewestEnds && !lies_within(layers, layer, phase->layer) ? &*phase : nullptr;
}

void CycleWatch::thin_out(Series& series) {
  if (series.samples.size() < kMostSamples) return;
  for (std::size_t i = 0; 2 * i + 1 < series.samples.size(); ++i)
    series.samples[i] = std::move(series.samples[2 * i + 1]);
  series.samples.resize(series.samples.size() / 2);
  series.stride *= 2;
}

CycleWatch::Judged CycleWatch::judge(const Series& series, const LayerTree& layers, double noise,
                                     const std::vector<bool>& sampled,
                                     const TracersOwnMemory& tracers_own) const {
  Judged judged;
  judged.series = &series;
  LeakVerdict& verdict = judged.verdict;
  verdict.cycle = layers[series.layer].path;
  verdict.cycles = series.cycles;
  std::vector<std::int64_t> bytes;
  for (const Sample& sample : series.samples) {
    verdict.at_cycles.push_back(sample.cycle);
    verdict.live_bytes.push_back(sample.live_bytes);
    for (const auto& [stack, held] : sample.by_stack)
      if (tracers_own.allocates(stack)) add_wrapping(verdict.live_bytes.back(), -held);
    bytes.push_back(sample.own_bytes);
  }
  const Sample& first_judged = series.samples[monitoring::warm_up_of(series.samples.size())];
  const double profiles = grown_profiles(tracers_own, first_judged.time_ns, series.samples.back().time_ns);
  noise += profiles;
  const monitoring::SeriesGrowth own = monitoring::growth_of(verdict.at_cycles, bytes, noise);
  // Stacks that grew with the cycles and were then released: bytes per cycle, and the rest without them.
  double released_per_cycle = 0;
  std::vector<std::int64_t> kept = verdict.live_bytes;

  double leaking = 0;
  std::int64_t last_step = 0;  // of the leaking stacks, if all leak in steps
  bool all_in_steps = true;
  std::int64_t exact_late_bytes = 0, exact_last_step = 0;  // of stacks without estimates
  std::vector<std::size_t> next(series.samples.size());    // of each sample's stacks
  std::uint32_t stacks = 0;
  for (const Sample& sample : series.samples)
    if (!sample.by_stack.empty()) stacks = std::max(stacks, sample.by_stack.back().first + 1);
  for (std::uint32_t stack = 0; stack < stacks; ++stack) {
    for (std::size_t k = 0; k < next.size(); ++k) {
      const auto& held = series.samples[k].by_stack;
      const bool holds = next[k] < held.size() && held[next[k]].first == stack;
      bytes[k] = holds ? held[next[k]++].second : 0;
    }
    if (tracers_own.allocates(stack) ||
        std::ranges::all_of(bytes, [&](std::int64_t b) { return b == bytes[0]; }))
      continue;
    const bool estimated = stack < sampled.size() && sampled[stack];
    monitoring::SeriesGrowth growth =
        monitoring::growth_of(verdict.at_cycles, bytes, estimated ? noise : profiles);
    StackGrowth& told = verdict.stacks.emplace_back();
    told.stack = StackId{stack};
    told.first_bytes = bytes.front();
    told.last_bytes = bytes.back();
    told.late_bytes = bytes.back() - bytes[growth.warm_up];
    told.end_bytes = at_end_ ? at_end_->by_stack[stack] : bytes.back();
    told.bytes_per_cycle = growth.per_cycle;
    if (growth.growth == monitoring::Growth::leak && told.end_bytes <= told.after_warm_up()) {
      growth.growth = monitoring::Growth::grew_then_released;
      released_per_cycle += growth.per_cycle;
      subtract(bytes, kept);
    }
    told.growth = growth.growth;
    if (!estimated) {
      add_wrapping(exact_late_bytes, told.late_bytes);
      if (growth.growth == monitoring::Growth::grew_late)
        exact_last_step = std::max(exact_last_step, growth.last_step);
    }
    if (growth.growth != monitoring::Growth::leak) continue;
    leaking += growth.per_cycle;
    last_step = std::max(last_step, growth.last_step);
    all_in_steps = all_in_steps && growth.last_step > 0;
  }
  // All live memory, without what was released.
  const monitoring::SeriesGrowth total = monitoring::growth_of(verdict.at_cycles, kept, noise);
  verdict.growth = total.growth;
  verdict.bytes_per_cycle = total.per_cycle;
  verdict.last_step = total.last_step;
  verdict.late_bytes = verdict.live_bytes.back() - verdict.live_bytes[total.warm_up];
  verdict.smallest_visible =
      noise / static_cast<double>(verdict.at_cycles.back() - verdict.at_cycles[total.warm_up]);
  verdict.warm_up_cycles = verdict.at_cycles[total.warm_up] - 1;  // cycles before the first one that counts
  // Another stack's decrease, or the noise of samples, may hide a leak in the total.
  if (leaking > 0 && verdict.growth != monitoring::Growth::leak) {
    verdict.growth = monitoring::Growth::leak;
    verdict.bytes_per_cycle = leaking;
    verdict.last_step = all_in_steps ? last_step : 0;
  }
  // The noise of samples may hide the growth of exactly recorded blocks.
  if (noise > 0 && verdict.growth < monitoring::Growth::grew_late && exact_last_step > 0 &&
      exact_late_bytes > 0) {
    verdict.growth = monitoring::Growth::grew_late;
    verdict.last_step = exact_last_step;
    verdict.late_bytes = exact_late_bytes;
  }
  const auto is_told_by_one = [&] {
    return std::ranges::any_of(verdict.stacks,
                               [&](const StackGrowth& stack) { return stack.growth == verdict.growth; });
  };
  if (verdict.growth == monitoring::Growth::leak && !is_told_by_one() &&
      is_released_but_for_a_cycle(verdict)) {
    verdict.growth = monitoring::Growth::none;
    released_per_cycle += verdict.bytes_per_cycle;
  }
  if (released_per_cycle > 0 && verdict.growth < monitoring::Growth::grew_then_released) {
    verdict.growth = monitoring::Growth::grew_then_released;
    verdict.bytes_per_cycle = released_per_cycle;
    verdict.last_step = 0;
  }
  // The total may grow although no single stack does. Then the stacks that grew after the warm-up are listed.
  verdict.is_sum = verdict.growth >= monitoring::Growth::grew_then_released && !is_told_by_one();
  if (verdict.growth >= monitoring::Growth::grew_then_released)
    tell_the_end(at_end_ && at_end_->is_cut_off, verdict);
  std::erase_if(verdict.stacks, [&](const StackGrowth& s) {
    return s.growth == monitoring::Growth::none && !(verdict.is_sum && s.late_bytes > 0);
  });
  std::ranges::sort(verdict.stacks, [&](const StackGrowth& a, const StackGrowth& b) {
    if (a.bytes_per_cycle != b.bytes_per_cycle) return a.bytes_per_cycle > b.bytes_per_cycle;
    if (verdict.is_sum && a.late_bytes != b.late_bytes) return a.late_bytes > b.late_bytes;
    return a.last_bytes - a.first_bytes > b.last_bytes - b.first_bytes;
  });
  if (grows_with_cycles(verdict.growth)) {
    const auto cycles = static_cast<double>(verdict.cycles);
    judged.own_growth = own.per_cycle * cycles;
    judged.growth = verdict.bytes_per_cycle * cycles;
  }
  return judged;
}

// The number of outermost layers that ended often enough, and are not related to a judged one.
std::int64_t CycleWatch::left_out(const LayerTree& layers, const std::vector<const Series*>& judged) const {
  std::vector<bool> covered(ends_.size()), is_around(ends_.size());
  for (const Series* series : judged) {
    covered[series->layer] = true;
    for (LayerIndex outer = layers[series->layer].parent; outer != 0; outer = layers[outer].parent)
      is_around[outer] = true;
  }
  std::int64_t count = 0;
  for (LayerIndex layer = 1; layer < ends_.size(); ++layer) {  // parents come first
    if (covered[layers[layer].parent]) covered[layer] = true;
    if (covered[layer] || is_around[layer] || ends_[layer] < kFewestEnds) continue;
    covered[layer] = true;
    ++count;
  }
  return count;
}

LeakVerdict CycleWatch::verdict(const LayerTree& layers, std::uint64_t sample_period,
                                const std::vector<bool>& sampled, const TracersOwnMemory& tracers_own) const {
  const auto repeats = [](const Series& series) {
    return series.samples.size() >= static_cast<std::size_t>(monitoring::kFewestCycles);
  };
  std::vector<const Series*> chosen;
  for (const Series& series : series_) {
    const bool is_part = std::ranges::any_of(series_, [&](const Series& outer) {
      return &outer != &series && repeats(outer) && lies_within(layers, series.layer, outer.layer);
    });
    if (repeats(series) && !is_part) chosen.push_back(&series);
  }
  // An estimate of G bytes with period P has an error of about √(G·P); G must be twice that.
  const double noise = 4 * static_cast<double>(sample_period);
  std::vector<Judged> judged;
  for (const Series* series : chosen) judged.push_back(judge(*series, layers, noise, sampled, tracers_own));
  // First the leak with the most growth of its own memory, then outer and more frequent layers.
  std::ranges::stable_sort(judged, [](const Judged& a, const Judged& b) {
    if (a.verdict.growth != b.verdict.growth) return a.verdict.growth > b.verdict.growth;
    if (a.own_growth != b.own_growth) return a.own_growth > b.own_growth;
    if (a.growth != b.growth) return a.growth > b.growth;
    return a.series->depth != b.series->depth ? a.series->depth < b.series->depth
                                              : a.series->cycles > b.series->cycles;
  });
  LeakVerdict verdict;
  if (!judged.empty()) verdict = std::move(judged.front().verdict);
  const auto leaks_there = [&](const StackGrowth& one) {
    return !grows_with_cycles(one.growth) ||
           std::ranges::any_of(verdict.stacks, [&](const StackGrowth& other) {
             return other.stack == one.stack && other.growth == one.growth;
           });
  };
  for (std::size_t i = 1; i < judged.size(); ++i) {
    LeakVerdict& other = verdict.other_cycles.emplace_back(std::move(judged[i].verdict));
    other.same_places = grows_with_cycles(other.growth) && !other.stacks.empty() &&
                        other.stacks.front().growth == other.growth &&
                        std::ranges::all_of(other.stacks, leaks_there);
  }
  verdict.cycles_left_out = left_out(layers, chosen);
  return verdict;
}

namespace {

// A place whose releases are searched; a stack may belong to several verdicts.
struct Place {
  StackId stack;
  StackGrowth* growth = nullptr;
  std::int64_t held = 0;
};

void add_places(LeakVerdict& verdict, std::vector<Place>& places) {
  if (verdict.growth == monitoring::Growth::grew_then_released)
    for (StackGrowth& stack : verdict.stacks)
      if (verdict.tells(stack)) places.push_back({stack.stack, &stack});
  for (LeakVerdict& other : verdict.other_cycles) add_places(other, places);
}

void tell_last_release(LeakVerdict& verdict) {
  for (const StackGrowth& stack : verdict.stacks)
    if (verdict.tells(stack) && stack.released_at)
      verdict.released_at = std::max(verdict.released_at.value_or(Nanoseconds{}), *stack.released_at);
  for (LeakVerdict& other : verdict.other_cycles) tell_last_release(other);
}

}  // namespace

void find_release_times(recording::Recording& recording, LeakVerdict& verdict) {
  std::vector<Place> places;
  add_places(verdict, places);
  if (places.empty()) return;
  std::ranges::sort(places, {}, &Place::stack);
  LiveMap live;
  const auto no_layer = [](ScopeId) { return LayerIndex{0}; };
  const auto change = [&](const LiveBlock& block, int sign, Nanoseconds time) {
    const StackId stack{block.stack};
    auto place = std::ranges::lower_bound(places, stack, {}, &Place::stack);
    for (; place != places.end() && place->growth->stack == stack; ++place) {
      add_wrapping(place->held, sign * block.bytes());
      const bool is_released =
          place->held <= std::max(place->growth->end_bytes, place->growth->after_warm_up());
      if (!is_released)
        place->growth->released_at.reset();
      else if (!place->growth->released_at)
        place->growth->released_at = time;
    }
  };
  recording.for_each_event([&](const MemoryEvent& event) {
    live.apply(event, no_layer, [&](const LiveBlock& block, int sign) { change(block, sign, event.time); });
  });
  tell_last_release(verdict);
}

}  // namespace headroom::attribution
