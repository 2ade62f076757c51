#include "sources/system_sampler.h"

#include "sources/metric_source.h"

namespace headroom::sources {

struct SystemSampler::State {
  std::vector<std::unique_ptr<MetricSource>> sources;
};

SystemSampler::SystemSampler(const std::filesystem::path& root) : state_(std::make_unique<State>()) {
  for (const MetricSourceMaker make : metric_source_list())
    if (auto source = make(root)) state_->sources.push_back(std::move(source));
}

SystemSampler::~SystemSampler() = default;
SystemSampler::SystemSampler(SystemSampler&&) noexcept = default;

SystemSample SystemSampler::sample() {
  SystemSample sample;
  sample.time = monotonic_now();
  for (const auto& source : state_->sources) source->read(sample);
  return sample;
}

std::vector<std::string> SystemSampler::found() const {
  std::vector<std::string> names;
  for (const auto& source : state_->sources) names.push_back(source->describe());
  return names;
}

}  // namespace headroom::sources
