#include <fmt/format.h>

#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

struct Clock {
  std::string name;
  RereadFile file;
};

class CpuClockSource : public MetricSource {
 public:
  explicit CpuClockSource(std::vector<Clock> clocks) : clocks_(std::move(clocks)) {}
  std::string describe() const override { return fmt::format("CPU clocks: {} groups", clocks_.size()); }
  bool read(SystemSample& sample) override {
    const std::size_t before = sample.clocks_hz.size();
    for (Clock& clock : clocks_)
      if (const auto khz = clock.file.read_integer())
        sample.clocks_hz.push_back({clock.name, static_cast<double>(*khz) * 1e3});
    return sample.clocks_hz.size() > before;
  }

 private:
  std::vector<Clock> clocks_;
};

}  // namespace

// One clock per policy: a group of cores that change their clock together. The name comes from the first
// core.
std::unique_ptr<MetricSource> make_cpu_clock_source(const std::filesystem::path& root) {
  std::vector<Clock> clocks;
  for (const auto& policy : entries(root / "sys/devices/system/cpu/cpufreq")) {
    const std::string name = policy.filename().string();
    if (!name.starts_with("policy")) continue;
    RereadFile file(policy / "scaling_cur_freq");
    if (file.exists()) clocks.push_back({"cpu" + name.substr(6), std::move(file)});
  }
  if (clocks.empty()) return nullptr;
  return std::make_unique<CpuClockSource>(std::move(clocks));
}

}  // namespace headroom::sources
