// The state of a worker: its job, its runtimes and models, and the frames.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "bench/protocol.h"
#include "bench/worker/device_watch.h"
#include "bench/worker/events.h"
#include "bench/worker/frame_turns.h"
#include "bench/worker/loaded_model.h"
#include "inference/backend.h"
#include "media/frame_ring.h"

namespace headroom::bench {

struct Worker {
  WorkerJob job;
  std::unique_ptr<DeviceWatch> watch;  // for a job on GPUs; the events refer to it
  WorkerEvents events{kEventsFd};
  std::optional<media::FrameRing> ring;
  std::vector<inference::Backend> backends;  // one per backend; usually one
  std::vector<LoadedModel> models;
  std::optional<FrameTurns> turns;  // with another run's worker (--in-step)
};

// Loads the libraries of all runtimes that the job needs and initialises its devices. Ends the phase
// runtime_loaded.
Status start_runtimes(Worker& worker);

// Adds a model to worker.models and reports it to the conductor.
Status load_model(Worker& worker, const WorkerModel& model);

// Frees the memory that the models keep between runs, and resets their state.
Status clean_models(Worker& worker);

}  // namespace headroom::bench
