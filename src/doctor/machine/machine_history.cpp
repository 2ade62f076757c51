#include "doctor/machine/machine_history.h"

#include <algorithm>

namespace headroom::doctor {
namespace {

constexpr std::size_t kMostPoints = 512, kMostEvents = 8, kMostProcesses = 512;
constexpr double kThrashPages = 2500, kPiecesFactor = 3.5;  // as the alerts have them

// Whether `part` of `whole` is a smaller share than the other.
bool is_less(Bytes part, Bytes whole, Bytes other_part, Bytes other_whole) {
  return static_cast<double>(part.count) * static_cast<double>(other_whole.count) <
         static_cast<double>(other_part.count) * static_cast<double>(whole.count);
}

}  // namespace

void MachineHistory::add(const SystemSample& sample) {
  const Nanoseconds since = samples > 0 ? sample.time - last_time : Nanoseconds{};
  if (samples > 0 && since.count <= 0) return;
  if (samples == 0) first_time = growing_since = sample.time;
  if (samples == 1) {
    risk_.emplace(since);
    risk_->add(last);  // the first
  }
  if (risk_) risk_->add(sample);
  start_growth_again(sample, since);
  last_time = sample.time;
  ++samples;
  if (sample.ram_available && sample.ram_total &&
      (!lowest_available ||
       is_less(*sample.ram_available, *sample.ram_total, *lowest_available, lowest_of))) {
    lowest_available = sample.ram_available;
    lowest_of = *sample.ram_total;
    lowest_at = duration();
  }
  if (sample.swap_used && sample.swap_total &&
      (swapped_of.count == 0 || is_less(most_swapped, swapped_of, *sample.swap_used, *sample.swap_total))) {
    most_swapped = *sample.swap_used;
    swapped_of = *sample.swap_total;
    swapped_at = duration();
  }
  oom_kills += sample.oom_kills.value_or(0);
  if (sample.cgroup && sample.cgroup->limit && sample.cgroup->oom_kills) {
    if (!group_oom_kills_at_first) group_oom_kills_at_first = sample.cgroup->oom_kills;
    group_oom_kills = *sample.cgroup->oom_kills - *group_oom_kills_at_first;
  }
  for (const KernelEvent& event : sample.kernel_events)
    if (kernel_events.size() < kMostEvents) kernel_events.push_back(event);
  for (const ProcessSample& process : sample.processes) {
    if (!process.rss || (processes.size() >= kMostProcesses && !processes.contains(process.pid))) continue;
    const auto [known, is_new] =
        processes.try_emplace(process.pid, ProcessGrowth{process.name, *process.rss, {}});
    known->second.last = *process.rss;
  }
  add_times(sample, since);
  add_point(sample);
  add_moments(sample);
  last = sample;
}

void MachineHistory::add_times(const SystemSample& sample, Nanoseconds since) {
  // NvMap takes free pages, and no pages of the cache: a twentieth of the memory free beside three times as
  // much cache is where it fails and the machine still says "available".
  if (sample.nvmap_used && sample.ram_total && sample.ram_free && sample.ram_available) {
    const Bytes cache = *sample.ram_available - *sample.ram_free;
    if (sample.ram_free->count < sample.ram_total->count / 20 &&
        cache.count > sample.ram_total->count * 3 / 20) {
      starved += since;
      if (!starved_free || *sample.ram_free < *starved_free) {
        starved_free = sample.ram_free;
        starved_cache = cache;
        starved_at = duration();
      }
    }
  }
  if (sample.throttled.value_or(false)) throttled += since;
  add_group_thrash(sample, since);
  if (!risk_) return;
  using analysis::RiskFigure;
  const double thrash = (*risk_)[RiskFigure::thrash_pages_per_second].value.value_or(0);
  if (thrash > kThrashPages) thrashed += since;
  if (thrash > most_thrash) thrashed_at = duration();
  most_thrash = std::max(most_thrash, thrash);
  const double factor = (*risk_)[RiskFigure::fragmentation_factor].value.value_or(0);
  if (factor > kPiecesFactor) in_pieces += since;
  worst_factor = std::max(worst_factor, factor);
  seconds_left = (*growth_)[RiskFigure::memory_seconds_left];
  growth_per_hour = (*growth_)[RiskFigure::memory_growth_bytes_per_hour];
}

// A process that ended gives back at once what it took long to take. A step that releases and takes again
// falls too, by less and again and again: only a fall by a quarter of what was used, and a twentieth of the
// memory at least, ends what went on before.
void MachineHistory::start_growth_again(const SystemSample& sample, Nanoseconds since) {
  if (samples == 0) return;
  if (!growth_) {
    growth_.emplace(since);
    growth_->add(last);
  }
  if (sample.ram_total && sample.ram_available) {
    const Bytes taken = *sample.ram_total - *sample.ram_available;
    if (!highest_used_ || taken > *highest_used_) highest_used_ = taken;
    constexpr std::int64_t kPartOfUsed = 4, kPartOfAll = 20;
    const Bytes fallen = *highest_used_ - taken;
    if (fallen.count > highest_used_->count / kPartOfUsed &&
        fallen.count > sample.ram_total->count / kPartOfAll) {
      growth_.emplace(since);
      highest_used_ = taken;
      growing_since = sample.time;
      processes.clear();
    }
  }
  growth_->add(sample);
}

void MachineHistory::add_moments(const SystemSample& sample) {
  const auto keep = [&](std::optional<Moment>& kept, double held) {
    if (!kept || held >= kept->most) kept = Moment{sample, duration(), held};
  };
  const auto share = [](Bytes part, Bytes whole) {
    return whole.count > 0 ? static_cast<double>(part.count) / static_cast<double>(whole.count) : 0.0;
  };
  constexpr std::size_t kMostGpus = 64;
  for (const GpuSample& gpu : sample.gpus) {
    if (!gpu.memory_total || !gpu.memory_used) continue;
    const std::int64_t index = gpu.index.value_or(0);
    const double held = share(*gpu.memory_used, *gpu.memory_total);
    const auto known = fullest_gpus.find(index);
    if (known == fullest_gpus.end() ? fullest_gpus.size() >= kMostGpus : held < known->second.most) continue;
    fullest_gpus[index] = Moment{sample, duration(), held};
  }
  if (const auto& group = sample.cgroup; group && group->limit && group->anonymous)
    keep(fullest_group, share(*group->anonymous, *group->limit));
  if (sample.zram_used && sample.zram_original)
    keep(largest_zram, static_cast<double>(sample.zram_used->count));
  if (const Bytes held = desktop_in(sample).held; held.count > 0)
    keep(largest_desktop, static_cast<double>(held.count));
}

// A machine that thrashes waits; a group at its limit may read so much from a fast disk, or from the cache of
// another group, that it hardly does, and is a hundred times slower all the same: 470,000 pages a second were
// read again at 8 % of waiting (bench/results/doctor_planted_faults.md). The machine's count is taken: the
// kernel tells none of a group before control groups v2.
void MachineHistory::add_group_thrash(const SystemSample& sample, Nanoseconds since) {
  if (!sample.cgroup || !sample.cgroup->limit || !sample.cgroup->current || since.count <= 0) return;
  if (!sample.refaults || !sample.psi_some_stalled) return;
  constexpr double kNoWaiting = 0.02;
  const double pages = static_cast<double>(*sample.refaults) / since.seconds();
  const double waiting =
      static_cast<double>(sample.psi_some_stalled->count) / static_cast<double>(since.count);
  const bool is_full = sample.cgroup->current->count >= sample.cgroup->limit->count / 100 * 95;
  if (!is_full || pages < kThrashPages || waiting < kNoWaiting) return;
  group_thrashed += since;
  most_group_pages = std::max(most_group_pages, pages);
  most_group_waiting = std::max(most_group_waiting, waiting);
}

void MachineHistory::add_point(const SystemSample& sample) {
  if (!sample.ram_total || !sample.ram_available || (samples - 1) % stride_ != 0) return;
  at.push_back(samples);
  used.push_back((*sample.ram_total - *sample.ram_available).count);
  if (at.size() < kMostPoints) return;
  for (std::size_t i = 0; 2 * i < at.size(); ++i) {
    at[i] = at[2 * i];
    used[i] = used[2 * i];
  }
  at.resize(kMostPoints / 2);
  used.resize(kMostPoints / 2);
  stride_ *= 2;
}

}  // namespace headroom::doctor
