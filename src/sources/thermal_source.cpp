#include <fmt/format.h>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

struct Zone {
  std::string name;
  RereadFile file;
};

class ThermalSource : public MetricSource {
 public:
  explicit ThermalSource(std::vector<Zone> zones) : zones_(std::move(zones)) {}
  std::string describe() const override { return fmt::format("thermal: {} zones", zones_.size()); }
  bool read(SystemSample& sample) override {
    bool could_read = false;
    for (Zone& zone : zones_) {
      const auto millicelsius = zone.file.read_integer();
      could_read = could_read || millicelsius;
      // A gated rail reads as an error or as -256 °C: absent, not cold.
      if (!millicelsius || *millicelsius <= -200'000) continue;
      sample.temperatures_celsius.push_back({zone.name, static_cast<double>(*millicelsius) / 1e3});
    }
    return could_read;
  }

 private:
  std::vector<Zone> zones_;
};

}  // namespace

std::unique_ptr<MetricSource> make_thermal_source(const std::filesystem::path& root) {
  std::vector<Zone> zones;
  for (const auto& folder : entries(root / "sys/class/thermal")) {
    if (!folder.filename().string().starts_with("thermal_zone")) continue;
    const std::string type = one_line(folder / "type");
    if (type.empty() || equals_ignoring_case(type, "PMIC-Die")) continue;  // a constant 100 or 50 °C
    RereadFile file(folder / "temp");
    if (file.exists()) zones.push_back({type, std::move(file)});
  }
  if (zones.empty()) return nullptr;
  return std::make_unique<ThermalSource>(std::move(zones));
}

}  // namespace headroom::sources
