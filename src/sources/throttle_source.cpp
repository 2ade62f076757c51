#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

class ThrottleSource : public MetricSource {
 public:
  explicit ThrottleSource(std::vector<ReopenedFile> alerts) : alerts_(std::move(alerts)) {}
  std::string describe() const override { return "throttle alerts"; }
  void read(SystemSample& sample) override {
    sample.throttled = false;
    for (ReopenedFile& alert : alerts_)
      if (alert.read_integer().value_or(0) > 0) sample.throttled = true;
  }

 private:
  std::vector<ReopenedFile> alerts_;
};

}  // namespace

std::unique_ptr<MetricSource> make_throttle_source(const std::filesystem::path& root) {
  std::vector<ReopenedFile> alerts;
  for (const auto& device : entries(root / "sys/class/thermal")) {
    if (!device.filename().string().starts_with("cooling_device")) continue;
    if (!one_line(device / "type").ends_with("throttle-alert")) continue;
    ReopenedFile state(device / "cur_state");
    if (state.exists()) alerts.push_back(std::move(state));
  }
  if (alerts.empty()) return nullptr;
  return std::make_unique<ThrottleSource>(std::move(alerts));
}

}  // namespace headroom::sources
