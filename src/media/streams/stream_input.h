// The bytes of the frames: from a program's pipe, or from a file or FIFO of raw frames.
#pragma once

#include <sys/uio.h>

#include <optional>
#include <utility>
#include <vector>

#include "media/streams/tool_process.h"

namespace headroom::media {

// Live sources without a new byte for this long have stalled.
inline constexpr Nanoseconds kStallTime{10'000'000'000};

class StreamInput {
 public:
  // `stall_time`: none for files, where reading is bounded by the disk.
  StreamInput(ToolProcess tool, std::optional<Nanoseconds> stall_time)
      : tool_(std::move(tool)), stall_time_(stall_time) {}
  StreamInput(UniqueFd file, std::optional<Nanoseconds> stall_time)
      : file_(std::move(file)), stall_time_(stall_time) {}

  struct Progress {
    std::size_t bytes = 0;
    bool has_stalled = false;
    int error = 0;  // errno of a failed read, or 0
  };
  // Waits until bytes, or their end, can be read. Returns false if the source stalls.
  bool wait() { return wait_until(Until::readable); }
  // The same, until the program has printed the size of the frames or has closed its messages.
  bool wait_for_frame_size() { return wait_until(Until::frame_size); }
  // Fills the parts in order, and changes them. Reads less only at the end, if the source stalls, or if
  // reading fails.
  Progress fill(std::vector<iovec>& parts);

  ToolProcess* tool() { return tool_ ? &*tool_ : nullptr; }
  std::optional<Nanoseconds> stall_time() const { return stall_time_; }

 private:
  enum class Until { readable, frame_size };
  bool wait_until(Until until);
  int fd() const { return tool_ ? tool_->frames_fd() : file_.get(); }

  std::optional<ToolProcess> tool_;
  UniqueFd file_;
  std::optional<Nanoseconds> stall_time_;
};

}  // namespace headroom::media
