// Helpers for tests: generated samples of a machine, and the doctor's findings in them.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "doctor/machine/machine_history.h"

namespace headroom::test {

// A board of 8 GiB with swap, half of it used.
inline SystemSample sample_at(int second) {
  SystemSample sample;
  sample.time = {second * std::int64_t{1'000'000'000}};
  sample.ram_total = gibibytes(8);
  sample.ram_available = gibibytes(4);
  sample.ram_free = gibibytes(2);
  sample.swap_total = gibibytes(4);
  sample.swap_used = Bytes{};
  sample.psi_full_stalled = Nanoseconds{};
  sample.psi_some_stalled = Nanoseconds{};
  sample.refaults = 0;
  sample.pages_swapped_in = 0;
  return sample;
}

// Several sessions in sequence, each with times from 0.
inline std::vector<Finding> findings_of_sessions(
    const std::vector<std::pair<int, std::function<void(int, SystemSample&)>>>& sessions) {
  doctor::MachineHistory history;
  for (const auto& [seconds, change] : sessions)
    for (int i = 0; i < seconds; ++i) {
      SystemSample sample = sample_at(i);
      change(i, sample);
      history.add(sample);
    }
  return doctor::machine_findings(history, "watch.jsonl");
}

inline std::vector<Finding> findings_of(int seconds, const std::function<void(int, SystemSample&)>& change) {
  return findings_of_sessions({{seconds, change}});
}

// A GPU with 24 GiB.
inline GpuSample gpu_with(Bytes used, std::int64_t index = 0) {
  GpuSample gpu;
  gpu.index = index;
  gpu.memory_total = gibibytes(24);
  gpu.memory_used = used;
  return gpu;
}

inline std::optional<double> number_figure(const Finding& finding, std::string_view name) {
  for (const Figure& each : finding.figures) {
    if (each.name != name) continue;
    if (const auto* whole = std::get_if<std::int64_t>(&each.value)) return static_cast<double>(*whole);
    return std::get<double>(each.value);
  }
  return std::nullopt;
}

inline ProcessSample process(std::int64_t pid, const char* name, Bytes rss) {
  ProcessSample sample;
  sample.pid = pid;
  sample.name = name;
  sample.rss = rss;
  return sample;
}

inline std::vector<std::string> ids(const std::vector<Finding>& findings) {
  std::vector<std::string> names;
  for (const Finding& finding : findings) names.push_back(finding.id);
  return names;
}

// The only finding, with this id.
inline Finding only(const char* id, const std::vector<Finding>& findings) {
  EXPECT_THAT(ids(findings), testing::ElementsAre(id));
  return findings.empty() ? Finding() : findings.front();
}

}  // namespace headroom::test
