// Metrics at a time. A figure that a source did not give is absent, never zero. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "model/gpu_sample.h"
#include "model/pool_sample.h"

namespace headroom {

// A named reading of one sensor: a temperature zone, a power rail, a clock.
struct Reading {
  std::string name;
  double value = 0;
  friend bool operator==(const Reading&, const Reading&) = default;
};

// One core. A core that is switched off has no figures.
struct CpuCore {
  bool online = true;
  std::optional<double> percent, clock_hz;
  friend bool operator==(const CpuCore&, const CpuCore&) = default;
};

// A hardware block beside CPU and GPU: a video encoder, a deep-learning accelerator.
struct EngineReading {
  std::string name;
  std::optional<bool> on;
  std::optional<double> percent, clock_hz;
  friend bool operator==(const EngineReading&, const EngineReading&) = default;
};

// A control group at one moment.
struct CgroupMemory {
  std::optional<Bytes> current, peak, limit;
  std::optional<Bytes> anonymous, file_backed;
  std::optional<std::int64_t> oom_kills;  // since the group was made
  std::optional<Bytes> swapped, high;     // `high`: from where on it is throttled (v2)
  // Of the pages of files those that nobody used of late: what the kernel takes back first, for nothing.
  std::optional<Bytes> inactive_file = std::nullopt;
  friend bool operator==(const CgroupMemory&, const CgroupMemory&) = default;
};

// A process in the table of all of them. Its memory is inside the machine's; rss, pss and gpu overlap and are
// never added to each other.
struct ProcessSample {
  std::int64_t pid = 0, parent = 0;
  std::string name;                   // as the kernel has it: at most 15 characters
  std::string user;                   // whose it is: a name, or a number without one; empty if not told
  std::optional<double> cpu_percent;  // of one core, since the sample before
  std::optional<Bytes> rss, swapped;
  std::optional<Bytes> pss;  // only where asked for
  std::optional<Bytes> gpu;  // by NvMap or the driver
  std::optional<std::int64_t> oom_score, oom_score_adj, threads;
  // Field 22 of its stat file. With it the number names this process alone; not in logs.
  std::optional<std::int64_t> start_ticks;
  friend bool operator==(const ProcessSample&, const ProcessSample&) = default;
};

enum class KernelEventKind { oom_kill, nvmap_error, gpu_error };
std::string_view name_of(KernelEventKind kind);

// What the kernel told about memory (/dev/kmsg) since the sample before.
struct KernelEvent {
  KernelEventKind kind = KernelEventKind::oom_kill;
  std::optional<std::int64_t> pid;  // the victim
  std::string process;              // its name
  std::string text;                 // as the kernel wrote it
  friend bool operator==(const KernelEvent&, const KernelEvent&) = default;
};

// The whole machine at one moment. All views of it (screen, log, metrics) share this one type.
struct SystemSample {
  Nanoseconds time;                      // monotonic; in a log since its begin
  std::optional<Nanoseconds> unix_time;  // of the wall clock, which may jump
  // What a log wrote before the sample; the order of its day and month is not told.
  std::string clock_text;

  std::optional<double> cpu_percent;  // of all cores together, 0..100, since the previous sample
  std::vector<CpuCore> cores;

  std::optional<Bytes> ram_total, ram_free, ram_available, ram_cached, ram_shared;
  std::optional<Bytes> ram_used;  // MemTotal − MemFree − Buffers − Cached (as jtop counts)
  // Parts of the machine's memory as the kernel counts them: docs/metrics.md has the names in /proc/meminfo.
  std::optional<Bytes> ram_buffers, ram_anonymous, ram_mapped, ram_dirty;
  std::optional<Bytes> slab_reclaimable, slab_unreclaimable, kernel_stacks, page_tables;
  std::optional<Bytes> huge_pages_total, huge_pages_free;  // reserved by the administrator
  std::optional<Bytes> cma_total, cma_free;  // of the area that devices take contiguous memory from
  std::optional<Bytes> nvmap_used;           // Jetson; inside ram_used, never added to it
  std::optional<Bytes> nvmap_free;           // kept by its driver for the next request
  // The largest block of free pages that hang together, and how many there are of its size.
  std::optional<Bytes> largest_free_block;
  std::optional<std::int64_t> largest_free_blocks;
  std::optional<Bytes> swap_total, swap_used, swap_cached;
  std::optional<Bytes> zram_original, zram_compressed, zram_used;  // swapped into it, and what that takes
  std::optional<CgroupMemory> cgroup;  // the control group that the sampler runs in

  std::optional<double> psi_some_avg10, psi_full_avg10;  // memory pressure, percent
  // Since the previous sample: the time in which some, or all, tasks waited for memory; pages; working-set
  // refaults; requests that had to reclaim; runs of compaction and those in vain; faults that had to read.
  std::optional<Nanoseconds> psi_some_stalled, psi_full_stalled;
  std::optional<std::int64_t> pages_swapped_in, pages_swapped_out;
  std::optional<std::int64_t> refaults, oom_kills;
  std::optional<std::int64_t> allocation_stalls, compaction_stalls, compaction_failures, major_faults;

  std::vector<Reading> temperatures_celsius, temperature_peaks_celsius;
  std::vector<Reading> power_watts;
  std::vector<Reading> power_average_watts, power_peak_watts;  // since tegrastats began
  std::vector<Reading> clocks_hz;                              // "cpu0", "gpu", "emc"
  std::vector<EngineReading> engines;
  std::optional<double> emc_percent;  // of what the memory controller can move at its clock
  std::optional<double> gpu_percent;  // of several GPUs the busiest
  std::vector<Reading> fans_rpm, fans_percent;
  std::string power_mode;         // of nvpmodel: "MAXN"
  std::optional<bool> throttled;  // a throttle alert of the board or of a GPU is active now
  std::vector<GpuSample> gpus;    // as the driver tells them (NVML); empty without it

  std::vector<ProcessSample> processes;  // the largest, or those that are followed
  std::vector<PoolSample> pools;         // of programs that tell of theirs
  std::vector<KernelEvent> kernel_events;
  std::vector<Reading> other;  // what one kind of board alone tells, named with its unit: "edp_limit"
  std::vector<std::string> unknown_tokens;  // of a log: what was not understood, as it stands there
  friend bool operator==(const SystemSample&, const SystemSample&) = default;
};

// As if it had just been made, with the memory of its lists kept: a sampler that fills the same sample again
// and again allocates nothing.
void clear(SystemSample& sample);

// One process at one moment.
struct ProcessMemory {
  std::optional<Bytes> rss;                             // VmRSS
  std::optional<Bytes> rss_peak;                        // VmHWM since the start or the last reset
  std::optional<Bytes> anonymous, file_backed, shared;  // RssAnon, RssFile, RssShmem: the parts of rss
  std::optional<Bytes> pss;                             // smaps_rollup; costs more, so only where asked for
  std::optional<Bytes> swapped;                         // VmSwap
  std::optional<Nanoseconds> cpu_time;                  // user + system, all threads
  std::optional<std::int64_t> threads;
  // VmData: private and writable, reserved, touched or not; what RLIMIT_DATA bounds.
  std::optional<Bytes> data = std::nullopt;
  // Parts of `pss`; absent before Linux 5.3.
  std::optional<Bytes> pss_file = std::nullopt, pss_shared = std::nullopt;
  friend bool operator==(const ProcessMemory&, const ProcessMemory&) = default;
};

}  // namespace headroom
