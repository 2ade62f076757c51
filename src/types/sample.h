// Metrics at one time. A figure that a source did not report is absent, never zero. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "types/enum_names.h"

namespace headroom {

// A process that uses memory of a GPU. The driver's figures include contexts and modules.
struct GpuProcess {
  std::int64_t pid = 0;       // in the driver's PID namespace: may not exist inside a container
  std::optional<Bytes> used;  // absent if the driver does not report it (Windows' driver model, some Jetsons)
  std::optional<std::int64_t> gpu_instance, compute_instance;  // the process's MIG instance
  friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};

// A MIG instance: a part of a GPU that acts as a separate device.
struct MigInstance {
  std::int64_t index = 0;  // among the instances of its GPU
  std::string name;        // "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
  std::string uuid;        // "MIG-…", as in CUDA_VISIBLE_DEVICES
  std::optional<std::int64_t> gpu_instance, compute_instance;
  std::optional<Bytes> memory_total, memory_used, memory_free, memory_reserved;
  friend bool operator==(const MigInstance&, const MigInstance&) = default;
};

// A whole GPU. NVML orders devices by PCI bus. CUDA orders those that CUDA_VISIBLE_DEVICES leaves, fastest
// first. Compare `uuid` and `pci_bus_id` to match the two.
struct GpuSample {
  std::optional<std::int64_t> index{};
  std::string name{};        // "NVIDIA H200"
  std::string uuid{};        // "GPU-…"
  std::string pci_bus_id{};  // "00000000:01:00.0": domain, bus, device, function
  bool lost = false;         // fell off the bus or needs a reset: no figures are available
  std::optional<Bytes> memory_total{};
  // Without reserved memory, so that total = used + reserved + free. If `memory_reserved` is absent (drivers
  // before R510), this includes the reserved memory.
  std::optional<Bytes> memory_used{};
  std::optional<Bytes> memory_free{}, memory_reserved{};
  // Percent of the driver's last sampling period (1/6 to 1 s) with activity: a kernel runs, device memory is
  // accessed, the video encoder is busy, the video decoder is busy.
  std::optional<double> gpu_percent{}, memory_percent{}, encoder_percent{}, decoder_percent{};
  std::optional<double> graphics_clock_hz{}, sm_clock_hz{}, memory_clock_hz{};
  std::optional<double> power_watts{}, power_limit_watts{};  // of the whole board; the enforced limit
  std::optional<double> temperature_celsius{};
  std::optional<bool> throttled{};              // clocks are reduced because of heat, power or another GPU
  std::vector<std::string> throttle_reasons{};  // readable reasons: "software power cap"
  std::vector<std::string> clock_limits{};      // other reasons for lower clocks: "idle"
  std::optional<bool> mig_enabled{};
  std::vector<MigInstance> mig_instances{};
  std::optional<std::vector<GpuProcess>> processes{};  // absent: the driver does not report processes
  friend bool operator==(const GpuSample&, const GpuSample&) = default;
};

// Memory that programs can still allocate: the driver's figure, or else total − used − reserved. The result
// is negative if the driver's figures are inconsistent and more is used than exists.
inline std::optional<Bytes> free_memory(const GpuSample& gpu) {
  if (gpu.memory_free) return gpu.memory_free;
  if (!gpu.memory_total || !gpu.memory_used) return std::nullopt;
  return *gpu.memory_total - *gpu.memory_used - gpu.memory_reserved.value_or(Bytes{});
}

// The state of a model pool at one time (docs/model-pool.md), and the text that publishes it for monitors:
// the file /dev/shm/headroom-pool.PID.NAME.
struct PoolSample {
  std::string name;
  std::int64_t pid = 0;
  std::string device;  // the device whose memory the budget limits: "cpu", "cuda:0"
  // The account of the pool (pool/pool_state.h): `resident` and `loading` are the charges of loaded models
  // and of the load in progress; `measured` is the last measured memory of the process.
  Bytes budget, used, resident, loading, unaccounted, stuck, measured;
  // Totals since the pool was created. A hit gets a loaded session at once. A wait is for a load, or for a
  // session that another thread uses. Evictions: models unloaded for others, or because the process exceeded
  // the budget.
  std::int64_t requests = 0, hits = 0, waits = 0, refusals = 0, loads = 0, load_failures = 0, evictions = 0;
  Nanoseconds load_time, wait_time;
  friend bool operator==(const PoolSample&, const PoolSample&) = default;
};

inline constexpr std::string_view kPoolStatusPrefix = "headroom-pool.";
// Every status text has this size, because it overwrites the previous one.
inline constexpr std::size_t kPoolStatusSize = 1024;

// Letters, digits, '_' and '-', at most 48.
bool is_pool_name(std::string_view name);

// `start_ticks` (field 22 of /proc/PID/stat) distinguishes the process from a later one with the same PID.
// `sequence` changes with every text and stands at both ends: if they differ, the text was read during a
// write.
std::string pool_status_text(const PoolSample& pool, std::int64_t start_ticks, std::int64_t sequence);

struct PoolStatus {
  PoolSample pool;
  std::int64_t start_ticks = 0;
};
// Returns nothing if the text is incomplete or contains impossible values.
std::optional<PoolStatus> parse_pool_status(std::string_view text);

// A reading of one sensor: a temperature zone, a power rail, a clock.
struct Reading {
  std::string name;
  double value = 0;
  friend bool operator==(const Reading&, const Reading&) = default;
};

// One core. An offline core has no figures.
struct CpuCore {
  bool online = true;
  std::optional<double> percent, clock_hz;
  friend bool operator==(const CpuCore&, const CpuCore&) = default;
};

// A hardware block other than CPU and GPU: a video encoder, a deep-learning accelerator.
struct EngineReading {
  std::string name;
  std::optional<bool> on;
  std::optional<double> percent, clock_hz;
  friend bool operator==(const EngineReading&, const EngineReading&) = default;
};

// A control group at one time.
struct CgroupMemory {
  std::optional<Bytes> current, peak, limit;
  std::optional<Bytes> anonymous, file_backed;
  std::optional<std::int64_t> oom_kills;  // since the group was created
  std::optional<Bytes> swapped, high;     // `high`: the kernel throttles the group above this (v2)
  // File pages that were not used recently: the kernel reclaims these first, at no cost.
  std::optional<Bytes> inactive_file = std::nullopt;
  std::optional<std::int64_t> high_events = std::nullopt;  // times above `high`, since the group was created
  friend bool operator==(const CgroupMemory&, const CgroupMemory&) = default;
};

// A process in the process table. Its memory is part of the machine's. rss, pss and gpu overlap: never add
// them.
struct ProcessSample {
  std::int64_t pid = 0, parent = 0;
  std::string name;                   // as the kernel reports it: at most 15 characters
  std::string user;                   // the owner's name, or the user id if it has no name; empty if unknown
  std::optional<double> cpu_percent;  // of one core, since the previous sample
  std::optional<Bytes> rss, swapped;
  std::optional<Bytes> pss;  // only if requested
  std::optional<Bytes> gpu;  // from NvMap or the driver
  std::optional<std::int64_t> oom_score, oom_score_adj, threads;
  std::optional<std::int64_t> descriptors;  // open ones; absent for processes of other users
  // Field 22 of the stat file. Together with the PID it identifies the process. Absent in logs.
  std::optional<std::int64_t> start_ticks;
  friend bool operator==(const ProcessSample&, const ProcessSample&) = default;
};

enum class KernelEventKind { oom_kill, nvmap_error, gpu_error };
constexpr std::string_view name_of(KernelEventKind kind) {
  return name_in({"oom_kill", "nvmap_error", "gpu_error"}, kind);
}

// A kernel message about memory (/dev/kmsg) since the previous sample.
struct KernelEvent {
  KernelEventKind kind = KernelEventKind::oom_kill;
  std::optional<std::int64_t> pid;  // the victim
  std::string process;              // the victim's name
  std::string text;                 // as the kernel wrote it
  friend bool operator==(const KernelEvent&, const KernelEvent&) = default;
};

// The whole machine at one time. The screen, the log and the metrics all use this type.
struct SystemSample {
  Nanoseconds time;                      // monotonic; in a log: since the start of the log
  std::optional<Nanoseconds> unix_time;  // wall-clock time, which may jump
  // The timestamp text of a log. Its order of day and month is unknown.
  std::string clock_text;

