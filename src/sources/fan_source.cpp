// Fans: PWM and speed. L4T 32 has its own files; later versions use hwmon. Thor has two devices: pwmfan for
// the PWM, pwm_tach for the speed.
#include <fmt/format.h>

#include <array>

#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

struct Fan {
  std::string name;
  RereadFile pwm, rpm;  // 0 to 255; revolutions per minute
};

class FanSource : public MetricSource {
 public:
  explicit FanSource(std::vector<Fan> fans) : fans_(std::move(fans)) {}
  std::string describe() const override { return fmt::format("fans: {}", fans_.size()); }
  bool read(SystemSample& sample) override {
    const std::size_t before = sample.fans_percent.size() + sample.fans_rpm.size();
    for (const Fan& fan : fans_) {
      if (const auto pwm = fan.pwm.read_integer())
        sample.fans_percent.push_back({fan.name, 100.0 * static_cast<double>(*pwm) / 255.0});
      if (const auto rpm = fan.rpm.read_integer())
        sample.fans_rpm.push_back({fan.name, static_cast<double>(*rpm)});
    }
    return sample.fans_percent.size() + sample.fans_rpm.size() > before;
  }

 private:
  std::vector<Fan> fans_;
};

void add_fan(std::vector<Fan>& fans, Fan fan) {
  if (fan.pwm.exists() || fan.rpm.exists()) fans.push_back(std::move(fan));
}

}  // namespace

std::unique_ptr<MetricSource> make_fan_source(const std::filesystem::path& root) {
  std::vector<Fan> fans;
  for (const auto& chip : entries(root / "sys/class/hwmon")) {
    RereadFile rpm(chip / "fan1_input");
    if (!rpm.exists()) rpm = RereadFile(chip / "rpm");
    add_fan(fans, {one_line(chip / "name"), RereadFile(chip / "pwm1"), std::move(rpm)});
  }
  if (fans.empty())
    for (const char* folder : {"sys/devices/pwm-fan", "sys/kernel/debug/tegra_fan"}) {
      if (!fans.empty()) break;
      add_fan(fans, {"pwm-fan", RereadFile(root / folder / "target_pwm"),
                     RereadFile(root / folder / "rpm_measured")});
    }
  if (fans.empty()) return nullptr;
  return std::make_unique<FanSource>(std::move(fans));
}

}  // namespace headroom::sources
