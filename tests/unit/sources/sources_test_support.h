// A file tree that replaces a machine's /proc and /sys, and the samples of a text.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/text.h"
#include "sources/system_sampler.h"
#include "sources/text_samples.h"
#include "support/test_support.h"

namespace headroom::sources {

class Tree {
 public:
  void file(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    test::write_text(folder_.path() / path, text);
  }
  // A thermal zone.
  void zone(int number, const std::string& type, const std::string& value) const {
    const std::string folder = "sys/class/thermal/thermal_zone" + std::to_string(number);
    file(folder + "/type", type + "\n");
    file(folder + "/temp", value + "\n");
  }
  // A channel of the power monitor at hwmon1.
  void rail(int channel, const std::string& label, int millivolts, int milliamperes) const {
    const std::string base = "sys/class/hwmon/hwmon1/", number = std::to_string(channel);
    file(base + "name", "ina3221\n");
    file(base + "in" + number + "_label", label + "\n");
    file(base + "in" + number + "_input", std::to_string(millivolts) + "\n");
    file(base + "curr" + number + "_input", std::to_string(milliamperes) + "\n");
  }
  const std::filesystem::path& root() const { return folder_.path(); }
  // The first sample of a sampler for this tree.
  SystemSample sample() const { return SystemSampler(root()).sample(); }

 private:
  test::TemporaryFolder folder_;
};

inline std::vector<SystemSample> text_samples(std::string_view kind, std::string_view text,
                                              const std::vector<std::string>& columns = {}) {
  std::vector<SystemSample> samples;
  const auto keep = [&](SystemSample& sample) { samples.push_back(sample); };
  const auto reader = make_text_reader(kind, columns);
  for (const std::string_view line : split(text, '\n')) reader->read_line(line, keep);
  reader->finish(keep);
  return samples;
}

// The figures that a GPU has: "0 name=NVIDIA L4 total=23034MiB gpu%=0 celsius=46".
inline std::string figures_of(const GpuSample& gpu) {
  std::string words = gpu.index ? std::to_string(*gpu.index) : "?";
  const auto add_text = [&](const char* name, const std::string& value) {
    if (!value.empty()) words += fmt::format(" {}={}", name, value);
  };
  const auto add = [&](const char* name, const auto& value) {
    if (value) words += fmt::format(" {}={}", name, *value);
  };
  const auto size_of = [](const std::optional<Bytes>& size) { return size ? exact_size(*size) : ""; };
  add_text("name", gpu.name);
  add_text("uuid", gpu.uuid);
  add_text("bus", gpu.pci_bus_id);
  if (gpu.lost) words += " lost";
  add_text("total", size_of(gpu.memory_total));
  add_text("used", size_of(gpu.memory_used));
  add_text("free", size_of(gpu.memory_free));
  add_text("reserved", size_of(gpu.memory_reserved));
  add("gpu%", gpu.gpu_percent);
  add("memory%", gpu.memory_percent);
  add("encoder%", gpu.encoder_percent);
  add("decoder%", gpu.decoder_percent);
  add("graphics", gpu.graphics_clock_hz);
  add("sm", gpu.sm_clock_hz);
  add("memory", gpu.memory_clock_hz);
  add("watts", gpu.power_watts);
  add("most_watts", gpu.power_limit_watts);
  add("celsius", gpu.temperature_celsius);
  add("throttled", gpu.throttled);
  add_text("reasons", fmt::format("{}", fmt::join(gpu.throttle_reasons, ", ")));
  add_text("limits", fmt::format("{}", fmt::join(gpu.clock_limits, ", ")));
  add("mig", gpu.mig_enabled);
  for (const MigInstance& each : gpu.mig_instances)
    words += fmt::format(" [{} {} {}]", each.index, each.name, each.uuid);
  if (gpu.processes) words += " processes";
  for (const GpuProcess& each : gpu.processes.value_or(std::vector<GpuProcess>{}))
    words += fmt::format(" {}:{}", each.pid, size_of(each.used));
  return words;
}

}  // namespace headroom::sources