  std::optional<double> cpu_percent;  // of all cores together, 0..100, since the previous sample
  std::vector<CpuCore> cores;

  std::optional<Bytes> ram_total, ram_free, ram_available, ram_cached, ram_shared;
  std::optional<Bytes> ram_used;  // MemTotal − MemFree − Buffers − Cached (as jtop counts)
  // Parts of the machine's memory by the kernel's counts: docs/metrics.md lists the names in /proc/meminfo.
  std::optional<Bytes> ram_buffers, ram_anonymous, ram_mapped, ram_dirty;
  std::optional<Bytes> slab_reclaimable, slab_unreclaimable, kernel_stacks, page_tables;
  std::optional<Bytes> huge_pages_total, huge_pages_free;  // reserved by the administrator
  std::optional<Bytes> cma_total, cma_free;                // the area for contiguous device memory
  std::optional<Bytes> nvmap_used;                         // Jetson; inside ram_used, never added to it
  std::optional<Bytes> nvmap_free;                         // cached by the NvMap driver for the next request
  // The largest block of contiguous free pages, and the number of blocks of that size.
  std::optional<Bytes> largest_free_block;
  std::optional<std::int64_t> largest_free_blocks;
  std::optional<Bytes> swap_total, swap_used, swap_cached;
  // zram: swapped bytes, their compressed size, and the memory that zram uses.
  std::optional<Bytes> zram_original, zram_compressed, zram_used;
  std::optional<CgroupMemory> cgroup;  // the sampler's control group

