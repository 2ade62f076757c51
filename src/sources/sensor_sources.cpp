// Sensors of the board: clocks and temperatures of processors, thermal zones, fans, power rails, throttling.
#include <fmt/format.h>

#include <algorithm>

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

bool read_sensors(const std::vector<Sensor>& sensors, SystemSample& sample) {
  bool could_read = false;
  for (const Sensor& sensor : sensors) {
    const auto value = sensor.file.read_integer();
    const auto second = sensor.second ? sensor.second->read_integer() : std::optional<std::int64_t>(1);
    if (!value || !second) continue;
    could_read = true;
    // A gated rail reads as -256 °C: absent, not cold.
    if (sensor.list == &SystemSample::temperatures_celsius && *value <= -200'000) continue;
    (sample.*sensor.list)
        .push_back({sensor.name, static_cast<double>(*value) * static_cast<double>(*second) * sensor.factor /
                                     sensor.divisor});
  }
  return could_read;
}

// `name`: "thermal: {} zones".
SourcePointer make_sensors(const char* name, std::vector<Sensor> sensors) {
  std::erase_if(sensors, [](const Sensor& sensor) {
    return !sensor.file.exists() || (sensor.second && !sensor.second->exists());
  });
  if (sensors.empty()) return nullptr;
  std::string description = fmt::format(fmt::runtime(name), sensors.size());
  return make_source(std::move(description), [sensors = std::move(sensors)](SystemSample& sample) {
    return read_sensors(sensors, sample);
  });
}

}  // namespace

// One clock per policy: a group of cores that change their clock together. The name comes from the first
// core.
SourcePointer make_cpu_clock_source(const fs::path& root) {
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
SourcePointer make_cpu_temperature_source(const fs::path& root) {
  std::vector<Sensor> sensors;
  for (const auto& chip : entries(root / "sys/class/hwmon")) {
    const std::string name = file_text(chip / "name");
    if (name == "coretemp" || name == "k10temp" || name == "zenpower")
      sensors.push_back(
          {&SystemSample::temperatures_celsius, name, RereadFile(chip / "temp1_input"), 1, 1e3});
  }
  return make_sensors("CPU temperature: {} sensors", std::move(sensors));
}

SourcePointer make_thermal_source(const fs::path& root) {
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
SourcePointer make_fan_source(const fs::path& root) {
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
SourcePointer make_power_source(const fs::path& root) {
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

// The alerts of a board, or on x86 the counts of how often heat throttled the cores since the kernel started.
SourcePointer make_throttle_source(const fs::path& root) {
  std::vector<RereadFile> files;
  for (const auto& device : entries(root / "sys/class/thermal", "cooling_device"))
    if (file_text(device / "type").ends_with("throttle-alert"))
      if (RereadFile state(device / "cur_state"); state.exists()) files.push_back(std::move(state));
  const bool are_counts = files.empty();
  if (are_counts)
    for (const auto& cpu : entries(root / "sys/devices/system/cpu"))
      if (RereadFile count(cpu / "thermal_throttle/core_throttle_count"); count.exists())
        files.push_back(std::move(count));
  if (files.empty()) return nullptr;
  auto read = [files = std::move(files), are_counts,
               before = std::optional<std::int64_t>()](SystemSample& sample) mutable {
    std::optional<std::int64_t> sum;
    for (const RereadFile& file : files)
      if (const auto number = file.read_integer()) sum = sum.value_or(0) + std::max<std::int64_t>(*number, 0);
    const auto least = are_counts ? before : std::optional<std::int64_t>(0);
    if (sum && least) sample.throttled = sample.throttled.value_or(false) || *sum > *least;
    before = sum;
    return sum.has_value();
  };
  return make_source(are_counts ? "throttle counts of the cores" : "throttle alerts", std::move(read));
}

}  // namespace headroom::sources
