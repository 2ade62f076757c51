// What the conductor knows of a running worker: its figures, collected from its events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/units.h"
#include "bench/protocol.h"
#include "ledger/account.h"
#include "types/bench_result.h"

namespace headroom::bench {

// The times of every frame of a model. Percentiles need every value, and a run may have millions of frames.
// At most 2,048 frames are kept in memory. When there are more, the frames move to an unnamed file in the run
// folder, 56 bytes a frame. So the conductor's memory does not grow. The kernel removes the file when it is
// closed.
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

// The conductor's account of a worker's GPU memory, collected from its events.
class GpuAccount {
 public:
  // A device that the worker has initialised.
  void add_device(const DeviceFacts& facts);
  // The reading at the end of a phase. With `has_failed` it is an error event's, and `phase` is the last
  // phase that the worker reached.
  void add_phase(Phase phase, const GpuReading& gpu, bool has_failed = false);
  // Memory by device; empty for a worker on the CPU. `limits` absent: no limit was set. A model is within the
  // limit if it was not killed by it and its own peaks did not exceed it.
  std::vector<GpuMemory> memory(const std::optional<ledger::Limits>& limits, ModelStatus status) const;

 private:
  struct Device {
    unsigned ordinal = 0;
    GpuMemory memory;
  };
  Device* find(unsigned ordinal);
  std::vector<Device> devices_;
};

// The figures of one model of the job.
struct ModelAccount : ModelFacts {
  std::optional<Bytes> resident_after_load;  // pipeline only
  KeptFrames frames;
};

// A worker's figures so far: plain data, filled from its events (protocol.h).
struct WorkerAccount {
  Nanoseconds started;               // start of the worker; times of events count from here
  std::filesystem::path run_folder;  // for frame times; empty: they stay in memory

  std::vector<ModelAccount> models;
  std::vector<PhaseAccount> phases;
  RuntimeFacts runtime;
  GpuAccount gpus;
  PoolAccount pool;
  std::vector<CleanupPoint> cleanups;
  std::vector<std::string> warnings;
  std::optional<MeasuringStart> measuring;
  std::int64_t frames_held = 0, skipped_frames = 0;
  std::optional<VosResult> vos;             // only with --task vos
  std::optional<VosProgress> vos_progress;  // of the clip that it tracks now
  std::size_t frames_before_clip = 0;
  std::optional<InStep> in_step;  // without the id, which the conductor knows
  bool waits_for_gate = false, awaits_decoder = false, is_done = false;
  bool peak_reset_works = true;
  ModelStatus status = ModelStatus::ok;  // as the worker reported, or from its exit (WorkerRun)
  std::string error;
  bool is_input_error = false;         // the worker's own error is of ErrorKind::input
  std::optional<Bytes> peak_at_error;  // since its last phase, if the worker reported its own error

  Phase phase() const { return phases.empty() ? Phase::start : phases.back().phase; }
  // The last mark of a phase; nullptr if it was not reached.
  const PhaseAccount* find(Phase phase) const;
};

// Adds an event. Ignores events that are unknown or damaged.
void add_event(WorkerAccount& account, const nlohmann::ordered_json& event);

}  // namespace headroom::bench
