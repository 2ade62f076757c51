// Frames and stacks of a snapshot, each kept once. A trace has a list of frames for nearly every entry, and
// among millions of lists there are some hundreds that differ.
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

  // The number of a dict that is a frame, and of a list of frames; nothing of others. For KeepObject: what is
  // kept under a number is known by it, which of a frame is kFrame and more.
  static constexpr std::uint32_t kFrame = std::uint32_t{1} << 31;
  std::optional<std::uint32_t> keep_frame(PickleValue dict);
  std::optional<std::uint32_t> keep_stack(PickleValue list);

  // The stack of a list of frames, kept or not; what is no list, or has no frame, is stack 0.
  StackIndex stack_of(PickleValue frames);

 private:
  static constexpr std::size_t kMostFrames = 512;  // the innermost are kept
  StackIndex intern(const std::vector<std::uint32_t>& frames);

  PickleData& data_;
  Snapshot& snapshot_;
  PickleColumns<3> frame_keys_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> frames_by_hash_, stacks_by_hash_;
  std::vector<std::uint32_t> frames_;  // of the list at hand
};

}  // namespace headroom::snapshot
