#include "doctor/machine/machine_history.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace headroom::doctor {
namespace {

constexpr std::size_t kMostEvents = 8, kMostSessions = 16;
// Processes that are not in the newest sample: they ended, or the sample has only the largest.
constexpr std::size_t kMostEnded = 1024;
constexpr double kThrashPages = 2500, kPiecesFactor = 3.5;  // as the alerts

}  // namespace

bool is_of_desktop(std::string_view process) {
  static const auto kNames = split_words(
      "gnome-shell Xorg Xwayland gdm3 gdm-x-session lightdm sddm kwin_x11 kwin_wayland plasmashell "
      "xfce4-session xfdesktop xfwm4 lxpanel lxsession nautilus-deskto gnome-software tracker-miner-f "
      "update-notifier gsd-xsettings unity-settings- compiz");
  return std::ranges::find(kNames, process) != kNames.end();
}

DesktopProcesses desktop_in(const SystemSample& sample) {
  DesktopProcesses desktop;
  for (const ProcessSample& process : sample.processes) {
    if (!process.rss || !is_of_desktop(process.name)) continue;
    desktop.held += process.pss.value_or(*process.rss);
    if (desktop.names.find(process.name) == std::string::npos)
      desktop.names += (desktop.names.empty() ? "" : ", ") + process.name;
  }
  return desktop;
}

std::int64_t share_of(const std::optional<Bytes>& total, std::int64_t percent) {
  return total ? total->count / 100 * percent : 0;
}

bool MachineSession::is_worse_than(const MachineSession& other) const {
  if (seconds_left.value.has_value() != other.seconds_left.value.has_value())
    return seconds_left.value.has_value();
  if (seconds_left.value) return *seconds_left.value < *other.seconds_left.value;
  return grown() > other.grown();
}

std::map<ProcessKey, ProcessGrowth>::const_iterator fastest_process(const MachineSession& session) {
  return std::ranges::max_element(
      session.processes, [](const auto& a, const auto& b) { return a.second.grown() < b.second.grown(); });
}

void MachineHistory::add(const SystemSample& sample) {
  const auto [since, begins_session] = clock_.add(sample);
  if (begins_session) begin_session();
  // The interval of the samples is known from the second one on.
  for (auto* judged : {&risk_, &growth_})
    if (!*judged && since.count > 0) {
      judged->emplace(since);
      (*judged)->add(last);  // the first
    }
  if (risk_) risk_->add(sample);
  add_growth(sample, since);
  ++samples;
  ++session.samples;
  if (sample.ram_total && sample.ram_available)
    session.used.add(duration(), static_cast<double>((*sample.ram_total - *sample.ram_available).count));
  if (sample.ram_total) session.ram_total = sample.ram_total;
  if (sample.swap_used) most_swapped = std::max(most_swapped, *sample.swap_used);
  add_kills(sample);
  add_processes(sample);
  add_times(sample, since);
  add_moments(sample);
  last = sample;
}

void MachineHistory::begin_session() {
  growing_since_ = duration();
  if (samples == 0) return;
  session.last = std::move(last);
  earlier.push_back(std::move(session));
  if (earlier.size() > kMostSessions)
    earlier.erase(
        std::ranges::min_element(earlier, [](const auto& a, const auto& b) { return b.is_worse_than(a); }));
  session = {};
  session.number = sessions();
  risk_.reset();
  growth_.reset();
  highest_used_.reset();
  had_own_kill_ = had_own_kill_ || kills_.may_be_own();
  kills_ = {};
}

void MachineHistory::add_kills(const SystemSample& sample) {
  oom_kills += sample.oom_kills.value_or(0);
  kills_.any = kills_.any || sample.oom_kills.value_or(0) > 0;
  for (const KernelEvent& event : sample.kernel_events) {
    kills_.any = kills_.any || event.kind == KernelEventKind::oom_kill;
    if (kernel_events.size() < kMostEvents) kernel_events.push_back(event);
  }
  if (!sample.cgroup || !sample.cgroup->limit || !sample.cgroup->oom_kills) return;
  // The group's counter may be older than this session.
  const std::int64_t before = kills_.of_group_before.value_or(*sample.cgroup->oom_kills);
  const std::int64_t more = std::max<std::int64_t>(0, *sample.cgroup->oom_kills - before);
  kills_.of_group = kills_.of_group.value_or(0) + more;
  kills_.of_group_before = sample.cgroup->oom_kills;
  group_oom_kills = group_oom_kills.value_or(0) + more;
}

void MachineHistory::add_processes(const SystemSample& sample) {
  if (sample.processes.empty()) return;  // without processes, it does not show which ended
  for (const ProcessSample& process : sample.processes) {
    if (!process.rss) continue;
    const ProcessKey key{process.pid, process.name, process.start_ticks};
    ProcessGrowth& growth = session.processes.try_emplace(key, ProcessGrowth{*process.rss, {}}).first->second;
    growth.last = *process.rss;
    growth.seen_in = samples;
  }
  if (session.processes.size() <= sample.processes.size() + kMostEnded) return;
  const ProcessKey most = fastest_process(session)->first;  // the process that leaked may have ended
  std::erase_if(session.processes,
                [&](const auto& one) { return one.second.seen_in != samples && one.first != most; });
}

