// Stores each distinct frame and stack of a snapshot once. Nearly every trace entry has a list of frames, but
// millions of lists contain only some hundred different ones.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "snapshot/pickle_data.h"
#include "snapshot/snapshot.h"

namespace headroom::snapshot {

class StackInterner {
 public:
  StackInterner(PickleData& data, Snapshot& snapshot)
      : data_(data), snapshot_(snapshot), frame_keys_(data, {"name", "filename", "line"}) {}

  // For KeepObject: the number of a dict that is a frame, or of a list of frames; nothing for other objects.
  // Frames have numbers from kFrame on.
  static constexpr std::uint32_t kFrame = std::uint32_t{1} << 31;
  std::optional<std::uint32_t> keep_frame(PickleValue dict);
  std::optional<std::uint32_t> keep_stack(PickleValue list);

  // The stack of a list of frames, converted or not. Stack 0 if the value is not a list or has no frames.
  StackIndex stack_of(PickleValue frames);

 private:
  static constexpr std::size_t kMostFrames = 512;  // the innermost frames are kept
  StackIndex intern(const std::vector<std::uint32_t>& frames);

  PickleData& data_;
  Snapshot& snapshot_;
  PickleColumns<3> frame_keys_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> frames_by_hash_, stacks_by_hash_;
  std::vector<std::uint32_t> frames_;  // of the current list
};

}  // namespace headroom::snapshot
