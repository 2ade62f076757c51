// The worker's voice: JSON lines on descriptor 3, and the memory figures of each phase.
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
#include "bench/device_watch.h"
#include "model/bench_result.h"
#include "model/frame_times.h"
#include "model/sample.h"

namespace headroom::bench {

// To the nanosecond; /proc counts in ticks of 10 ms, which is nothing for a run of a few milliseconds.
Nanoseconds cpu_time_of_this_process();

class WorkerEvents {
 public:
  explicit WorkerEvents(int fd);

  // From now on phases and errors have the devices' memory, too. It must outlive this.
  void set_device_watch(DeviceWatch* watch) { watch_ = watch; }
  // Reads this process's resident bytes and high-water mark, sends them as the end of the phase that led
  // here, and resets the mark, so that the next peak belongs to the next phase. Returns what was read.
  ProcessMemory mark(Phase phase);
  void send(const nlohmann::ordered_json& event);
  void send_error(const Error& error, bool out_of_memory);

  // What follows runs in the measured loop, between frames, and allocates nothing.

  // A sign of life, sent at most four times a second: for long work that says nothing else.
  void alive();
  // The worker has asked the decoder for frames, or has got its answer.
  void waits_for_decoder(bool waits);
  // A window is done: how many frames were in memory, and how many could not be decoded since the last one.
  void held(std::size_t frames, std::int64_t skipped);
  // An error of kind `oom` where there is no memory left to make one of; `what` has no quotes.
  void refused(const char* what);
  // Keeps one frame's times; sends them in batches (twice a second, when the buffer is full, or when
  // another model's begin, as in a pipeline).
  void record(std::size_t model, const FrameTimes& times);
  // Sends what is kept. Called when a window of frames is done.
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
