#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

class ThrottleSource : public MetricSource {
 public:
  explicit ThrottleSource(std::vector<RereadFile> alerts) : alerts_(std::move(alerts)) {}
  std::string describe() const override { return "throttle alerts"; }
  void read(SystemSample& sample) override {
    for (const RereadFile& alert : alerts_)
      if (const auto state = alert.read_integer())
        sample.throttled = sample.throttled.value_or(false) || *state > 0;
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
  if (alerts.empty()) return nullptr;
  return std::make_unique<ThrottleSource>(std::move(alerts));
}

}  // namespace headroom::sources