  std::optional<double> psi_some_avg10, psi_full_avg10;  // memory pressure, percent
  // Changes since the previous sample. psi_*_stalled: time in which some or all tasks waited for memory.
  // allocation_stalls: allocations that had to reclaim memory first. compaction_stalls and _failures: runs of
  // compaction, and those without success. major_faults: page faults that read from disk.
  std::optional<Nanoseconds> psi_some_stalled, psi_full_stalled;
  std::optional<std::int64_t> pages_swapped_in, pages_swapped_out;
  std::optional<std::int64_t> refaults, oom_kills;
  std::optional<std::int64_t> allocation_stalls, compaction_stalls, compaction_failures, major_faults;
  std::optional<std::int64_t> open_files;  // of all processes; descriptors after dup() or fork() share one

  std::vector<Reading> temperatures_celsius, temperature_peaks_celsius;
  std::vector<Reading> power_watts;
  std::vector<Reading> power_average_watts, power_peak_watts;  // since tegrastats started
  std::vector<Reading> clocks_hz;                              // "cpu0", "gpu", "emc"
  std::vector<EngineReading> engines;
  std::optional<double> emc_percent;  // of the memory controller's bandwidth at its current clock
  std::optional<double> gpu_percent;  // the busiest of several GPUs
  std::vector<Reading> fans_rpm, fans_percent;
  std::string power_mode;         // from nvpmodel: "MAXN"
  std::optional<bool> throttled;  // a throttle alert of the board or of a GPU is active now
  std::vector<GpuSample> gpus;    // from the driver (NVML); empty without it

  std::vector<ProcessSample> processes;  // the largest processes, or the followed ones
  std::vector<PoolSample> pools;         // of programs that publish their pool status
  std::vector<KernelEvent> kernel_events;
  std::vector<Reading> other;  // readings of only one kind of board, named with unit: "edp_limit"
  std::vector<std::string> unknown_tokens;  // from a log: the tokens that the parser does not know
  friend bool operator==(const SystemSample&, const SystemSample&) = default;
};

// Resets the sample, but keeps the memory of its lists: a sampler that reuses one sample allocates nothing.
void clear(SystemSample& sample);

// One process at one time.
struct ProcessMemory {
  std::optional<Bytes> rss;                             // VmRSS
  std::optional<Bytes> rss_peak;                        // VmHWM since the start or the last reset
  std::optional<Bytes> anonymous, file_backed, shared;  // RssAnon, RssFile, RssShmem: the parts of rss
  std::optional<Bytes> pss;                             // from smaps_rollup; expensive, so only if requested
  std::optional<Bytes> swapped;                         // VmSwap
  std::optional<Nanoseconds> cpu_time;                  // user + system, all threads
  std::optional<std::int64_t> threads;
  // VmData: private writable memory, reserved or touched. RLIMIT_DATA limits this.
  std::optional<Bytes> data = std::nullopt;
  // Parts of `pss`; absent before Linux 5.3.
  std::optional<Bytes> pss_file = std::nullopt, pss_shared = std::nullopt;
  friend bool operator==(const ProcessMemory&, const ProcessMemory&) = default;
};

}  // namespace headroom
