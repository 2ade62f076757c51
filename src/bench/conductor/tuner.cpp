#include "bench/conductor/tuner.h"

#include <algorithm>

namespace headroom::bench {
namespace {

// A smaller gain is noise on a shared machine.
constexpr double kClearlyFaster = 0.99;
// Each costs all of --timeout, 2 minutes by default.
constexpr std::int64_t kMostTimeouts = 3;

bool fits(const TuneTrial& trial) {
  return trial.status == ModelStatus::ok && trial.within_limit != false && trial.p50 && trial.p50->count > 0;
}

// The trial did not fit, and settings with less memory may help. A machine that reclaims pages all the time
// is slow.
bool may_lack_memory(const TuneTrial& trial) {
  return trial.status == ModelStatus::oom || trial.status == ModelStatus::timeout ||
         (trial.status == ModelStatus::ok && trial.within_limit == false);
}

double ratio(const TuneTrial& a, const TuneTrial& b) {
  return static_cast<double>(a.p50->count) / static_cast<double>(b.p50->count);
}

// Clearly faster, or as fast with less memory. "As fast" is compared with `fastest`, the fastest of all
// trials. Compared with `b` only, each step could lose one per cent.
bool better(const TuneTrial& a, const TuneTrial& b, const TuneTrial& fastest) {
  if (!fits(a)) return false;
  if (!fits(b)) return true;
  if (ratio(a, b) < kClearlyFaster) return true;
  const bool as_fast = ratio(a, fastest) <= 1.0 / kClearlyFaster;
  const auto peak_of_a = a.counted_peak(), peak_of_b = b.counted_peak();
  return as_fast && peak_of_a && peak_of_b &&
         static_cast<double>(peak_of_a->count) < static_cast<double>(peak_of_b->count) * kClearlyFaster;
}

using Variants = std::vector<RuntimeSettings>;
using Change = std::function<void(RuntimeSettings&)>;

Variants thread_variants(const RuntimeSettings& base, int cores) {
  Variants variants;
  for (int threads = 1; threads <= cores; threads *= 2) {
    RuntimeSettings settings = base;
    settings.threads = threads;
    variants.push_back(settings);
  }
  // not a power of two: the loop above has not tried all cores
  if (cores > 1 && (cores & (cores - 1)) != 0) {
    RuntimeSettings settings = base;
    settings.threads = cores;
    variants.push_back(settings);
  }
  return variants;
}

// The settings to try after threads, each from the best settings so far.
std::vector<Change> single_changes() {
  return {
      [](RuntimeSettings& s) { s.arena = false; },
      [](RuntimeSettings& s) { s.arena_extend = ArenaExtend::same_as_requested; },
      [](RuntimeSettings& s) { s.memory_pattern = false; },
      [](RuntimeSettings& s) { s.prepacking = false; },
      [](RuntimeSettings& s) { s.graph_level = 2; },
      [](RuntimeSettings& s) { s.graph_level = 1; },
      [](RuntimeSettings& s) { s.spinning = false; },
  };
}

// On a GPU, the CPU only submits work: its threads and arena matter little.
std::vector<Change> changes_on_a_gpu() {
  return {
      [](RuntimeSettings& s) { s.conv_search = ConvSearch::heuristic; },
      [](RuntimeSettings& s) { s.conv_search = ConvSearch::standard; },
      [](RuntimeSettings& s) { s.conv_small_workspace = true; },
      [](RuntimeSettings& s) { s.arena_extend = ArenaExtend::same_as_requested; },
      [](RuntimeSettings& s) { s.device_graph = true; },
  };
}

// Settings that save memory; the setting that costs the least time comes first.
std::vector<Change> savings(bool on_gpu) {
  if (on_gpu)
    return {
        [](RuntimeSettings& s) { s.conv_small_workspace = true; },
        [](RuntimeSettings& s) { s.conv_search = ConvSearch::heuristic; },
        [](RuntimeSettings& s) { s.arena_extend = ArenaExtend::same_as_requested; },
    };
  return {
      [](RuntimeSettings& s) { s.memory_pattern = false; },
      [](RuntimeSettings& s) { s.arena_extend = ArenaExtend::same_as_requested; },
      [](RuntimeSettings& s) {
        s.arena = false;
        s.arena_extend = ArenaExtend::next_power_of_two;  // has no effect without an arena
      },
      [](RuntimeSettings& s) { s.prepacking = false; },
      [](RuntimeSettings& s) { s.threads = 1; },
  };
}

// Detects a setting that has no effect together with another one. If the start settings contain such a
// combination, it is tried anyway, and so are those derived from it.
bool has_unused_growth(const RuntimeSettings& settings) {
  return !settings.arena && settings.arena_extend == ArenaExtend::same_as_requested;
}
bool has_unused_spinning(const RuntimeSettings& settings) {
  return settings.threads == 1 && !settings.spinning;
}
bool is_pointless(const RuntimeSettings& settings, const RuntimeSettings& start) {
  return (has_unused_growth(settings) && !has_unused_growth(start)) ||
         (has_unused_spinning(settings) && !has_unused_spinning(start));
}

}  // namespace

Result<TuneOutcome> search_settings(const RuntimeSettings& start, int cores, const TryFunction& attempt) {
  TuneOutcome outcome;
  std::size_t best = 0, quickest = 0;
  std::int64_t timeouts = 0;
  const auto consider = [&](const RuntimeSettings& settings) -> Status {
    const auto tried = [&](const TuneTrial& trial) { return trial.settings == settings; };
    if (is_pointless(settings, start) || std::any_of(outcome.trials.begin(), outcome.trials.end(), tried))
      return {};
    if (timeouts == kMostTimeouts) return {};
    auto trial = attempt(settings);
    if (!trial) return forward_error(trial);
    outcome.trials.push_back(std::move(*trial));
    const TuneTrial& last = outcome.trials.back();
    if (last.status == ModelStatus::timeout) ++timeouts;
    if (fits(last) && (!fits(outcome.trials[quickest]) || ratio(last, outcome.trials[quickest]) < 1))
      quickest = outcome.trials.size() - 1;
    if (better(last, outcome.trials[best], outcome.trials[quickest])) best = outcome.trials.size() - 1;
    return {};
  };
  if (auto tried = consider(start); !tried) return forward_error(tried);
  const bool on_gpu = start.device != "cpu";
  outcome.fastest = start;
  if (may_lack_memory(outcome.trials.front())) {
    std::vector<Change> needed;  // savings added until a trial fitted
    RuntimeSettings smaller = start;
    for (const Change& saving : savings(on_gpu)) {
      if (fits(outcome.trials[best])) break;
      RuntimeSettings settings = smaller;
      saving(settings);
      if (auto tried = consider(settings); !tried) return forward_error(tried);
      // Not every runtime has every setting. A setting that the runtime rejects is left out of the next
      // trials.
      const TuneTrial& last = outcome.trials.back();
      if (last.settings == settings && last.status == ModelStatus::failed) continue;
      smaller = settings;
      needed.push_back(saving);
    }
    if (!fits(outcome.trials[best])) return outcome;
    // The last saving may be enough without some of those before it.
    for (std::size_t left_out = 0; left_out + 1 < needed.size(); ++left_out) {
      RuntimeSettings settings = start;
      for (std::size_t i = 0; i < needed.size(); ++i)
        if (i != left_out) needed[i](settings);
      if (auto tried = consider(settings); !tried) return forward_error(tried);
    }
  }
  if (!on_gpu)
    for (const RuntimeSettings& settings : thread_variants(outcome.trials[best].settings, cores))
      if (auto tried = consider(settings); !tried) return forward_error(tried);
  for (const auto& change : on_gpu ? changes_on_a_gpu() : single_changes()) {
    RuntimeSettings settings = outcome.trials[best].settings;
    change(settings);
    if (auto tried = consider(settings); !tried) return forward_error(tried);
  }
  outcome.fastest = outcome.trials[best].settings;
  if (!fits(outcome.trials[best])) return outcome;
  const TuneTrial* smallest = &outcome.trials[best];
  for (const TuneTrial& trial : outcome.trials)
    if (fits(trial) && trial.counted_peak() && smallest->counted_peak() &&
        ratio(trial, outcome.trials[quickest]) <= kNearlyAsFast &&
        *trial.counted_peak() < *smallest->counted_peak())
      smallest = &trial;
  outcome.smallest = smallest->settings;
  return outcome;
}

}  // namespace headroom::bench
