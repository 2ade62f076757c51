// A model in a worker, ready for frames: session, task, preprocessing and bound inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/protocol.h"
#include "bench/worker/events.h"
#include "inference/backend.h"
#include "inference/preprocessor.h"
#include "inference/task.h"
#include "types/detection.h"

namespace headroom::bench {

// A decoded frame: 8-bit BGR, packed rows.
struct FrameView {
  const std::uint8_t* bgr = nullptr;
  int width = 0, height = 0;
};

class LoadedModel {
 public:
  // Loads the model, recognises its task and binds its inputs. A model without a known vision task gets
  // inputs made from its signature.
  static Result<LoadedModel> load(inference::Backend& backend, const WorkerModel& model,
                                  const WorkerJob& job);

  bool takes_frames() const { return task_ != nullptr; }
  // "yolox", or "generic" for a model without a known vision task.
  std::string task_name() const;
  // "float32[1,3,640,640]" for every input, separated by ", ".
  std::string input_text() const { return input_text_; }
  const std::vector<std::string>& class_names() const;
  std::optional<inference::NodeCounts> placement() { return session_.placement(); }
  // The precision that the runtime computes in, if it reports one.
  std::optional<Precision> precision() const;
  // The outputs, if a run was needed to learn them. Later workers of this model then need no such run.
  const std::vector<TensorSpec>& learnt_outputs() const { return learnt_outputs_; }

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
  Status bind_inputs();

  std::vector<Input> inputs_;  // declared before the session, which reads the inputs as long as it exists
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
