// The times of every frame of the running model. Percentiles need every value, and a run may have millions of
// frames. At most 2,048 frames are kept in memory. When there are more, the frames move to an unnamed file in
// the run folder, 56 bytes a frame. So the conductor's memory does not grow. The kernel removes the file when
// it is closed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "bench/worker/events.h"

namespace headroom::bench {

class KeptFrames {
 public:
  // `folder` empty: all frames stay in memory.
  explicit KeptFrames(std::filesystem::path folder = {}) : folder_(std::move(folder)) {}

  void add(const FrameTimes& frame);
  std::size_t size() const { return in_file_ + recent_.size(); }
  bool empty() const { return size() == 0; }
  // Copies the frames from index `first` into `buffer`; returns the number of frames copied.
  std::size_t read(std::size_t first, std::span<FrameTimes> buffer) const;
  // Passes all frames to `piece`, in order, piece by piece.
  void each(const std::function<void(std::span<const FrameTimes>)>& piece) const;
  // Why frames could not be moved to the file or read back; empty if there was no problem.
  const std::string& problem() const { return problem_; }

 private:
  void move_to_file();

  std::filesystem::path folder_;
  UniqueFd file_;
  std::size_t in_file_ = 0;         // frames in the file
  std::vector<FrameTimes> recent_;  // frames after those in the file
  mutable std::string problem_;
};

}  // namespace headroom::bench
