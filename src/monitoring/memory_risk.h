// The figures that alerts watch: shares, the hottest sensor, growth and end of memory, thrashing,
// fragmentation, growth of open descriptors.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "monitoring/exhaustion_forecast.h"
#include "types/sample.h"

namespace headroom::monitoring {

enum class RiskFigure : std::uint8_t {
  ram_used_percent,              // of MemTotal, as jtop counts what is used
  gpu_memory_used_percent,       // the fullest GPU; where the GPU shares the machine's memory, of that
  ram_available_bytes,           //
  swap_used_bytes,               //
  temperature_celsius,           // the hottest sensor
  memory_growth_bytes_per_hour,  // of the memory that runs out first, else of the machine's
  memory_seconds_left,           // until the first of the memories below is used up
  nvmap_seconds_left,            // the same of what NvMap takes from
  thrash_pages_per_second,       // refaulted or swapped in while tasks wait for memory
  fragmentation_factor,          // how many times smaller the largest free block is, with as much free
  psi_full_percent,              //
  oom_kills,                     // since the sample before
  throttled,                     // 1 or 0
  descriptor_growth_per_hour,    // of the process with the most growth, or of the machine
};
inline constexpr std::size_t kRiskFigures = 14;

std::string_view name_of(RiskFigure figure);
std::optional<RiskFigure> risk_figure_by_name(std::string_view name);

struct RiskValue {
  std::optional<double> value;
  std::string detail;  // of which sensor, GPU or memory; empty where there is but one
};

// Memories that can run out, each with a forecast (docs/alerts.md):
//   memory          not available (or used), of MemTotal; with swap unless it is zram
//   control group   anonymous memory, of its limit
//   GPU N           memory of a discrete GPU
// and with NvMap, which takes free memory and reclaims nothing (nvmap_seconds_left):
//   free memory     not MemFree, of MemTotal
//   CMA             not CmaFree, of CmaTotal
//   memory in large blocks   not in blocks of the largest size that was seen, of MemTotal
class MemoryRisk {
 public:
  explicit MemoryRisk(Nanoseconds interval);

  void add(const SystemSample& sample);
  // Of the last sample.
  const RiskValue& operator[](RiskFigure figure) const { return values_[static_cast<std::size_t>(figure)]; }

 private:
  struct Memory {
    std::string name;
    bool is_nvmap = false;
    Bytes limit;
    ExhaustionForecast forecast;
    std::optional<SteadyGrowth> growth;
    std::optional<Nanoseconds> left;
  };
  // The largest free block of a stretch of time, and the free memory then.
  struct FreeBlock {
    std::int64_t stretch = 0;
    Bytes largest, free;
  };

  // Open descriptors of a process, or open files of the machine (PID 0).
  struct Descriptors {
    std::int64_t pid = 0;
    std::optional<std::int64_t> start_ticks;
    std::string name;
    std::int64_t fewest_grown = 0;  // less growth is no leak
    std::int64_t first = 0, last = 0;
    Nanoseconds seen{};
    ExhaustionForecast counts{};
  };

  RiskValue& at(RiskFigure figure) { return values_[static_cast<std::size_t>(figure)]; }
  void set(RiskFigure figure, std::optional<double> value, std::string_view detail = {});
  // Sets the figure if the value is larger.
  void raise(RiskFigure figure, std::optional<double> value, std::string_view detail);
  void add_memory(std::string_view name, std::optional<Bytes> used, std::optional<Bytes> limit,
                  const SystemSample& sample, bool is_nvmap = false);
  void add_memories(const SystemSample& sample);
  void add_large_blocks(const SystemSample& sample);
  void count_descriptors(const Descriptors& of, std::optional<std::int64_t> count, Nanoseconds time);
  void add_descriptors(const SystemSample& sample);
  void find_descriptor_leak();
  void ask_the_forecasts(Nanoseconds now);
  const Memory* first_to_run_out(bool is_nvmap) const;
  void add_gpu_share(const SystemSample& sample);
  void add_hottest(const SystemSample& sample);
  void add_thrash(const SystemSample& sample);
  void add_fragmentation(const SystemSample& sample);

  Nanoseconds stretch_;
  std::vector<Memory> memories_;
  std::vector<Descriptors> descriptors_;
  std::optional<Nanoseconds> asked_, before_;
  double thrash_ = 0;  // smoothed over two seconds
  std::vector<FreeBlock> blocks_;
  Bytes large_block_;  // the largest that was seen
  std::array<RiskValue, kRiskFigures> values_;
};

}  // namespace headroom::monitoring
