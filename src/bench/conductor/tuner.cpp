#include "bench/conductor/setup_phase.h"

#include <algorithm>
#include <span>
#include <string_view>

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

using Changes = std::span<const std::string_view>;  // settings in words, as in --model: "arena=off"

// The settings to try after threads, each from the best settings so far.
constexpr std::string_view kChangesOnCpu[]{
    "arena=off",   "extend=same_as_requested", "pattern=off", "prepack=off", "graph=2", "graph=1",
    "spinning=off"};
// On a GPU, the CPU only submits work: its threads and arena matter little.
constexpr std::string_view kChangesOnGpu[]{"convolutions=heuristic", "convolutions=default",
                                           "workspace=small", "extend=same_as_requested", "capture=on"};
// Settings that save memory; the setting that costs the least time comes first. The arena's extension has no
// effect without an arena.
constexpr std::string_view kSavingsOnCpu[]{"pattern=off", "extend=same_as_requested",
                                           "arena=off,extend=next_power_of_two", "prepack=off", "threads=1"};
constexpr std::string_view kSavingsOnGpu[]{"workspace=small", "convolutions=heuristic",
                                           "extend=same_as_requested"};

// Powers of two, and all cores.
std::vector<int> thread_counts(int cores) {
  std::vector<int> counts{1};
  while (counts.back() < cores) counts.push_back(std::min(2 * counts.back(), cores));
  return counts;
}

}  // namespace

Result<TuneOutcome> search_settings(const RuntimeSettings& start, int cores, const TryFunction& attempt) {
  TuneOutcome outcome;
  std::size_t best = 0, quickest = 0;
  std::int64_t timeouts = 0;
  const auto consider = [&](const RuntimeSettings& settings) -> Status {
    const bool was_tried =
        std::ranges::find(outcome.trials, settings, &TuneTrial::settings) != outcome.trials.end();
    if (was_tried || timeouts == kMostTimeouts) return {};
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
    std::vector<std::string_view> needed;  // savings added until a trial fitted
    RuntimeSettings smaller = start;
    for (const std::string_view saving : on_gpu ? Changes(kSavingsOnGpu) : Changes(kSavingsOnCpu)) {
      if (fits(outcome.trials[best])) break;
      RuntimeSettings settings = smaller;
      set_settings(settings, saving);
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
        if (i != left_out) set_settings(settings, needed[i]);
      if (auto tried = consider(settings); !tried) return forward_error(tried);
    }
  }
  if (!on_gpu) {
    RuntimeSettings settings = outcome.trials[best].settings;
    for (const int threads : thread_counts(cores)) {
      settings.threads = threads;
      if (auto tried = consider(settings); !tried) return forward_error(tried);
    }
  }
  for (const std::string_view change : on_gpu ? Changes(kChangesOnGpu) : Changes(kChangesOnCpu)) {
    RuntimeSettings settings = outcome.trials[best].settings;
    set_settings(settings, change);
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