void MachineHistory::add_times(const SystemSample& sample, Nanoseconds since) {
  // NvMap uses free pages, not pages of the cache. With less than 1/20 of the memory free and three times as
  // much cache, NvMap fails although the memory counts as available.
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
  using monitoring::RiskFigure;
  const double thrash = (*risk_)[RiskFigure::thrash_pages_per_second].value.value_or(0);
  if (thrash > kThrashPages) thrashed += since;
  if (thrash > most_thrash) thrashed_at = duration();
  most_thrash = std::max(most_thrash, thrash);
  const double factor = (*risk_)[RiskFigure::fragmentation_factor].value.value_or(0);
  if (factor > kPiecesFactor) in_pieces += since;
  worst_factor = std::max(worst_factor, factor);
}

// A process that ends frees its memory at once. A program's step also frees memory, less and repeatedly. So
// only a fall by a quarter of the used memory, and by 1/20 of all memory, restarts the judgement.
void MachineHistory::add_growth(const SystemSample& sample, Nanoseconds since) {
  if (!growth_) return;
  if (sample.ram_total && sample.ram_available) {
    const Bytes taken = *sample.ram_total - *sample.ram_available;
    if (!highest_used_ || taken > *highest_used_) highest_used_ = taken;
    constexpr std::int64_t kPartOfUsed = 4, kPartOfAll = 20;
    const Bytes fallen = *highest_used_ - taken;
    if (fallen.count > highest_used_->count / kPartOfUsed &&
        fallen.count > sample.ram_total->count / kPartOfAll) {
      growth_.emplace(since);
      highest_used_ = taken;
      growing_since_ = duration();
      session.processes.clear();
    }
  }
  growth_->add(sample);
  using monitoring::RiskFigure;
  session.seconds_left = (*growth_)[RiskFigure::memory_seconds_left];
  session.growth_per_hour = (*growth_)[RiskFigure::memory_growth_bytes_per_hour];
  session.growing_for = duration() - growing_since_;
}

void MachineHistory::add_moments(const SystemSample& sample) {
  const auto keep = [&](std::optional<Moment>& kept, double held, bool is_first_of_equals = false) {
    if (!kept || held > kept->most || (held == kept->most && !is_first_of_equals))
      kept = Moment{sample, duration(), samples, held};
  };
  const auto share = [](Bytes part, Bytes whole) {
    return whole.count > 0 ? static_cast<double>(part.count) / static_cast<double>(whole.count) : 0.0;
  };
  if (sample.ram_available && sample.ram_total && sample.ram_total->count > 0) {
    keep(fullest_memory, share(*sample.ram_total - *sample.ram_available, *sample.ram_total), true);
    const bool is_short = sample.ram_available->count <= share_of(sample.ram_total, 20);
    if (is_short && sample.swap_used && sample.swap_total && sample.swap_total->count > 0)
      keep(fullest_swap, share(*sample.swap_used, *sample.swap_total), true);
  }
  constexpr std::size_t kMostGpus = 64;
  for (const GpuSample& gpu : sample.gpus) {
    const std::optional<Bytes> free = free_memory(gpu);
    if (!gpu.memory_total || !free) continue;
    const std::int64_t index = gpu.index.value_or(0);
    const double held = share(*gpu.memory_total - *free, *gpu.memory_total);
    const auto known = fullest_gpus.find(index);
    if (known == fullest_gpus.end() ? fullest_gpus.size() >= kMostGpus : held < known->second.most) continue;
    fullest_gpus[index] = {gpu, duration(), samples, held};
  }
  if (const auto& group = sample.cgroup; group && group->limit && group->anonymous)
    keep(fullest_group, share(*group->anonymous, *group->limit));
  if (const auto& group = sample.cgroup; group && group->high && group->current)
    keep(throttled_group, share(*group->current, *group->high));
  if (sample.zram_used && sample.zram_original)
    keep(largest_zram, static_cast<double>(sample.zram_used->count));
  if (const Bytes held = desktop_in(sample).held; held.count > 0)
    keep(largest_desktop, static_cast<double>(held.count));
}

// A thrashing machine waits. A group at its limit may read from a fast disk, or from the cache of another
// group, and hardly wait, but it is a hundred times slower all the same: 470,000 pages per second were
// re-read with 8 % of waiting (benchmarks/results/doctor_planted_faults.md). The count is the machine's:
// control groups v1 have none.
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
  if (pages > most_group_pages) thrashed_group_limit = *sample.cgroup->limit;
  most_group_pages = std::max(most_group_pages, pages);
  most_group_waiting = std::max(most_group_waiting, waiting);
}

}  // namespace headroom::doctor
