#include "attribution/cycle_leaks.h"

#include <algorithm>
#include <span>

namespace headroom::attribution {
namespace {

bool lies_within(const LayerTree& layers, LayerIndex inner, LayerIndex outer) {
  while (layers[inner].depth > layers[outer].depth) inner = layers[inner].parent;
  return inner == outer;
}

// What a stack that takes turns with others held: a container that is let grow from two places lies with one
// of them at a time, and alone neither grows for good.
struct Turns {
  std::size_t stack;  // of the verdict's
  std::vector<std::int64_t> bytes;
};

// It came again after it went, and both but seldom.
bool may_take_turns(std::span<const std::int64_t> bytes) {
  std::size_t changes = 0;
  bool fell = false, rose_again = false;
  for (std::size_t i = 1; i < bytes.size(); ++i) {
    if (bytes[i] == bytes[i - 1]) continue;
    ++changes;
    rose_again = rose_again || (fell && bytes[i] > bytes[i - 1]);
    fell = fell || bytes[i] < bytes[i - 1];
  }
  return rose_again && 2 * changes < bytes.size();
}

// Whenever it gave something back, did another take no less? A cache that is emptied has no such other.
bool hands_over(const Turns& one, const std::vector<Turns>& all) {
  for (std::size_t i = 1; i < one.bytes.size(); ++i) {
    const std::int64_t fall = one.bytes[i - 1] - one.bytes[i];
    const bool is_taken = fall <= 0 || std::any_of(all.begin(), all.end(), [&](const Turns& other) {
                            return other.bytes[i] - other.bytes[i - 1] >= fall;
                          });
    if (!is_taken) return false;
  }
  return true;
}

std::vector<std::int64_t> sum_of(const std::vector<Turns>& turns, std::size_t points) {
  std::vector<std::int64_t> sum(points);
  for (const Turns& one : turns)
    for (std::size_t i = 0; i < points; ++i) add_wrapping(sum[i], one.bytes[i]);
  return sum;
}

void subtract(const std::vector<std::int64_t>& part, std::vector<std::int64_t>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) add_wrapping(from[i], -part[i]);
}

// Of a leak of so many bytes a cycle by turns, the part of each stack that holds it after the last cycle.
void share_out(monitoring::Growth growth, double per_cycle, const std::vector<Turns>& turns,
               LeakVerdict& verdict) {
  const auto late_bytes = [&](const Turns& one) {
    return static_cast<double>(std::max<std::int64_t>(0, verdict.stacks[one.stack].late_bytes));
  };
  double all = 0;
  for (const Turns& one : turns) all += late_bytes(one);
  for (const Turns& one : turns) {
    if (late_bytes(one) <= 0) continue;
    verdict.stacks[one.stack].growth = growth;
    verdict.stacks[one.stack].bytes_per_cycle = per_cycle * late_bytes(one) / all;
  }
}

// Do those that take turns together hold no more at the recording's end than after the warm-up?
bool are_released(const std::vector<Turns>& turns, const LeakVerdict& verdict) {
  std::int64_t grown = 0;
  for (const Turns& one : turns) {
    const StackGrowth& stack = verdict.stacks[one.stack];
    add_wrapping(grown, stack.end_bytes - stack.after_warm_up());
  }
  return grown <= 0;
}

// Of many places that grew together: is less of it left at the recording's end than one cycle leaves behind?
// What merely comes and goes is a part of the sum, too, so not all of it need be gone.
bool is_released_but_for_a_cycle(const LeakVerdict& verdict) {
  std::int64_t left = 0;
  for (const StackGrowth& stack : verdict.stacks)
    if (stack.late_bytes > 0)
      add_wrapping(left, std::max<std::int64_t>(0, stack.end_bytes - stack.after_warm_up()));
  return static_cast<double>(left) < verdict.bytes_per_cycle;
}

// It grows with the cycles, or did so until it was released.
bool grows_with_cycles(monitoring::Growth growth) {
  return growth == monitoring::Growth::leak || growth == monitoring::Growth::grew_then_released;
}

// What became of the growth after the last cycle: of a leak's in its places, of late growth, which is told as
// a whole, in all that grew.
void tell_the_end(bool is_cut_off, LeakVerdict& verdict) {
  verdict.is_cut_off = is_cut_off;
  const bool of_all = verdict.growth == monitoring::Growth::grew_late;
  for (const StackGrowth& stack : verdict.stacks)
    if (stack.late_bytes > 0 && stack.end_bytes < stack.last_bytes && (of_all || verdict.tells(stack)))
      add_wrapping(verdict.released_bytes, std::min(stack.last_bytes - stack.end_bytes, stack.late_bytes));
  if (of_all)
    verdict.released_bytes = std::min(verdict.released_bytes, std::max<std::int64_t>(0, verdict.late_bytes));
}

// What profiles may have added to what is live between two moments.
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
  if (cycles == 1) return nullptr;  // a phase, not a cycle, as far as is known
  const auto known =
      std::find_if(series_.begin(), series_.end(), [&](const Series& s) { return s.layer == layer; });
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

// All are in use: which of them is worth less than the cycles of `layer`? Null if none is.
CycleWatch::Series* CycleWatch::series_to_replace(const LayerTree& layers, LayerIndex layer,
                                                  std::int64_t cycles) {
  // The outer layers are the better cycles, and of one depth those that come more often.
  const auto worse = std::max_element(series_.begin(), series_.end(), [](const Series& a, const Series& b) {
    return a.depth != b.depth ? a.depth < b.depth : a.cycles > b.cycles;
  });
  const std::uint32_t depth = layers[layer].depth;
  if (worse->depth > depth || (worse->depth == depth && worse->cycles < cycles)) return &*worse;
  // What repeats often enough is better than a phase that came a few times, unless it is a part of it.
  if (cycles < kFewestEnds) return nullptr;
  const auto phase = std::min_element(series_.begin(), series_.end(),
                                      [](const Series& a, const Series& b) { return a.cycles < b.cycles; });
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
  // Of the stacks that grew with the cycles and were released after them: bytes a cycle, and what they held.
  double released_per_cycle = 0;
  std::vector<std::int64_t> kept = verdict.live_bytes;  // by all others

  double leaking = 0;
  std::int64_t last_step = 0;  // of the stacks that leak, if all of them do so in steps
  bool all_in_steps = true;
  std::int64_t exact_late_bytes = 0, exact_last_step = 0;  // of the stacks that are no estimate
  std::vector<Turns> turns;                                // of the stacks that are no estimate
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
        std::all_of(bytes.begin(), bytes.end(), [&](std::int64_t b) { return b == bytes[0]; }))
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
    if (!estimated && !grows_with_cycles(growth.growth) && turns.size() < kMostTurns && may_take_turns(bytes))
      turns.push_back({verdict.stacks.size() - 1, bytes});
    if (growth.growth != monitoring::Growth::leak) continue;
    leaking += growth.per_cycle;
    last_step = std::max(last_step, growth.last_step);
    all_in_steps = all_in_steps && growth.last_step > 0;
  }
  // In steps only: what merely comes and goes often trends.
  std::erase_if(turns, [all = turns](const Turns& one) { return !hands_over(one, all); });
  const monitoring::SeriesGrowth by_turns =
      monitoring::growth_of(verdict.at_cycles, sum_of(turns, series.samples.size()), profiles);
  if (by_turns.growth == monitoring::Growth::leak && by_turns.last_step > 0) {
    if (are_released(turns, verdict)) {
      share_out(monitoring::Growth::grew_then_released, by_turns.per_cycle, turns, verdict);
      released_per_cycle += by_turns.per_cycle;
      subtract(sum_of(turns, kept.size()), kept);
    } else {
      share_out(monitoring::Growth::leak, by_turns.per_cycle, turns, verdict);
      leaking += by_turns.per_cycle;
      last_step = std::max(last_step, by_turns.last_step);
    }
  }

  // All that is live, but for what was released.
  const monitoring::SeriesGrowth total = monitoring::growth_of(verdict.at_cycles, kept, noise);
  verdict.growth = total.growth;
  verdict.bytes_per_cycle = total.per_cycle;
  verdict.last_step = total.last_step;
  verdict.late_bytes = verdict.live_bytes.back() - verdict.live_bytes[total.warm_up];
  verdict.smallest_visible =
      noise / static_cast<double>(verdict.at_cycles.back() - verdict.at_cycles[total.warm_up]);
  verdict.warm_up_cycles = verdict.at_cycles[total.warm_up] - 1;  // those before the first that counted
  // What one stack leaks another may hide by giving back as much, or in samples the noise of the others.
  if (leaking > 0 && verdict.growth != monitoring::Growth::leak) {
    verdict.growth = monitoring::Growth::leak;
    verdict.bytes_per_cycle = leaking;
    verdict.last_step = all_in_steps ? last_step : 0;
  }
  // Of samples the whole hides what the large blocks among them show.
  if (noise > 0 && verdict.growth < monitoring::Growth::grew_late && exact_last_step > 0 &&
      exact_late_bytes > 0) {
    verdict.growth = monitoring::Growth::grew_late;
    verdict.last_step = exact_last_step;
    verdict.late_bytes = exact_late_bytes;
  }
  const auto is_told_by_one = [&] {
    return std::any_of(verdict.stacks.begin(), verdict.stacks.end(),
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
  // What grows as a whole may be many stacks of which none does: then those that grew after the warm-up, as
  // the sum of all did.
  verdict.is_sum = verdict.growth >= monitoring::Growth::grew_then_released && !is_told_by_one();
  if (verdict.growth >= monitoring::Growth::grew_then_released)
    tell_the_end(at_end_ && at_end_->is_cut_off, verdict);
  std::erase_if(verdict.stacks, [&](const StackGrowth& s) {
    return s.growth == monitoring::Growth::none && !(verdict.is_sum && s.late_bytes > 0);
  });
  std::sort(verdict.stacks.begin(), verdict.stacks.end(), [&](const StackGrowth& a, const StackGrowth& b) {
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

// Layers that ended often enough and lie in none that was judged; of those within each other the outermost.
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
    const bool is_part = std::any_of(series_.begin(), series_.end(), [&](const Series& outer) {
      return &outer != &series && repeats(outer) && lies_within(layers, series.layer, outer.layer);
    });
    if (repeats(series) && !is_part) chosen.push_back(&series);
  }
  // An estimate of G bytes from samples every P has an error of about √(G·P): G must be twice that.
  const double noise = 4 * static_cast<double>(sample_period);
  std::vector<Judged> judged;
  for (const Series* series : chosen) judged.push_back(judge(*series, layers, noise, sampled, tracers_own));
  // Of leaks the one that leaves most behind in memory of its own; else the outermost that comes most often.
  std::stable_sort(judged.begin(), judged.end(), [](const Judged& a, const Judged& b) {
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
           std::any_of(verdict.stacks.begin(), verdict.stacks.end(), [&](const StackGrowth& other) {
             return other.stack == one.stack && other.growth == one.growth;
           });
  };
  for (std::size_t i = 1; i < judged.size(); ++i) {
    LeakVerdict& other = verdict.other_cycles.emplace_back(std::move(judged[i].verdict));
    other.same_places = grows_with_cycles(other.growth) && !other.stacks.empty() &&
                        other.stacks.front().growth == other.growth &&
                        std::all_of(other.stacks.begin(), other.stacks.end(), leaks_there);
  }
  verdict.cycles_left_out = left_out(layers, chosen);
  return verdict;
}

}  // namespace headroom::attribution
