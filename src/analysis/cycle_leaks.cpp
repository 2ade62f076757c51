#include "analysis/cycle_leaks.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace headroom::analysis {
namespace {

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

struct Trend {
  double slope = 0;      // Theil-Sen
  double certainty = 0;  // Mann-Kendall's Z; above 1.645 it grows, with 5 % of error
};

Trend trend_of(std::span<const std::int64_t> x, std::span<const std::int64_t> y) {
  const std::size_t n = x.size();
  std::vector<double> slopes;
  std::int64_t concordant = 0, discordant = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j) {
      slopes.push_back((static_cast<double>(y[j]) - static_cast<double>(y[i])) /
                       static_cast<double>(x[j] - x[i]));
      if (y[j] > y[i]) ++concordant;
      if (y[j] < y[i]) ++discordant;
    }
  // Variance of S under "no trend", with runs of equal values taken out (Mann 1945, Kendall 1975).
  const auto term = [](double count) { return count * (count - 1) * (2 * count + 5); };
  std::vector<std::int64_t> sorted(y.begin(), y.end());
  std::sort(sorted.begin(), sorted.end());
  double variance = term(static_cast<double>(n));
  for (std::size_t i = 0; i < n;) {
    const auto end = std::upper_bound(sorted.begin(), sorted.end(), sorted[i]) - sorted.begin();
    variance -= term(static_cast<double>(static_cast<std::size_t>(end) - i));
    i = static_cast<std::size_t>(end);
  }
  const auto s = static_cast<double>(concordant - discordant);
  Trend trend{median(slopes), 0};
  if (variance > 0 && s != 0) trend.certainty = (s > 0 ? s - 1 : s + 1) / std::sqrt(variance / 18);
  return trend;
}

bool lies_within(const LayerTree& layers, LayerIndex inner, LayerIndex outer) {
  while (layers[inner].depth > layers[outer].depth) inner = layers[inner].parent;
  return inner == outer;
}

// Of n cycles, those left out at the beginning: a third, but four points stay, as fewer cannot be told from
// chance.
std::size_t warm_up_of(std::size_t n) { return std::clamp<std::size_t>(n / 3, 1, n - 4); }

// The points at which `bytes` grew for good: all from there on lie above all before.
std::vector<std::size_t> steps_of(std::span<const std::int64_t> bytes) {
  std::vector<std::int64_t> least_after(bytes.begin(), bytes.end());
  for (std::size_t i = bytes.size() - 1; i > 0; --i)
    least_after[i - 1] = std::min(least_after[i - 1], least_after[i]);
  std::vector<std::size_t> steps;
  std::int64_t most = bytes[0];
  for (std::size_t i = 1; i < bytes.size(); ++i) {
    if (least_after[i] > most) steps.push_back(i);
    most = std::max(most, bytes[i]);
  }
  return steps;
}

std::int64_t range_of(std::span<const std::int64_t> bytes) {
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  return *most - *least;
}

// Does what is live after point `step` stand out of what comes and goes? Noise has its steps, too.
bool stands_out(std::span<const std::int64_t> bytes, std::size_t step, double least_growth) {
  const auto before = bytes.first(step), after = bytes.subspan(step);
  const std::int64_t gap =
      *std::min_element(after.begin(), after.end()) - *std::max_element(before.begin(), before.end());
  return 2 * gap >= std::max(range_of(before), range_of(after)) &&
         static_cast<double>(bytes.back() - before.back()) >= least_growth;
}

// Is a step at cycle `step` too late, by the cycle `last`, to be the last one? Nothing has grown since in
// less than three fifths of the run. A container that doubles keeps still for half of it.
bool is_late(std::int64_t step, std::int64_t last) { return 5 * step > 2 * last; }

// What grows on and on in steps: from the first eighth of the run on each step is late by the time of the
// next, and the last one by the end. The point before the first of these steps; nothing if it is not so.
std::optional<std::size_t> begin_of_stairs(std::span<const std::int64_t> cycles,
                                           const std::vector<std::size_t>& steps) {
  // In fewer cycles what a runtime does in its first four would do.
  constexpr std::int64_t kFewest = 16;
  constexpr std::size_t kFewestSteps = 3;
  const std::int64_t last = cycles.back();
  if (last < kFewest) return std::nullopt;
  std::int64_t next = last;
  for (std::size_t i = steps.size(); i > 0; --i) {
    const std::int64_t step = cycles[steps[i - 1]];
    if (!is_late(step, next)) return std::nullopt;
    if (8 * step <= last) return steps[i - 1] - 1;
    next = step;
  }
  // What was before the first point is not known: so many steps, the first of them early, will do.
  const bool is_whole = steps.size() >= kFewestSteps && 4 * next <= last;
  return is_whole ? std::optional<std::size_t>(0) : std::nullopt;
}

