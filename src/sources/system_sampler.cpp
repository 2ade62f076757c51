#include "sources/system_sampler.h"

#include <ctime>

#include "base/log.h"

namespace headroom::sources {
namespace {

// All sources, in the order in which they are read. NVML (nvml_source.h) is not among them: it is a library
// instead of a file tree, and runs in a separate process.
constexpr MakeMetricSource* kSources[] = {
    make_meminfo_source,      make_vmstat_source,          make_pressure_source, make_buddyinfo_source,
    make_zram_source,         make_cgroup_source,          make_cpu_load_source, make_cpu_clock_source,
    make_thermal_source,      make_cpu_temperature_source, make_power_source,    make_gpu_source,
    make_memory_clock_source, make_engine_source,          make_fan_source,      make_power_mode_source,
    make_nvmap_source,        make_kernel_log_source,      make_throttle_source, make_pool_source,
    make_open_files_source,
};
constexpr int kMostFailures = 10;

// A new device adds an entry to one of these folders.
std::size_t count_devices(const std::filesystem::path& root) {
  std::size_t count = 0;
  for (const char* folder : {"sys/class/hwmon", "sys/class/thermal", "sys/class/devfreq", "sys/block"})
    count += entries(root / folder).size();
  return count;
}

}  // namespace

SystemSampler::SystemSampler(const std::filesystem::path& root, Nanoseconds between_probes)
    : root_(root), between_probes_(between_probes) {
  for (MakeMetricSource* make : kSources) slots_.push_back({make, nullptr, 0, false});
  probe();
}

void SystemSampler::probe() {
  last_probe_ = monotonic_now();
  const std::size_t now = count_devices(root_);
  for (Slot& slot : slots_) {
    if (slot.source && now == devices_) continue;
    auto found = slot.make(root_);
    // describe() counts the sensors. A source without new sensors is kept, with the state of its counters.
    if (!found || (slot.source && slot.source->describe() == found->describe())) continue;
    slot.source = std::move(found);
    slot.failures = 0;
  }
  devices_ = now;
}

void SystemSampler::read(Slot& slot, SystemSample& sample) {
  if (slot.source->read(sample)) {
    slot.failures = 0;
    return;
  }
  if (++slot.failures < kMostFailures) return;
  if (!slot.was_reported)
    log::warning("cannot read {} any more: its figures are missing from now on", slot.source->describe());
  slot.was_reported = true;
  slot.source.reset();
}

SystemSample SystemSampler::sample() {
  SystemSample sample;
  sample_into(sample);
  return sample;
}

void SystemSampler::sample_into(SystemSample& sample) {
  clear(sample);
  sample.time = monotonic_now();
  timespec wall{};
  if (::clock_gettime(CLOCK_REALTIME, &wall) == 0)
    sample.unix_time = Nanoseconds{std::int64_t{wall.tv_sec} * 1'000'000'000 + wall.tv_nsec};
  if (sample.time - last_probe_ >= between_probes_) probe();
  for (Slot& slot : slots_)
    if (slot.source) read(slot, sample);
}

std::vector<std::string> SystemSampler::found() const {
  std::vector<std::string> names;
  for (const Slot& slot : slots_)
    if (slot.source) names.push_back(slot.source->describe());
  return names;
}

}  // namespace headroom::sources
