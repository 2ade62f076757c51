// Metrics at a time. A figure that a source did not give is absent, never zero. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "model/gpu_sample.h"

namespace headroom {

// A named reading of one sensor: a temperature zone, a power rail, a clock.
struct Reading {
  std::string name;
  double value = 0;
  friend bool operator==(const Reading&, const Reading&) = default;
};

// The whole machine at one moment.
struct SystemSample {
  Nanoseconds time;                   // monotonic
  std::optional<double> cpu_percent;  // of all cores together, 0..100, since the previous sample
  std::optional<Bytes> ram_total, ram_free, ram_available, ram_cached, ram_shared;
  std::optional<Bytes> ram_used;  // MemTotal − MemFree − Buffers − Cached (as jtop counts)
  std::optional<Bytes> swap_total, swap_used;
  std::optional<Bytes> nvmap_used;                       // Jetson; inside ram_used, never added to it
  std::optional<double> psi_some_avg10, psi_full_avg10;  // memory pressure, percent
  std::optional<std::int64_t> pages_swapped_in, pages_swapped_out;  // since the previous sample
  std::optional<std::int64_t> refaults;                             // working-set refaults since the previous
  std::optional<std::int64_t> oom_kills;                            // since the previous sample
  std::vector<Reading> temperatures_celsius;
  std::vector<Reading> power_watts;
  std::vector<Reading> clocks_hz;     // "cpu0", "gpu", "emc"
  std::optional<double> gpu_percent;  // of several GPUs the busiest
  std::optional<bool> throttled;      // a throttle alert of the board or of a GPU is active now
  std::vector<GpuSample> gpus;        // as the driver tells them (NVML); empty without it
  friend bool operator==(const SystemSample&, const SystemSample&) = default;
};

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
  friend bool operator==(const ProcessMemory&, const ProcessMemory&) = default;
};

// The control group of a limited child at one moment.
struct CgroupMemory {
  std::optional<Bytes> current, peak, limit;
  std::optional<Bytes> anonymous, file_backed;
  std::optional<std::int64_t> oom_kills;  // since the group was made
};

}  // namespace headroom
