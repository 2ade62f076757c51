#include "sources/system_sampler.h"

#include <array>
#include <ctime>

#include "base/log.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

constexpr int kMostFailures = 10;

struct Place {
  MetricSourceMaker make = nullptr;
  std::unique_ptr<MetricSource> source;  // null: not found, or given up
  int failures = 0;                      // in a row
  bool was_named = false;
};

// A device that appears brings an entry of one of these.
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
  std::vector<Place> places;
  Nanoseconds last_probe;
  std::size_t devices = 0;

  void probe() {
    last_probe = monotonic_now();
    const std::size_t now = count_devices(root);
    for (Place& place : places) {
      if (place.source && now == devices) continue;
      auto found = place.make(root);
      // The words count the sensors: a source that has no more of them keeps what it knows of its counters.
      if (!found || (place.source && place.source->describe() == found->describe())) continue;
      place.source = std::move(found);
      place.failures = 0;
    }
    devices = now;
  }

  void read(Place& place, SystemSample& sample) {
    if (place.source->read(sample)) {
      place.failures = 0;
      return;
    }
    if (++place.failures < kMostFailures) return;
    if (!place.was_named)
      log::warning("no figures of {} any more: it cannot be read", place.source->describe());
    place.was_named = true;
    place.source.reset();
  }
};

SystemSampler::SystemSampler(const std::filesystem::path& root, Nanoseconds between_probes)
    : state_(std::make_unique<State>()) {
  state_->root = root;
  state_->between_probes = between_probes;
  for (const MetricSourceMaker make : metric_source_list())
    state_->places.push_back({make, nullptr, 0, false});
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
  for (Place& place : state_->places)
    if (place.source) state_->read(place, sample);
}

std::vector<std::string> SystemSampler::found() const {
  std::vector<std::string> names;
  for (const Place& place : state_->places)
    if (place.source) names.push_back(place.source->describe());
  return names;
}

}  // namespace headroom::sources
