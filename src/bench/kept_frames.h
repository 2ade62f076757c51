// The times of every frame of a model under way. Percentiles are values that were measured, so none can be
// left out, and a run may have millions: what is more than 2,048 goes to a file without a name in the run's
// folder, 56 bytes a frame, which is gone with the worker. The conductor's memory stays the same.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "bench/worker_events.h"

namespace headroom::bench {

class KeptFrames {
 public:
  // `folder` empty: all stay in memory.
  explicit KeptFrames(std::filesystem::path folder = {}) : folder_(std::move(folder)) {}

  void add(const FrameTimes& frame);
  std::size_t size() const { return in_file_ + recent_.size(); }
  bool empty() const { return size() == 0; }
  // Fills `room` with the frames from `first` on; returns how many there were.
  std::size_t read(std::size_t first, std::span<FrameTimes> room) const;
  // Gives all of them, in order, piece by piece.
  void each(const std::function<void(std::span<const FrameTimes>)>& piece) const;
  // Why frames stay in memory that should be in the file, or could not be read back; empty if all is well.
  const std::string& problem() const { return problem_; }

 private:
  void move_to_file();

  std::filesystem::path folder_;
  UniqueFd file_;
  std::size_t in_file_ = 0;         // frames
  std::vector<FrameTimes> recent_;  // those behind them
  mutable std::string problem_;
};

}  // namespace headroom::bench
