#include "bench/worker/loaded_model.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "inference/isolated/isolated_session.h"
#include "inference/synthetic_input.h"

namespace headroom::bench {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::uint32_t kInputSeed = 1;
constexpr std::uint8_t kGrey = 114;

// With a pool, a model may run in a separate process. Its timeout is 90 % of the pool's load timeout, so that
// a load that hangs fails before the pool gives up.
Result<inference::Session> open_session(inference::Backend& backend, const WorkerModel& model,
                                        const WorkerJob& job) {
  if (!job.pool || !model.isolated) return backend.load(model.path, model.settings);
  const Nanoseconds timeout{job.pool->load_timeout.count / 10 * 9};
  return inference::load_isolated({model.backend, model.backend_path}, model.path, model.settings, timeout);
}

}  // namespace

Result<LoadedModel> LoadedModel::load(inference::Backend& backend, const WorkerModel& model,
                                      const WorkerJob& job) {
  auto session = open_session(backend, model, job);
  if (!session) return forward_error(session);
  LoadedModel loaded(std::move(*session));
  if (!loaded.session_.knows_outputs()) {
    if (!model.outputs.empty())
      loaded.session_.assume_outputs(model.outputs);
    else if (auto learnt = loaded.learn_outputs(job); !learnt)
      return forward_error(learnt);
  }
  inference::TaskOptions options;
  options.forced = model.task;
  options.image_size = job.image_size;
  options.confidence = static_cast<float>(model.confidence.value_or(job.confidence));
  options.iou = static_cast<float>(model.iou.value_or(job.iou));
  auto task = inference::create_task(loaded.session_.description(), options);
  if (!task) return forward_error(task);
  loaded.task_ = std::move(*task);
  if (auto made = loaded.make_inputs(job); !made) return forward_error(made);
  return loaded;
}

std::string LoadedModel::task_name() const { return task_ ? std::string(task_->name()) : "generic"; }

const std::vector<std::string>& LoadedModel::class_names() const {
  static const std::vector<std::string> kNone;
  return task_ ? task_->class_names() : kNone;
}

std::optional<Precision> LoadedModel::precision() const {
  return parse_precision(session_.description().metadata_value("headroom.precision"));
}

// Runs the model once on generated inputs, to learn the outputs that the task recognition needs.
Status LoadedModel::learn_outputs(const WorkerJob& job) {
  if (auto made = make_inputs(job); !made) return made;
  if (auto ran = session_.run(); !ran) return ran;
  if (auto learnt = session_.learn_outputs(); !learnt) return learnt;
  learnt_outputs_ = session_.description().outputs;
  return {};
}

Status LoadedModel::make_inputs(const WorkerJob& job) {
  const ModelDescription& description = session_.description();
  ModelDescription concrete = description;
  if (task_)
    for (std::size_t i = 0; i < concrete.inputs.size(); ++i) concrete.inputs[i].dims = task_->input_dims()[i];
  auto made = inference::make_synthetic_inputs(concrete, job.image_size, kInputSeed);
  if (!made) return forward_error(made);
  // keep: the session reads them until the new inputs are bound
  std::vector<Input> earlier = std::move(inputs_);
  inputs_.clear();
  input_text_.clear();
  for (std::size_t i = 0; i < made->size(); ++i) {
    inference::SyntheticInput& source = (*made)[i];
    Input input;
    input.dims = source.dims;
    input.type = source.type;
    input.bytes = source.data.size();
    const std::size_t rounded =
        (std::max<std::size_t>(input.bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    input.data.reset(std::aligned_alloc(kAlignment, rounded));
    if (!input.data)
      return failure(
          fmt::format("cannot allocate {} for input {}", format_bytes({static_cast<std::int64_t>(rounded)}),
                      description.inputs[i].name),
          "out of memory");
    std::memcpy(input.data.get(), source.data.data(), input.bytes);
    if (!task_ || task_->input().input_index != i) input.initial = std::move(source.data);
    if (!input_text_.empty()) input_text_ += ", ";
    input_text_ += TensorSpec{"", input.type, input.dims, {}}.describe();
    inputs_.push_back(std::move(input));
  }
  if (task_) {
    const inference::InputSpec& spec = task_->input();
    preprocessor_ = std::make_unique<inference::Preprocessor>(spec);
  }
  return bind_inputs();
}

Status LoadedModel::bind_inputs() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    Input& input = inputs_[i];
    if (auto bound = session_.bind_input(i, input.data.get(), input.bytes, input.type, input.dims); !bound)
      return bound;
  }
  return {};
}

Status LoadedModel::process(const FrameView& frame, FrameTimes& times) {
  const Nanoseconds started = monotonic_now();
  inference::FrameTransform transform;
  if (task_)
    transform =
        preprocessor_->run(frame.bgr, frame.width, frame.height, static_cast<std::size_t>(frame.width) * 3,
                           inputs_[task_->input().input_index].data.get());
  const Nanoseconds prepared = monotonic_now();
  if (auto ran = session_.run(); !ran) return ran;
  const Nanoseconds inferred = monotonic_now();
  times.device = session_.device_time();
  if (task_) {
    if (auto got = session_.outputs(outputs_); !got) return got;
    findings_.clear();
    task_->decode(outputs_, transform, findings_);
    times.findings = findings_.count();
  }
  times.preprocess = prepared - started;
  times.inference = inferred - prepared;
  times.postprocess = monotonic_now() - inferred;
  return {};
}

Status LoadedModel::process_blank(FrameTimes& times) {
  if (!task_) return process({}, times);
  const inference::InputSpec& spec = task_->input();
  // Allocated on first use: the measured run on real frames does not need it.
  blank_.resize(static_cast<std::size_t>(spec.width) * static_cast<std::size_t>(spec.height) * 3, kGrey);
  return process({blank_.data(), spec.width, spec.height}, times);
}

Status LoadedModel::clean() {
  for (Input& input : inputs_)
    if (!input.initial.empty()) std::memcpy(input.data.get(), input.initial.data(), input.bytes);
  return session_.trim();
}

}  // namespace headroom::bench
