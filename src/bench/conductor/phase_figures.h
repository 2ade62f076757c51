// A worker's figures so far: plain data, filled from its events (worker_protocol.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "bench/conductor/gpu_account.h"
#include "bench/conductor/kept_frames.h"
#include "types/bench_result.h"
#include "types/gpu_memory.h"
#include "types/tensor.h"

namespace headroom::bench {

// The figures of one model of the job.
struct ModelAccount {
  std::string name, task, input;
  bool takes_frames = false;
  std::vector<std::string> class_names;
  std::optional<Nanoseconds> load_time;
  std::optional<Bytes> resident_after_load;  // pipeline only
  KeptFrames frames;
  std::optional<NodePlacement> placement;
  std::optional<Precision> precision;  // that the runtime computes in, if it reports one
  std::vector<TensorSpec> outputs;     // learnt from a run
};

// Resident bytes and peak at the end of a phase, as the worker read them itself.
struct PhaseAccount {
  Phase phase;
  Nanoseconds time;  // since the worker's start
  std::optional<Bytes> resident, peak, data;
  std::optional<Nanoseconds> cpu_time;
  std::optional<Bytes> file_backed;
};

// One model of a pool.
struct PooledAccount {
  std::int64_t requests = 0, hits = 0, unloads = 0, evictions = 0, refusals = 0, failures = 0;
  std::string error;
  std::optional<Bytes> charge;
  std::vector<std::int64_t> loads, waits;  // ns
};

struct PoolAccount {
  std::vector<PooledAccount> models;  // in the order of the job
  std::vector<std::int64_t> frames;   // ns for all models that a frame runs
  std::optional<Bytes> baseline, books_peak, peak;
  std::optional<Nanoseconds> load_time, reload_time;
  std::int64_t samples = 0, samples_over = 0;
};

struct WorkerAccount {
  Nanoseconds started;               // start of the worker; times of events count from here
  std::filesystem::path run_folder;  // for frame times; empty: they stay in memory

  std::vector<ModelAccount> models;
  std::vector<PhaseAccount> phases;
  GpuAccount gpus;
  PoolAccount pool;
  std::vector<CleanupPoint> cleanups;
  std::vector<std::string> warnings;
  std::string runtime_version;
  std::optional<Nanoseconds> runtime_load_time, warmup_time;
  std::optional<bool> fixed_addresses,
      telemetry;  // fixed addresses of the process; telemetry of its runtime, if it has any
  std::optional<Nanoseconds> measuring_since, cpu_time_then;
  std::int64_t frames_held = 0, skipped_frames = 0;
  std::optional<InStep> in_step;  // without the id, which the conductor knows
  bool waits_for_gate = false, awaits_decoder = false, is_done = false;
  bool peak_reset_works = true;
  ModelStatus status = ModelStatus::ok;  // as the worker reported, or from its exit (WorkerRun)
  std::string error;
  std::optional<Bytes> peak_at_error;  // since its last phase, if the worker reported its own error

  Phase phase() const { return phases.empty() ? Phase::start : phases.back().phase; }
  // The last mark of a phase; nullptr if it was not reached.
  const PhaseAccount* find(Phase phase) const;
};

// Adds an event. Ignores events that are unknown or incomplete.
void add_event(WorkerAccount& account, const nlohmann::ordered_json& event);

}  // namespace headroom::bench
