// A model in a worker: session, task, pre-processing and bound inputs, ready for frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/worker_events.h"
#include "bench/worker_protocol.h"
#include "inference/backend.h"
#include "inference/preprocessor.h"
#include "inference/task.h"
#include "model/detection.h"

namespace headroom::bench {

// A decoded frame: 8-bit BGR, rows packed.
struct FrameView {
  const std::uint8_t* bgr = nullptr;
  int width = 0, height = 0;
};

class LoadedModel {
 public:
  // Loads the model, finds its task and binds its inputs. A model without a known vision task gets inputs
  // made from its signature.
  static Result<LoadedModel> load(inference::Backend& backend, const WorkerModel& model,
                                  const WorkerJob& job);

  bool takes_frames() const { return task_ != nullptr; }
  // "yolox", or "generic" for a model without a known vision task.
  std::string task_name() const;
  // "float32[1,3,640,640]" of every input, separated by ", ".
  std::string input_text() const { return input_text_; }
  const std::vector<std::string>& class_names() const;
  std::optional<inference::NodeCounts> placement() { return session_.placement(); }
  // What the runtime computes in, where it says.
  std::optional<Precision> precision() const;
  // The outputs, if a run was made to learn them; the next worker of the model needs none.
  const std::vector<TensorSpec>& learnt_outputs() const { return learnt_outputs_; }

  // One frame through the model; fills all but `decode` of the times. `frame` is ignored by models without a
  // task. Allocates nothing of its own after the first frames.
  Status process(const FrameView& frame, FrameTimes& times);
  // The findings of the last frame.
  const FrameFindings& findings() const { return findings_; }
  // A grey frame of the model's own input size, for warming without a source.
  Status process_blank(FrameTimes& times);
  // Between objects and videos: gives cached memory back and clears recurrent state.
  Status clean();

 private:
  // Memory whose place does not change, aligned for vector loads.
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
  Status bind_inputs();

  std::vector<Input> inputs_;  // before the session, which reads them as long as it lives
  inference::Session session_;
  std::unique_ptr<inference::Task> task_;
  std::unique_ptr<inference::Preprocessor> preprocessor_;
  std::vector<TensorView> outputs_;
  FrameFindings findings_;
  std::vector<std::uint8_t> blank_;
  std::string input_text_;
  std::vector<TensorSpec> learnt_outputs_;
};

}  // namespace headroom::bench
