#include "monitoring/memory_risk.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "monitoring/sample_metrics.h"

namespace headroom::monitoring {
namespace {

constexpr std::string_view kLargeBlocks = "memory in large blocks";
constexpr Nanoseconds kSecond{1'000'000'000};
constexpr std::size_t kLongestDetail = 200;  // of a log, a sensor's name may be of any length
// Larger sizes in a log are absurd; sums must not overflow.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 56;

bool is_sane(std::optional<Bytes> bytes) {
  return bytes && bytes->count >= -kMostBytes && bytes->count <= kMostBytes;
}
// The longest time between two forecasts; shorter when the end is near.
constexpr double kSecondsBetweenForecasts = 3;
constexpr std::int64_t kBlockStretchSeconds = 10;
constexpr std::size_t kBlockStretches = 60;
// The share of waiting for memory in ten seconds. Below it, the page cache works normally.
constexpr double kStalledPercent = 10;

constexpr std::size_t kMostCounted = 64;             // processes whose descriptors are followed
constexpr Nanoseconds kForgotten{60'000'000'000};    // a process that is no longer among the largest
constexpr std::int64_t kFewestGrown = 16;            // fewer come from starting up
constexpr std::int64_t kFewestGrownOfMachine = 256;  // programs start and end

std::optional<Bytes> difference(std::optional<Bytes> whole, std::optional<Bytes> part) {
  if (!is_sane(whole) || !is_sane(part)) return std::nullopt;
  return Bytes{whole->count - part->count};
}

std::optional<double> number(std::optional<Bytes> bytes) {
  return bytes ? std::optional(static_cast<double>(bytes->count)) : std::nullopt;
}

std::optional<Bytes> used_of(const GpuSample& gpu) {
  if (!is_sane(gpu.memory_used) || (gpu.memory_reserved && !is_sane(gpu.memory_reserved)))
    return std::nullopt;
  return Bytes{gpu.memory_used->count + gpu.memory_reserved.value_or(Bytes{}).count};
}

// A Jetson: its GPU has a load, but no memory of its own.
bool shares_memory_with_gpu(const SystemSample& sample) {
  return (sample.gpu_percent || sample.nvmap_used) &&
         std::ranges::none_of(sample.gpus, [](const GpuSample& gpu) { return gpu.memory_total.has_value(); });
}

std::string label_of(const GpuSample& gpu) { return gpu.index ? "GPU " + std::to_string(*gpu.index) : "GPU"; }

}  // namespace

std::string_view name_of(RiskFigure figure) {
  return name_in({"ram_used_percent", "gpu_memory_used_percent", "ram_available_bytes", "swap_used_bytes",
                  "temperature_celsius", "memory_growth_bytes_per_hour", "memory_seconds_left",
                  "nvmap_seconds_left", "thrash_pages_per_second", "fragmentation_factor", "psi_full_percent",
                  "oom_kills", "throttled", "descriptor_growth_per_hour"},
                 figure);
}

std::optional<RiskFigure> risk_figure_by_name(std::string_view name) {
  return find_named(name, RiskFigure::descriptor_growth_per_hour);
}

MemoryRisk::MemoryRisk(Nanoseconds interval) : stretch_(std::max(interval, kSecond)) {}

void MemoryRisk::set(RiskFigure figure, std::optional<double> value, std::string_view detail) {
  RiskValue& entry = at(figure);
  entry.value = value;
  entry.detail = detail.substr(0, kLongestDetail);
}

void MemoryRisk::raise(RiskFigure figure, std::optional<double> value, std::string_view detail) {
  if (value && (!at(figure).value || *value > *at(figure).value)) set(figure, value, detail);
}

void MemoryRisk::add_memory(std::string_view name, std::optional<Bytes> used, std::optional<Bytes> limit,
                            const SystemSample& sample, bool is_nvmap) {
  if (!is_sane(used) || !is_sane(limit) || limit->count <= 0) return;
  auto memory = std::ranges::find_if(memories_, [&](const Memory& known) { return known.name == name; });
  if (memory == memories_.end())
    memory = memories_.insert(memories_.end(),
                              Memory{std::string(name), is_nvmap, {}, ExhaustionForecast(stretch_), {}, {}});
  memory->limit = *limit;
  memory->forecast.add(sample.time, *used);
}

void MemoryRisk::add_memories(const SystemSample& sample) {
  // tegrastats does not report available memory.
  const std::optional<Bytes> taken =
      sample.ram_available ? difference(sample.ram_total, sample.ram_available) : sample.ram_used;
  // zram is in memory itself.
  const bool has_swap =
      taken && sample.ram_total && sample.swap_total && sample.swap_used && !sample.zram_used;
  if (has_swap && is_sane(taken) && is_sane(sample.ram_total) && is_sane(sample.swap_total) &&
      is_sane(sample.swap_used))
    add_memory("memory", *taken + *sample.swap_used, *sample.ram_total + *sample.swap_total, sample);
  else
    add_memory("memory", taken, sample.ram_total, sample);
  if (sample.cgroup)
    add_memory("control group", sample.cgroup->anonymous ? sample.cgroup->anonymous : sample.cgroup->current,
               sample.cgroup->limit, sample);
  if (sample.nvmap_used) {
    add_memory("free memory", difference(sample.ram_total, sample.ram_free), sample.ram_total, sample, true);
    add_memory("CMA", difference(sample.cma_total, sample.cma_free), sample.cma_total, sample, true);
  }
  add_large_blocks(sample);
  for (const GpuSample& gpu : sample.gpus)
    if (gpu.memory_total) add_memory(label_of(gpu), used_of(gpu), gpu.memory_total, sample);
}

// The largest free block falls in steps, for example from 4 to 2 MiB. The memory in blocks of that size can
// be forecast.
void MemoryRisk::add_large_blocks(const SystemSample& sample) {
  if (!shares_memory_with_gpu(sample) || !is_sane(sample.ram_total) || !is_sane(sample.largest_free_block) ||
      !sample.largest_free_blocks)
    return;
  const Bytes size = *sample.largest_free_block;
  if (size > large_block_) {  // larger ones than were known: another figure
    large_block_ = size;
    std::erase_if(memories_, [](const Memory& memory) { return memory.name == kLargeBlocks; });
  }
  const std::int64_t most = size.count > 0 ? sample.ram_total->count / size.count : 0;
  const std::int64_t count =
      std::clamp<std::int64_t>(*sample.largest_free_blocks, 0, std::max<std::int64_t>(most, 0));
  const Bytes in_blocks = size == large_block_ ? Bytes{size.count * count} : Bytes{};
  add_memory(kLargeBlocks, *sample.ram_total - in_blocks, sample.ram_total, sample, true);
}

const MemoryRisk::Memory* MemoryRisk::first_to_run_out(bool is_nvmap) const {
  const Memory* first = nullptr;
  for (const Memory& memory : memories_)
    if (memory.is_nvmap == is_nvmap && memory.left && (first == nullptr || memory.left < first->left))
      first = &memory;
  return first;
}

void MemoryRisk::ask_the_forecasts(Nanoseconds now) {
  const auto& left = at(RiskFigure::memory_seconds_left).value;
  const double wait = left ? std::clamp(*left / 20, 1.0, kSecondsBetweenForecasts) : kSecondsBetweenForecasts;
  if (asked_ && (now - *asked_).seconds() < wait) return;
  asked_ = now;
  find_descriptor_leak();
  for (Memory& memory : memories_) {
    memory.growth = memory.forecast.growth();
    memory.left = memory.forecast.forecast(memory.limit);
  }
  const auto set_left = [&](RiskFigure figure, const Memory* first) {
    set(figure, std::nullopt);
    if (first != nullptr) set(figure, first->left->seconds(), first->name);
  };
  const Memory* first = first_to_run_out(false);
  set_left(RiskFigure::memory_seconds_left, first);
  set_left(RiskFigure::nvmap_seconds_left, first_to_run_out(true));
  if (first == nullptr && !memories_.empty()) first = &memories_.front();
  if (first == nullptr) return;
  set(RiskFigure::memory_growth_bytes_per_hour, first->growth ? 3600 * first->growth->bytes_per_second : 0,
      first->name);
}

void MemoryRisk::count_descriptors(const Descriptors& of, std::optional<std::int64_t> count,
                                   Nanoseconds time) {
  if (!count || *count < 0 || *count > kMostBytes) return;
  auto known = std::ranges::find_if(descriptors_, [&](const Descriptors& other) {
    return other.pid == of.pid && other.start_ticks == of.start_ticks;
  });
  if (known == descriptors_.end()) {
    if (descriptors_.size() == kMostCounted) return;
    known = descriptors_.insert(descriptors_.end(), of);
    known->first = *count;
    known->counts = ExhaustionForecast(stretch_);
  }
  known->last = *count;
  known->seen = time;
  known->counts.add(time, Bytes{*count});
}

void MemoryRisk::add_descriptors(const SystemSample& sample) {
  count_descriptors({0, {}, "the machine", kFewestGrownOfMachine}, sample.open_files, sample.time);
  for (const ProcessSample& process : sample.processes)
    count_descriptors({process.pid, process.start_ticks, process.name, kFewestGrown}, process.descriptors,
                      sample.time);
  std::erase_if(descriptors_, [&](const Descriptors& one) { return sample.time - one.seen > kForgotten; });
}

// Only of those with more than at first, because a forecast takes time.
void MemoryRisk::find_descriptor_leak() {
  set(RiskFigure::descriptor_growth_per_hour, std::nullopt);
  for (const Descriptors& one : descriptors_) {
    const bool has_more = one.last - one.first >= one.fewest_grown;
    const auto growth = has_more ? one.counts.growth() : std::nullopt;
    if (!growth || growth->bytes_per_second * growth->level.seconds() < static_cast<double>(one.fewest_grown))
      continue;
    raise(RiskFigure::descriptor_growth_per_hour, 3600 * growth->bytes_per_second,
          one.pid == 0 ? one.name : one.name + " (" + std::to_string(one.pid) + ")");
  }
}

void MemoryRisk::add_gpu_share(const SystemSample& sample) {
  set(RiskFigure::gpu_memory_used_percent, std::nullopt);
  for (const GpuSample& gpu : sample.gpus)
    raise(RiskFigure::gpu_memory_used_percent, percent_of(used_of(gpu), gpu.memory_total), label_of(gpu));
  if (shares_memory_with_gpu(sample))
    set(RiskFigure::gpu_memory_used_percent, percent_of(sample.ram_used, sample.ram_total), "unified memory");
}

void MemoryRisk::add_hottest(const SystemSample& sample) {
  set(RiskFigure::temperature_celsius, std::nullopt);
  for (const Reading& reading : sample.temperatures_celsius)
    raise(RiskFigure::temperature_celsius, reading.value, reading.name);
  for (const GpuSample& gpu : sample.gpus)
    raise(RiskFigure::temperature_celsius, gpu.temperature_celsius, label_of(gpu));
}

void MemoryRisk::add_thrash(const SystemSample& sample) {
  set(RiskFigure::thrash_pages_per_second, std::nullopt);
  if (!sample.psi_some_avg10 || (!sample.refaults && !sample.pages_swapped_in) || !before_) return;
  const double seconds = (sample.time - *before_).seconds();
  if (seconds <= 0) return;
  const double pages = static_cast<double>(sample.refaults.value_or(0) + sample.pages_swapped_in.value_or(0));
  const double rate = *sample.psi_some_avg10 >= kStalledPercent ? pages / seconds : 0;
  thrash_ += (rate - thrash_) * -std::expm1(-seconds / 2);
  set(RiskFigure::thrash_pages_per_second, thrash_);
}

// With less free memory, smaller blocks are normal. So the largest block is compared with times of equal
// free memory, within a tenth.
void MemoryRisk::add_fragmentation(const SystemSample& sample) {
  set(RiskFigure::fragmentation_factor, std::nullopt);
  if (!sample.largest_free_block || !sample.ram_free || sample.largest_free_block->count <= 0) return;
  const Bytes largest = *sample.largest_free_block, free = *sample.ram_free;
  double factor = 1;
  for (const FreeBlock& earlier : blocks_)
    if (10 * free.count >= 9 * earlier.free.count)
      factor =
          std::max(factor, static_cast<double>(earlier.largest.count) / static_cast<double>(largest.count));
  set(RiskFigure::fragmentation_factor, factor);

  const std::int64_t stretch = sample.time.count / (kBlockStretchSeconds * kSecond.count);
  if (blocks_.empty() || blocks_.back().stretch != stretch) {
    if (blocks_.size() == kBlockStretches) blocks_.erase(blocks_.begin());
    blocks_.push_back({stretch, largest, free});
  } else if (largest > blocks_.back().largest) {
    blocks_.back() = {stretch, largest, free};
  }
  std::erase_if(blocks_, [&](const FreeBlock& earlier) {
    return stretch - earlier.stretch > static_cast<std::int64_t>(kBlockStretches);
  });
}

void MemoryRisk::add(const SystemSample& sample) {
  set(RiskFigure::ram_used_percent, percent_of(sample.ram_used, sample.ram_total));
  set(RiskFigure::ram_available_bytes, number(sample.ram_available));
  set(RiskFigure::swap_used_bytes, number(sample.swap_used));
  set(RiskFigure::psi_full_percent, sample.psi_full_avg10);
  set(RiskFigure::oom_kills,
      sample.oom_kills ? std::optional(static_cast<double>(*sample.oom_kills)) : std::nullopt);
  set(RiskFigure::throttled, sample.throttled ? std::optional(*sample.throttled ? 1.0 : 0.0) : std::nullopt);
  add_gpu_share(sample);
  add_hottest(sample);
  add_thrash(sample);
  add_fragmentation(sample);
  add_memories(sample);
  add_descriptors(sample);
  ask_the_forecasts(sample.time);
  before_ = sample.time;
}

}  // namespace headroom::monitoring
