// The state of a worker, and the parts of its job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "bench/protocol.h"
#include "bench/worker/events.h"
#include "bench/worker/frames.h"
#include "inference/backend.h"
#include "inference/preprocessor.h"
#include "inference/task.h"
#include "media/frame_ring.h"
#include "types/detection.h"

namespace headroom::bench {

// A model, ready for frames: session, task, preprocessing and bound inputs.
class LoadedModel {
 public:
  // Loads the model, recognises its task and binds its inputs. A model without a known vision task gets
  // inputs made from its signature.
  static Result<LoadedModel> load(inference::Backend& backend, const WorkerModel& model,
                                  const WorkerJob& job);

  // Its task is "generic" if it has no known vision task. Outputs are known only if a run was needed to learn
  // them; later workers of this model then need no such run.
  const ModelFacts& facts() const { return facts_; }

  // Runs one frame through the model and fills all times except `decode`. Models without a task ignore
  // `frame`. Headroom's own code allocates nothing here after the first frames.
  Status process(const FrameView& frame, FrameTimes& times);
  // The findings of the last frame.
  const FrameFindings& findings() const { return findings_; }
  // Runs a grey frame of the model's input size, to warm up without a source.
  Status process_blank(FrameTimes& times);
  // Called between objects and videos: frees cached memory and clears recurrent state.
  Status clean();

 private:
  // Memory with a fixed address, aligned for vector loads.
  struct AlignedFree {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Input {
    std::unique_ptr<void, AlignedFree> data;
    std::size_t bytes = 0;
    std::vector<std::int64_t> dims;
    ElementType type = ElementType::float32;
    std::vector<std::byte> initial;  // restored by clean(); empty for the image input
  };

  explicit LoadedModel(inference::Session session) : session_(std::move(session)) {}
  Status learn_outputs(const WorkerJob& job);
  Status make_inputs(const WorkerJob& job);

  std::vector<Input> inputs_;  // declared before the session, which reads the inputs as long as it exists
  inference::Session session_;
  std::unique_ptr<inference::Task> task_;
  std::unique_ptr<inference::Preprocessor> preprocessor_;
  std::vector<TensorView> outputs_;
  FrameFindings findings_;
  std::vector<std::uint8_t> blank_;
  ModelFacts facts_;
};

// The state of a worker: its job, its runtimes and models, and the frames.
struct Worker {
  WorkerJob job;
  WorkerEvents events{kEventsFd};
  std::optional<media::FrameRing> ring;
  std::vector<inference::Backend> backends;  // one per backend; usually one
  std::vector<LoadedModel> models;
  std::optional<FrameTurns> turns;  // with another run's worker (--in-step)
};

// The runtime of a model of the job, once it was started; nullptr before.
inference::Backend* find_backend(Worker& worker, const WorkerModel& model);

// Loads the libraries of all runtimes that the job needs and initialises its devices. Ends the phase
// runtime_loaded.
Status start_runtimes(Worker& worker);

// Adds a model to worker.models and reports it to the conductor.
Status load_model(Worker& worker, const WorkerModel& model);

// Runs blank frames, at least one, and starts no further one after `at_most`.
Status warm_on_blank(Worker& worker, LoadedModel& model, std::int64_t frames,
                     std::optional<Nanoseconds> at_most = {});

// Frees the memory that the models keep between runs, and resets their state.
Status clean_models(Worker& worker);

// --- The runs, through all phases after runtime_loaded.

// One model (inference), or all models in one process (pipeline). Loads the models, warms them up, and runs
// them over every frame of the source, or over inputs made from their signatures.
Status run_inference(Worker& worker);

// --pool: each frame goes through all models. A pool loads and unloads them to keep the process within its
// budget. The run starts with no model loaded, so it includes the first loads.
Status run_pooled(Worker& worker);

// --task vos: all prepared videos through one tracker. After the last one, the model is unloaded and loaded
// repeatedly, to see whether its memory returns.
Status run_vos(Worker& worker);
// The setup's and the tuner's run of it, on blank frames: one object, then as many as run together.
Status try_vos(Worker& worker);

}  // namespace headroom::bench
