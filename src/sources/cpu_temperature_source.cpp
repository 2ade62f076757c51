// Temperatures of desktop processors whose drivers use hwmon and create no thermal zone. Other hwmon chips
// are skipped, because on Jetson they repeat the thermal zones.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

constexpr std::array<std::string_view, 3> kProcessorChips{"coretemp", "k10temp", "zenpower"};

struct Sensor {
  std::string name;
  RereadFile millicelsius;
};

class CpuTemperatureSource : public MetricSource {
 public:
  explicit CpuTemperatureSource(std::vector<Sensor> sensors) : sensors_(std::move(sensors)) {}
  std::string describe() const override {
    return fmt::format("CPU temperature: {} sensors", sensors_.size());
  }
  bool read(SystemSample& sample) override {
    const std::size_t before = sample.temperatures_celsius.size();
    for (const Sensor& sensor : sensors_)
      if (const auto value = sensor.millicelsius.read_integer())
        sample.temperatures_celsius.push_back({sensor.name, static_cast<double>(*value) / 1e3});
    return sample.temperatures_celsius.size() > before;
  }

 private:
  std::vector<Sensor> sensors_;
};

}  // namespace

// The first sensor of each chip: the package on Intel, the control temperature on AMD. Core sensors follow
// it.
std::unique_ptr<MetricSource> make_cpu_temperature_source(const std::filesystem::path& root) {
  std::vector<Sensor> sensors;
  for (const auto& chip : entries(root / "sys/class/hwmon")) {
    const std::string name = one_line(chip / "name");
    if (std::find(kProcessorChips.begin(), kProcessorChips.end(), name) == kProcessorChips.end()) continue;
    RereadFile file(chip / "temp1_input");
    if (file.exists()) sensors.push_back({name, std::move(file)});
  }
  if (sensors.empty()) return nullptr;
  return std::make_unique<CpuTemperatureSource>(std::move(sensors));
}

}  // namespace headroom::sources
