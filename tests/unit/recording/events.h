// Collects the events and problems of a recording for tests.
#pragma once

#include <cstring>
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

// Values in the bytes of a file.
template <class Value>
void put(std::string& bytes, std::size_t offset, Value value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}
template <class Value>
Value get(const std::string& bytes, std::size_t offset) {
  Value value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace headroom::recording
