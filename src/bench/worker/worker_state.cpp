#include "bench/worker/worker_state.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/json.h"
#include "bench/conductor/child_process.h"
#include "inference/backend.h"
#include "inference/synthetic_input.h"
#include "types/device_name.h"

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
  const Nanoseconds started = monotonic_now();
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
  ModelFacts& facts = loaded.facts_;
  facts.name = model.name;
  facts.task = loaded.task_ ? std::string(loaded.task_->name()) : "generic";
  facts.takes_frames = loaded.task_ != nullptr;
  if (!loaded.task_ && model.task.empty())
    facts.without_task = inference::why_without_task(loaded.session_.description());
  if (loaded.task_) facts.class_names = loaded.task_->class_names();
  facts.precision = parse_precision(loaded.session_.description().metadata_value("headroom.precision"));
  facts.placement = loaded.session_.placement();
  facts.load_time = monotonic_now() - started;
  return loaded;
}

// Runs the model once on generated inputs, to learn the outputs that the task recognition needs.
Status LoadedModel::learn_outputs(const WorkerJob& job) {
  if (auto made = make_inputs(job); !made) return made;
  if (auto ran = session_.run(); !ran) return ran;
  if (auto learnt = session_.learn_outputs(); !learnt) return learnt;
  facts_.outputs = session_.description().outputs;
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
  facts_.input.clear();
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
    if (!facts_.input.empty()) facts_.input += ", ";
    facts_.input += TensorSpec{"", input.type, input.dims, {}}.describe();
    inputs_.push_back(std::move(input));
  }
  if (task_) preprocessor_ = std::make_unique<inference::Preprocessor>(task_->input());
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

inference::Backend* find_backend(Worker& worker, const WorkerModel& model) {
  const auto found = std::ranges::find(worker.backends, model.backend, &inference::Backend::name);
  return found == worker.backends.end() ? nullptr : &*found;
}

namespace {

// A CUDA context costs hundreds of megabytes and belongs to no model, so it is created before the first model
// is loaded.
Status prepare_devices(Worker& worker) {
  std::vector<std::string> ready;
  for (const WorkerModel& model : worker.job.models) {
    const auto device = parse_device_name(model.settings.device);
    if (!device || !device->is_cuda) continue;
    auto facts = find_backend(worker, model)->prepare_device(model.settings.device);
    if (!facts) return forward_error(facts);
    const std::string name = device->text();
    if (std::ranges::find(ready, name) != ready.end()) continue;
    ready.push_back(name);
    worker.events.send("device", message_to_json(DeviceFacts{device->ordinal, name, facts->name, facts->uuid,
                                                             facts->total, facts->is_integrated}));
  }
  return {};
}

}  // namespace

Status start_runtimes(Worker& worker) {
  const Nanoseconds started = monotonic_now();
  for (const WorkerModel& model : worker.job.models) {
    if (find_backend(worker, model) != nullptr) continue;
    auto backend = inference::Backend::open({model.backend, model.backend_path});
    if (!backend) return forward_error(backend);
    if (auto running = backend->start(); !running) return running;
    worker.backends.push_back(std::move(*backend));
  }
  const inference::Backend& first = worker.backends.front();
  RuntimeFacts facts{first.version(), monotonic_now() - started, has_fixed_addresses()};
  if (first.name() == "onnxruntime") facts.telemetry = allows_telemetry();
  worker.events.send("runtime", message_to_json(facts));
  if (auto ready = prepare_devices(worker); !ready) return ready;
  worker.events.mark(Phase::runtime_loaded);
  return {};
}

Status load_model(Worker& worker, const WorkerModel& model) {
  auto loaded = LoadedModel::load(*find_backend(worker, model), model, worker.job);
  if (!loaded) return forward_error(loaded);
  worker.models.push_back(std::move(*loaded));
  worker.events.send("model", message_to_json(worker.models.back().facts()));
  return {};
}

Status warm_on_blank(Worker& worker, LoadedModel& model, std::int64_t frames,
                     std::optional<Nanoseconds> at_most) {
  FrameTimes times;
  const Nanoseconds started = monotonic_now();
  for (std::int64_t i = 0; i < frames; ++i) {
    if (auto ran = model.process_blank(times); !ran) return ran;
    worker.events.alive();
    if (at_most && monotonic_now() - started > *at_most) break;
  }
  return {};
}

Status clean_models(Worker& worker) {
  for (LoadedModel& model : worker.models)
    if (auto cleaned = model.clean(); !cleaned) return cleaned;
  return {};
}

}  // namespace headroom::bench
