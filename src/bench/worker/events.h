// The worker's events: JSON lines on descriptor 3, with the memory figures of each phase.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "bench/worker/device_watch.h"
#include "types/bench_result.h"
#include "types/frame_times.h"
#include "types/sample.h"

namespace headroom::bench {

// Exact to the nanosecond. /proc counts in ticks of 10 ms, too coarse for a run of a few milliseconds.
Nanoseconds cpu_time_of_this_process();

class WorkerEvents {
 public:
  explicit WorkerEvents(int fd);

  // From now on, phase and error events include GPU memory. `watch` must outlive this.
  void set_device_watch(DeviceWatch* watch) { watch_ = watch; }
  // Reads this process's resident bytes and high-water mark and sends them as the end of the current phase.
  // Then resets the mark, so that the next peak belongs to the next phase. Returns the figures.
  ProcessMemory mark(Phase phase);
  void send(const nlohmann::ordered_json& event);
  void send_error(const Error& error, bool out_of_memory);

  // The functions below run in the measured loop, between frames, and allocate nothing.

  // Shows that the worker is alive, at most four times a second: for long work that sends nothing else.
  void alive();
  // Sent when the worker asks the decoder for frames, and when it has the answer.
  void waits_for_decoder(bool waits);
  // Ends a window: the number of frames in memory, and how many could not be decoded since the last window.
  void held(std::size_t frames, std::int64_t skipped);
  // Sends an error of kind `oom` without allocating; `what` must contain no quotes.
  void send_out_of_memory(const char* what);
  // Keeps one frame's times. Sends them in batches: twice a second, when the buffer is full, or when the
  // model changes, as in a pipeline.
  void record(std::size_t model, const FrameTimes& times);
  // Sends the kept times. Called at the end of each window of frames.
  void flush();

 private:
  void send_text(std::string_view line);
  int fd_;
  DeviceWatch* watch_ = nullptr;
  std::size_t model_ = 0;
  std::vector<FrameTimes> kept_;
  std::vector<char> text_;
  Nanoseconds last_flush_, last_alive_;
};

}  // namespace headroom::bench
