// A file tree that replaces a machine's /proc and /sys, and the samples of a text.
#pragma once

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

}  // namespace headroom::sources
