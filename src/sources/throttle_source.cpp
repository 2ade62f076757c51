#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

// x86: counts how often the cores were throttled because of heat. The kernel's counters start at boot.
class ThrottleCountSource : public MetricSource {
 public:
  explicit ThrottleCountSource(std::vector<RereadFile> counts) : counts_(std::move(counts)) {}
  std::string describe() const override { return "throttle counts of the cores"; }
  bool read(SystemSample& sample) override {
    std::int64_t sum = 0;
    for (const RereadFile& count : counts_) sum += count.read_integer().value_or(0);
    if (before_) sample.throttled = sample.throttled.value_or(false) || sum > *before_;
    before_ = sum;
    return true;
  }

 private:
  std::vector<RereadFile> counts_;
  std::optional<std::int64_t> before_;
};

class ThrottleSource : public MetricSource {
 public:
  explicit ThrottleSource(std::vector<RereadFile> alerts) : alerts_(std::move(alerts)) {}
  std::string describe() const override { return "throttle alerts"; }
  bool read(SystemSample& sample) override {
    for (const RereadFile& alert : alerts_)
      if (const auto state = alert.read_integer())
        sample.throttled = sample.throttled.value_or(false) || *state > 0;
    return sample.throttled.has_value();
  }

 private:
  std::vector<RereadFile> alerts_;
};

}  // namespace

std::unique_ptr<MetricSource> make_throttle_source(const std::filesystem::path& root) {
  std::vector<RereadFile> alerts;
  for (const auto& device : entries(root / "sys/class/thermal")) {
    if (!device.filename().string().starts_with("cooling_device")) continue;
    if (!one_line(device / "type").ends_with("throttle-alert")) continue;
    RereadFile state(device / "cur_state");
    if (state.exists()) alerts.push_back(std::move(state));
  }
  if (alerts.empty()) {
    for (const auto& cpu : entries(root / "sys/devices/system/cpu")) {
      RereadFile count(cpu / "thermal_throttle/core_throttle_count");
      if (count.exists()) alerts.push_back(std::move(count));
    }
    if (alerts.empty()) return nullptr;
    return std::make_unique<ThrottleCountSource>(std::move(alerts));
  }
  return std::make_unique<ThrottleSource>(std::move(alerts));
}

}  // namespace headroom::sources
