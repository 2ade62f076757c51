// Collects the events and problems of a recording for tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "unit/recording/own_recording.h"

namespace headroom::recording {

struct Seen {
  std::vector<MemoryEvent> events;
  std::vector<std::string> problems;
};

inline Seen read_events(Recording& recording) {
  Seen seen;
  recording.for_each_event([&](const MemoryEvent& event) { seen.events.push_back(event); });
  seen.problems = recording.problems();
  return seen;
}

// For a file that must open without an error.
inline Seen read_events(const std::filesystem::path& path) {
  auto recording = Recording::open(path);
  EXPECT_TRUE(recording.has_value()) << recording.error().sentence();
  return recording ? read_events(*recording) : Seen{};
}

}  // namespace headroom::recording
