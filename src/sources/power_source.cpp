// Power rails of Jetson boards: INA3221 and INA238 under hwmon (JetPack 5 and later), INA3221 under iio
// before that.
#include <fmt/format.h>

#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

constexpr double kMilliwatt = 1e-3, kMicrowatt = 1e-6;

struct Rail {
  std::string name;
  RereadFile power;       // in `power_unit` watts
  double power_unit = 0;  // 0: no power file; multiply the next two
  RereadFile millivolts, milliamperes;
};

class PowerSource : public MetricSource {
 public:
  explicit PowerSource(std::vector<Rail> rails) : rails_(std::move(rails)) {}
  std::string describe() const override { return fmt::format("power: {} rails", rails_.size()); }
  bool read(SystemSample& sample) override {
    const std::size_t before = sample.power_watts.size();
    for (Rail& rail : rails_) {
      if (rail.power_unit > 0) {
        if (const auto value = rail.power.read_integer())
          sample.power_watts.push_back({rail.name, static_cast<double>(*value) * rail.power_unit});
        continue;
      }
      const auto millivolts = rail.millivolts.read_integer();
      const auto milliamperes = rail.milliamperes.read_integer();
      if (millivolts && milliamperes)
        sample.power_watts.push_back(
            {rail.name, static_cast<double>(*millivolts) * static_cast<double>(*milliamperes) * kMicrowatt});
    }
    return sample.power_watts.size() > before;
  }

 private:
  std::vector<Rail> rails_;
};

void add_rail(std::vector<Rail>& rails, Rail rail) {
  const bool readable =
      rail.power_unit > 0 ? rail.power.exists() : rail.millivolts.exists() && rail.milliamperes.exists();
  if (readable && !rail.name.empty() && rail.name != "NC") rails.push_back(std::move(rail));
}

void find_hwmon_rails(const std::filesystem::path& root, std::vector<Rail>& rails) {
  for (const auto& chip : entries(root / "sys/class/hwmon")) {
    const std::string name = one_line(chip / "name");
    // Channels 4 to 7 are shunt voltages and a sum, not rails.
    if (name == "ina3221")
      for (int i = 1; i <= 3; ++i)
        add_rail(rails, {one_line(chip / fmt::format("in{}_label", i)),
                         {},
                         0,
                         RereadFile(chip / fmt::format("in{}_input", i)),
                         RereadFile(chip / fmt::format("curr{}_input", i))});
    if (name == "ina238") add_rail(rails, {"VIN", RereadFile(chip / "power1_input"), kMicrowatt, {}, {}});
  }
}

void find_iio_rails(const std::filesystem::path& root, std::vector<Rail>& rails) {
  for (const auto& device : entries(root / "sys/bus/i2c/devices"))
    for (const auto& channel : entries(device)) {
      if (!channel.filename().string().starts_with("iio:device")) continue;
      for (int i = 0; i <= 2; ++i)
        add_rail(rails, {one_line(channel / fmt::format("rail_name_{}", i)),
                         RereadFile(channel / fmt::format("in_power{}_input", i)),
                         kMilliwatt,
                         {},
                         {}});
    }
}

}  // namespace

std::unique_ptr<MetricSource> make_power_source(const std::filesystem::path& root) {
  std::vector<Rail> rails;
  find_hwmon_rails(root, rails);
  find_iio_rails(root, rails);
  if (rails.empty()) return nullptr;
  return std::make_unique<PowerSource>(std::move(rails));
}

}  // namespace headroom::sources
