// Sensors of the board: clocks and temperatures of processors, thermal zones, fans, power rails, throttling.
#include <fmt/format.h>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

// A one-number file whose value goes into a list of the sample.
struct Sensor {
  std::vector<Reading> SystemSample::*list;
  std::string name;
  RereadFile file;
  double factor = 1, divisor = 1;
  std::optional<RereadFile> second = {};  // also multiplied
};

class SensorSource : public MetricSource {
 public:
  SensorSource(std::string name, std::vector<Sensor> sensors)
      : name_(std::move(name)), sensors_(std::move(sensors)) {}
  std::string describe() const override { return name_; }
  bool read(SystemSample& sample) override {
    bool could_read = false;
    for (const Sensor& sensor : sensors_) {
      const auto value = sensor.file.read_integer();
      const auto second = sensor.second ? sensor.second->read_integer() : std::optional<std::int64_t>(1);
      if (!value || !second) continue;
      could_read = true;
      // A gated rail reads as -256 °C: absent, not cold.
      if (sensor.list == &SystemSample::temperatures_celsius && *value <= -200'000) continue;
      (sample.*sensor.list)
          .push_back({sensor.name, static_cast<double>(*value) * static_cast<double>(*second) *
                                       sensor.factor / sensor.divisor});
    }
    return could_read;
  }

 private:
  std::string name_;
  std::vector<Sensor> sensors_;
};

// `name`: "thermal: {} zones".
std::unique_ptr<MetricSource> make_sensors(const char* name, std::vector<Sensor> sensors) {
  std::erase_if(sensors, [](const Sensor& sensor) {
    return !sensor.file.exists() || (sensor.second && !sensor.second->exists());
  });
  if (sensors.empty()) return nullptr;
  const std::size_t count = sensors.size();
  return std::make_unique<SensorSource>(fmt::format(fmt::runtime(name), count), std::move(sensors));
}

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

// One clock per policy: a group of cores that change their clock together. The name comes from the first
// core.
std::unique_ptr<MetricSource> make_cpu_clock_source(const std::filesystem::path& root) {
  constexpr std::string_view kPolicy = "policy";
  std::vector<Sensor> clocks;
  for (const auto& policy : entries(root / "sys/devices/system/cpu/cpufreq", kPolicy))
    clocks.push_back({&SystemSample::clocks_hz, "cpu" + policy.filename().string().substr(kPolicy.size()),
                      RereadFile(policy / "scaling_cur_freq"), 1e3});
  return make_sensors("CPU clocks: {} groups", std::move(clocks));
}

// Temperatures of desktop processors whose drivers use hwmon and create no thermal zone. Other hwmon chips
// are skipped, because on Jetson they repeat the thermal zones. The first sensor of each chip is the package
// on Intel, and the control temperature on AMD. Core sensors follow it.
std::unique_ptr<MetricSource> make_cpu_temperature_source(const std::filesystem::path& root) {
  std::vector<Sensor> sensors;
  for (const auto& chip : entries(root / "sys/class/hwmon")) {
    const std::string name = file_text(chip / "name");
    if (name == "coretemp" || name == "k10temp" || name == "zenpower")
      sensors.push_back(
          {&SystemSample::temperatures_celsius, name, RereadFile(chip / "temp1_input"), 1, 1e3});
  }
  return make_sensors("CPU temperature: {} sensors", std::move(sensors));
}

std::unique_ptr<MetricSource> make_thermal_source(const std::filesystem::path& root) {
  std::vector<Sensor> zones;
  for (const auto& zone : entries(root / "sys/class/thermal", "thermal_zone")) {
    const std::string type = file_text(zone / "type");
    if (type.empty() || equals_ignoring_case(type, "PMIC-Die")) continue;  // a constant 100 or 50 °C
    zones.push_back({&SystemSample::temperatures_celsius, type, RereadFile(zone / "temp"), 1, 1e3});
  }
  return make_sensors("thermal: {} zones", std::move(zones));
}

// Fans: PWM (0 to 255) and speed. L4T 32 has its own files; later versions use hwmon. Thor has two devices:
// pwmfan for the PWM, pwm_tach for the speed.
std::unique_ptr<MetricSource> make_fan_source(const std::filesystem::path& root) {
  std::vector<Sensor> fans;
  const auto add = [&](const std::string& name, RereadFile pwm, RereadFile rpm) {
    if (pwm.exists()) fans.push_back({&SystemSample::fans_percent, name, std::move(pwm), 100, 255});
    if (rpm.exists()) fans.push_back({&SystemSample::fans_rpm, name, std::move(rpm)});
  };
  for (const auto& chip : entries(root / "sys/class/hwmon"))
    add(file_text(chip / "name"), RereadFile(chip / "pwm1"), first_file(chip, {"fan1_input", "rpm"}));
  for (const char* folder : {"sys/devices/pwm-fan", "sys/kernel/debug/tegra_fan"})
    if (fans.empty())
      add("pwm-fan", RereadFile(root / folder / "target_pwm"), RereadFile(root / folder / "rpm_measured"));
  return make_sensors("fans: {} sensors", std::move(fans));
}

// Power rails of Jetson boards: INA3221 and INA238 under hwmon (JetPack 5 and later), INA3221 under iio
// before that.
std::unique_ptr<MetricSource> make_power_source(const std::filesystem::path& root) {
  constexpr double kMilliwatt = 1e-3, kMicrowatt = 1e-6;
  std::vector<Sensor> rails;
  for (const auto& chip : entries(root / "sys/class/hwmon")) {
    const std::string name = file_text(chip / "name");
    // Channels 4 to 7 are shunt voltages and a sum, not rails. Volts and amperes are in thousandths.
    for (int i = 1; name == "ina3221" && i <= 3; ++i)
      rails.push_back({&SystemSample::power_watts, file_text(chip / fmt::format("in{}_label", i)),
                       RereadFile(chip / fmt::format("in{}_input", i)), kMicrowatt, 1,
                       RereadFile(chip / fmt::format("curr{}_input", i))});
    if (name == "ina238")
      rails.push_back({&SystemSample::power_watts, "VIN", RereadFile(chip / "power1_input"), kMicrowatt});
  }
  for (const auto& device : entries(root / "sys/bus/i2c/devices"))
    for (const auto& channel : entries(device, "iio:device"))
      for (int i = 0; i <= 2; ++i)
        rails.push_back({&SystemSample::power_watts, file_text(channel / fmt::format("rail_name_{}", i)),
                         RereadFile(channel / fmt::format("in_power{}_input", i)), kMilliwatt});
  std::erase_if(rails, [](const Sensor& rail) { return rail.name.empty() || rail.name == "NC"; });
  return make_sensors("power: {} rails", std::move(rails));
}

std::unique_ptr<MetricSource> make_throttle_source(const std::filesystem::path& root) {
  std::vector<RereadFile> alerts, counts;
  for (const auto& device : entries(root / "sys/class/thermal", "cooling_device"))
    if (file_text(device / "type").ends_with("throttle-alert"))
      if (RereadFile state(device / "cur_state"); state.exists()) alerts.push_back(std::move(state));
  if (!alerts.empty()) return std::make_unique<ThrottleSource>(std::move(alerts));
  for (const auto& cpu : entries(root / "sys/devices/system/cpu"))
    if (RereadFile count(cpu / "thermal_throttle/core_throttle_count"); count.exists())
      counts.push_back(std::move(count));
  if (counts.empty()) return nullptr;
  return std::make_unique<ThrottleCountSource>(std::move(counts));
}

}  // namespace headroom::sources
