#include "sources/system_sampler.h"

#include <array>
#include <ctime>

#include "base/log.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

constexpr int kMostFailures = 10;

struct Slot {
  MakeMetricSource* make = nullptr;
  std::unique_ptr<MetricSource> source;  // null: not found, or failed too often
  int failures = 0;                      // in a row
  bool was_reported = false;
};

// A new device adds an entry to one of these folders.
std::size_t count_devices(const std::filesystem::path& root) {
  std::size_t count = 0;
  for (const char* folder : {"sys/class/hwmon", "sys/class/thermal", "sys/class/devfreq", "sys/block"})
    count += entries(root / folder).size();
  return count;
}

}  // namespace

struct SystemSampler::State {
  std::filesystem::path root;
  Nanoseconds between_probes;
  std::vector<Slot> slots;
  Nanoseconds last_probe;
  std::size_t devices = 0;

  void probe() {
    last_probe = monotonic_now();
    const std::size_t now = count_devices(root);
    for (Slot& slot : slots) {
      if (slot.source && now == devices) continue;
      auto found = slot.make(root);
      // describe() counts the sensors. A source without new sensors is kept, with the state of its
      // counters.
      if (!found || (slot.source && slot.source->describe() == found->describe())) continue;
      slot.source = std::move(found);
      slot.failures = 0;
    }
    devices = now;
  }

  void read(Slot& slot, SystemSample& sample) {
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
};

SystemSampler::SystemSampler(const std::filesystem::path& root, Nanoseconds between_probes)
    : state_(std::make_unique<State>()) {
  state_->root = root;
  state_->between_probes = between_probes;
  for (MakeMetricSource* make : metric_source_list()) state_->slots.push_back({make, nullptr, 0, false});
  state_->probe();
}

SystemSampler::~SystemSampler() = default;
SystemSampler::SystemSampler(SystemSampler&&) noexcept = default;

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
  if (sample.time - state_->last_probe >= state_->between_probes) state_->probe();
  for (Slot& slot : state_->slots)
    if (slot.source) state_->read(slot, sample);
}

std::vector<std::string> SystemSampler::found() const {
  std::vector<std::string> names;
  for (const Slot& slot : state_->slots)
    if (slot.source) names.push_back(slot.source->describe());
  return names;
}

}  // namespace headroom::sources
