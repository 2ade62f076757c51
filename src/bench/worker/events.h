// The worker's events: JSON lines on descriptor 3 (protocol.h), with the memory figures of each phase. Also
// how a worker reports that it ran out of memory.
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
#include "bench/protocol.h"
#include "ledger/device_query.h"
#include "sources/nvml_source.h"
#include "types/bench_result.h"
#include "types/sample.h"

namespace headroom::bench {

// A worker's GPU memory, read by the worker itself. It has two sources: the ledger of the preload library,
// and the driver's figure for the process. Each source is optional.
class DeviceWatch {
 public:
  // For the devices of a job (CUDA ordinals). Opens NVML before the model allocates anything.
  explicit DeviceWatch(std::vector<unsigned> ordinals);

  // Reads the memory of each device, and resets the peaks for the next phase.
  GpuReading read_and_reset();
  // The ledger's bytes on all devices now; absent without a ledger.
  std::optional<Bytes> charged() const;
  // "cuda:0 refused 32.0 MiB at its limit of 4.0 GiB (4.0 GiB in use)"; empty if nothing was refused since
  // the last read_and_reset().
  std::string describe_new_refusals() const;

 private:
  std::vector<unsigned> ordinals_;
  std::vector<std::uint64_t> refused_;  // requests refused so far, at the last read; same order as ordinals_
  ledger::DeviceFiguresFunction figures_ = nullptr;
  ledger::ResetDevicePeakFunction reset_peak_ = nullptr;
  std::unique_ptr<sources::OwnGpuMemory> driver_;
};

// Exact to the nanosecond. /proc counts in ticks of 10 ms, too coarse for a run of a few milliseconds.
Nanoseconds cpu_time_of_this_process();

class WorkerEvents {
 public:
  explicit WorkerEvents(int fd);

  // From now on, phase and error events include GPU memory.
  void watch_devices(std::vector<unsigned> ordinals) { watch_.emplace(std::move(ordinals)); }
  // GPU memory now, by the ledger; absent on the CPU.
  std::optional<Bytes> device_bytes() const { return watch_ ? watch_->charged() : std::nullopt; }
  // Reads this process's resident bytes and high-water mark and sends them as the end of the current phase.
  // Then resets the mark, so that the next peak belongs to the next phase. Returns the figures.
  ProcessMemory mark(Phase phase);
  void send(std::string_view kind);
  void send(std::string_view kind, const nlohmann::ordered_json& fields);
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
  std::optional<DeviceWatch> watch_;
  std::size_t model_ = 0;
  std::vector<FrameTimes> kept_;
  std::vector<char> text_;
  Nanoseconds last_flush_, last_alive_;
};

// Sets the default stack of new threads to 1 MiB instead of glibc's 8 MiB, because RLIMIT_DATA also refuses
// memory that is only reserved; then a thread cannot start. The main thread keeps its stack. Does nothing
// unless RLIMIT_DATA is set and glibc supports it.
void use_small_stacks_under_a_data_limit();

// True if RLIMIT_DATA is set and so little of it is left that the stack of one thread may not fit.
bool is_near_data_limit();

// True if the message is that of a system call that failed for lack of memory: a thread (EAGAIN) or a mapping
// (ENOMEM).
bool mentions_refused_memory(std::string_view message);

// From now on, an uncaught exception caused by a failed allocation or thread start is sent as an `oom` error
// before the process aborts. `events` must outlive the process's work.
void report_refusals_at_terminate(WorkerEvents& events);

}  // namespace headroom::bench