// Is the last step one of a container that doubles, or the last of a cache that fills up with ever rarer
// keys? A container that grows by half has a third of its growth in its last step, a cache of 256 entries a
// 256th.
bool is_large_step(std::span<const std::int64_t> bytes, std::size_t step, std::size_t begin) {
  const std::int64_t gap =
      *std::min_element(bytes.begin() + static_cast<std::ptrdiff_t>(step), bytes.end()) -
      *std::max_element(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(step));
  return 6 * gap >= bytes.back() - bytes[begin];
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

// Of a leak of so many bytes a cycle by turns, the part of each stack that holds it at the end.
void share_out(double per_cycle, const std::vector<Turns>& turns, LeakVerdict& verdict) {
  const auto late_bytes = [&](const Turns& one) {
    return static_cast<double>(std::max<std::int64_t>(0, verdict.stacks[one.stack].late_bytes));
  };
  double all = 0;
  for (const Turns& one : turns) all += late_bytes(one);
  for (const Turns& one : turns) {
    if (late_bytes(one) <= 0) continue;
    verdict.stacks[one.stack].growth = Growth::leak;
    verdict.stacks[one.stack].bytes_per_cycle = per_cycle * late_bytes(one) / all;
  }
}

// What profiles may have added to what is live between two moments.
double grown_profiles(const TracersOwnMemory& tracers_own, std::int64_t from_ns, std::int64_t to_ns) {
  double bytes = 0;
  for (const TracersOwnMemory::Profile& profile : tracers_own.profiles)
    if (profile.from_ns < to_ns && profile.to_ns > from_ns) bytes += profile.most_bytes;
  return bytes;
}

}  // namespace

