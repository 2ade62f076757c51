// The metrics of the whole machine, from /proc and /sys. Everything is read under a root prefix, so that the
// file tree of another board can be tried anywhere.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/sample.h"

namespace headroom::sources {

// Takes samples of all sources that this machine has. What is not there is absent in the sample. The first
// sample has no rates (CPU percent, swap-ins). Sources are looked for at the construction, and again every
// ten seconds those that were not there; new sensors, too. A source that gave nothing ten times in a row is
// named once in the log and left out until it is found again.
class SystemSampler {
 public:
  explicit SystemSampler(const std::filesystem::path& root = "/",
                         Nanoseconds between_probes = {10'000'000'000});
  ~SystemSampler();
  SystemSampler(SystemSampler&&) noexcept;
  SystemSample sample();
  // Into a sample that was used before: allocates nothing once its lists have grown. For samples that are
  // taken by the thousand.
  void sample_into(SystemSample& sample);
  // What was found, for the log: "meminfo", "psi", "thermal: 3 zones", …
  std::vector<std::string> found() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headroom::sources