SeriesGrowth growth_of(std::span<const std::int64_t> cycles, std::span<const std::int64_t> bytes,
                       double least_growth) {
  SeriesGrowth result;
  const std::size_t n = cycles.size();
  if (n < static_cast<std::size_t>(kFewestCycles)) return result;
  result.warm_up = warm_up_of(n);
  const auto x = cycles.subspan(result.warm_up), y = bytes.subspan(result.warm_up);
  const Trend trend = trend_of(x, y);
  result.per_cycle = trend.slope;

  const std::size_t half = x.size() / 2;
  const Trend late = trend_of(x.subspan(half), y.subspan(half));
  const double grown = trend.slope * static_cast<double>(x.back() - x.front());
  constexpr double kFivePercent = 1.645;
  const bool grows = trend.slope > 0 && trend.certainty > kFivePercent && grown >= least_growth;
  const std::vector<std::size_t> steps = steps_of(bytes);
  std::int64_t last_step = 0;  // that is late
  for (const std::size_t step : steps_of(y))
    if (is_late(x[step], x.back()) && stands_out(y, step, least_growth)) last_step = x[step];
  // Of what grows at few of the points the slopes of pairs tell little.
  const auto begin = last_step > 0 && 2 * steps.size() < n ? begin_of_stairs(cycles, steps) : std::nullopt;
  if (begin && is_large_step(bytes, steps.back(), *begin)) {
    result.growth = Growth::leak;
    result.last_step = last_step;
    result.per_cycle = static_cast<double>(bytes.back() - bytes[*begin]) /
                       static_cast<double>(cycles.back() - cycles[*begin]);
    return result;
  }
  if (grows && late.slope > 0) {
    result.growth = Growth::leak;
    return result;
  }
  result.per_cycle = 0;
  if (last_step > 0) {
    result.growth = Growth::grew_late;
    result.last_step = last_step;
    return result;
  }
  // Over all cycles, the warm-up too.
  const auto lowest = std::min(bytes[0], bytes[1]);
  const bool grew =
      static_cast<double>(y.back()) - static_cast<double>(lowest) >= std::max(1.0, least_growth);
  result.growth = grew ? Growth::grew_then_stayed : Growth::none;
  if (grew)
    for (const std::size_t step : steps)
      if (!is_late(cycles[step], cycles.back())) result.last_step = cycles[step];
  return result;
}

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
                                     const std::vector<bool>& sampled, const TracersOwnMemory& tracers_own) {
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
  const Sample& first_judged = series.samples[warm_up_of(series.samples.size())];
  const double profiles = grown_profiles(tracers_own, first_judged.time_ns, series.samples.back().time_ns);
  noise += profiles;
  const SeriesGrowth own = growth_of(verdict.at_cycles, bytes, noise);
  const SeriesGrowth total = growth_of(verdict.at_cycles, verdict.live_bytes, noise);
  verdict.growth = total.growth;
  verdict.bytes_per_cycle = total.per_cycle;
  verdict.last_step = total.last_step;
  verdict.late_bytes = verdict.live_bytes.back() - verdict.live_bytes[total.warm_up];
  verdict.smallest_visible =
      noise / static_cast<double>(verdict.at_cycles.back() - verdict.at_cycles[total.warm_up]);
  verdict.warm_up_cycles = verdict.at_cycles[total.warm_up] - 1;  // those before the first that counted

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
    const SeriesGrowth growth = growth_of(verdict.at_cycles, bytes, estimated ? noise : profiles);
    verdict.stacks.push_back({StackId{stack}, growth.growth, growth.per_cycle, bytes.front(), bytes.back(),
                              bytes.back() - bytes[growth.warm_up]});
    if (!estimated) {
      add_wrapping(exact_late_bytes, bytes.back() - bytes[growth.warm_up]);
      if (growth.growth == Growth::grew_late) exact_last_step = std::max(exact_last_step, growth.last_step);
    }
    if (!estimated && growth.growth != Growth::leak && turns.size() < kMostTurns && may_take_turns(bytes))
      turns.push_back({verdict.stacks.size() - 1, bytes});
    if (growth.growth != Growth::leak) continue;
    leaking += growth.per_cycle;
    last_step = std::max(last_step, growth.last_step);
    all_in_steps = all_in_steps && growth.last_step > 0;
  }
  // In steps only: what merely comes and goes often trends.
  std::erase_if(turns, [all = turns](const Turns& one) { return !hands_over(one, all); });
  const SeriesGrowth by_turns = growth_of(verdict.at_cycles, sum_of(turns, series.samples.size()), profiles);
  if (by_turns.growth == Growth::leak && by_turns.last_step > 0) {
    share_out(by_turns.per_cycle, turns, verdict);
    leaking += by_turns.per_cycle;
    last_step = std::max(last_step, by_turns.last_step);
  }
  // What one stack leaks another may hide by giving back as much, or in samples the noise of the others.
  if (leaking > 0 && verdict.growth != Growth::leak) {
    verdict.growth = Growth::leak;
    verdict.bytes_per_cycle = leaking;
    verdict.last_step = all_in_steps ? last_step : 0;
  }
  // Of samples the whole hides what the large blocks among them show.
  if (noise > 0 && verdict.growth < Growth::grew_late && exact_last_step > 0 && exact_late_bytes > 0) {
    verdict.growth = Growth::grew_late;
    verdict.last_step = exact_last_step;
    verdict.late_bytes = exact_late_bytes;
  }
  // What grows as a whole may be many stacks of which none does: then those that grew after the warm-up, as
  // the sum of all did.
  const bool is_told = std::any_of(verdict.stacks.begin(), verdict.stacks.end(),
                                   [&](const StackGrowth& s) { return s.growth == verdict.growth; });
  const bool names_all = verdict.growth >= Growth::grew_late && !is_told;
  std::erase_if(verdict.stacks, [&](const StackGrowth& s) {
    return s.growth == Growth::none && !(names_all && s.late_bytes > 0);
  });
  std::sort(verdict.stacks.begin(), verdict.stacks.end(), [&](const StackGrowth& a, const StackGrowth& b) {
    if (a.bytes_per_cycle != b.bytes_per_cycle) return a.bytes_per_cycle > b.bytes_per_cycle;
    if (names_all && a.late_bytes != b.late_bytes) return a.late_bytes > b.late_bytes;
    return a.last_bytes - a.first_bytes > b.last_bytes - b.first_bytes;
  });
  if (verdict.growth == Growth::leak) {
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
    return series.samples.size() >= static_cast<std::size_t>(kFewestCycles);
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
    return one.growth != Growth::leak ||
           std::any_of(verdict.stacks.begin(), verdict.stacks.end(), [&](const StackGrowth& other) {
             return other.stack == one.stack && other.growth == Growth::leak;
           });
  };
  for (std::size_t i = 1; i < judged.size(); ++i) {
    LeakVerdict& other = verdict.other_cycles.emplace_back(std::move(judged[i].verdict));
    other.same_places = other.growth == Growth::leak && !other.stacks.empty() &&
                        other.stacks.front().growth == Growth::leak &&
                        std::all_of(other.stacks.begin(), other.stacks.end(), leaks_there);
  }
  verdict.cycles_left_out = left_out(layers, chosen);
  return verdict;
}

}  // namespace headroom::analysis
